"""The lesson as HTML that runs nothing and asks for nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.learn import Options, make_lesson
from regard.learn.render.html import html_body
from regard.learn.story.narration import narrate

ALLOWED = {
    "header", "main", "section", "h1", "h2", "p", "b", "span", "pre", "div", "table", "caption",
    "thead", "tbody", "tr", "th", "td",
    "math", "mrow", "mi", "mo", "mfrac", "msup", "msub", "msqrt",
}  # fmt: skip


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def page(text: str = "The cat sat", **options) -> str:
    return html_body(narrate(make_lesson(Options(text, **options))))


def test_the_whole_lesson_is_there():
    reader = read(page())
    assert "sum, the output for The = [0.8446 0.5777 0.8446 0.5777]" in reader.text
    assert "Which slip it was cannot be told" in reader.text
    assert reader.tags <= ALLOWED


@pytest.mark.parametrize(
    "options", [{"heads": 2, "block": True}, {"causal": True, "positions": True}, {"scaled": False}]
)
def test_every_option_gives_a_sound_page(options):
    assert read(page(**options)).tags <= ALLOWED


def test_nothing_is_loaded_or_run():
    text = page()
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert not re.search(r"url\(|@import|https?:", text)


def test_the_formula_follows_the_scaling():
    assert "<msqrt>" in page()
    assert "<msqrt>" not in page(scaled=False)


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img/src=x/onerror=alert(1)>",
        "</pre></style><script>x</script>",
        '"><svg/onload=alert(1)>',
        "&lt;script&gt;",
        "--><!--",
    ],
)
def test_a_sentence_cannot_become_markup(attack):
    reader = read(page(f"The {attack} sat", causal=True, heads=2))
    assert reader.tags <= ALLOWED
    assert not any(name.startswith("on") for name in reader.attributes)
    assert attack in reader.text


@settings(max_examples=40, deadline=None)
@given(
    st.text(
        alphabet=st.one_of(
            st.sampled_from("<>&\"'/=-! "), st.characters(exclude_categories=("Cs",))
        ),
        min_size=1,
        max_size=60,
    ).filter(lambda text: text.split())
)
def test_any_sentence_is_inert(text):
    reader = read(page(text))
    assert reader.tags <= ALLOWED
    assert "Worth knowing" in reader.text


def test_the_same_lesson_is_the_same_bytes():
    assert page("The dog", projections="random:1") == page("The dog", projections="random:1")
