"""The lesson as Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.learn import Options, make_lesson
from regard.learn.render.markdown import markdown_page
from regard.learn.story.narration import narrate


def written(text: str = "The cat sat", **options) -> str:
    return markdown_page(narrate(make_lesson(Options(text, **options))))


def outside_of_fences(text: str) -> str:
    return re.sub(r"^(`{3,})text$.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


def test_the_whole_lesson_is_there():
    text = written()
    assert text.startswith("# The cat sat\n")
    assert "## 1. Embedding" in text
    assert "| The | 0.8446 | 0.5777 | 0.8446 | 0.5777 |" in text
    assert "sum, the output for The = [0.8446 0.5777 0.8446 0.5777]" in text
    assert "- Rows are tokens here" in text


def test_tables_have_as_many_cells_in_every_row():
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", written(heads=2, causal=True), flags=re.MULTILINE)
    assert len(blocks) > 10
    for block in blocks:
        assert len({row.count("|") for row in block.strip().splitlines()}) == 1


def test_every_fence_is_closed():
    assert len(re.findall("^```", written(block=True), flags=re.MULTILINE)) % 2 == 0


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("<script>", "&lt;script&gt;"),
        ("a|b", r"a\|b"),
        ("*bold*", r"\*bold\*"),
        ("[x](y)", r"\[x\](y)"),
        ("`code`", r"\`code\`"),
    ],
)
def test_words_stay_words(word, shown):
    table = [row for row in written(f"{word} cat").splitlines() if row.startswith("|")]
    assert any(row.startswith(f"| {shown} |") for row in table)


def test_backticks_cannot_close_a_fence():
    text = written("```` cat")
    assert "`````text" in text
    inside = text.split("`````text")[1].split("\n`````\n")[0]
    assert "````" in inside


def test_html_stays_outside_of_the_text():
    outside = re.sub(
        r"^```.*?^```$", "", written("<img src=x> sat"), flags=re.MULTILINE | re.DOTALL
    )
    assert "<img" not in outside


@settings(max_examples=30, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60).filter(
        lambda text: text.split()
    )
)
def test_any_sentence_can_be_written(text):
    document = written(text)
    assert "<" not in outside_of_fences(document)
    assert "# " in document
