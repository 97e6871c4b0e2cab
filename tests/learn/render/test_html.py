"""The lesson as one HTML file that runs nothing and asks for nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.learn import Options, make_lesson
from regard.learn.render.html import html_page
from regard.learn.render.style import STYLE
from regard.learn.story.narration import narrate

VOID = {"meta", "link"}
ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "main", "section", "h1",
    "h2", "p", "b", "span", "pre", "div", "table", "caption", "thead", "tbody", "tr", "th", "td",
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
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def page(text: str = "The cat sat", **options) -> str:
    return html_page(narrate(make_lesson(Options(text, **options))))


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
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert not re.search(r"url\(|@import|https?:", text)


def test_both_colour_schemes_and_the_roles_are_styled():
    assert "prefers-color-scheme: dark" in STYLE
    for role in ("q", "k", "v", "weight", "quiet", "output"):
        assert f".{role} {{" in STYLE
    assert "max-width" in STYLE
    assert "overflow-x: auto" in STYLE


def test_every_variable_is_defined_for_light():
    used = set(re.findall(r"var\((--[a-z]+)", STYLE)) - {"--share"}
    assert used <= set(re.findall(r"(--[a-z]+):", STYLE.split("@media")[0]))


def test_weights_are_shaded_by_their_share():
    text = page()
    assert 'style="--share:0.422">0.4223</td>' in text
    assert text.count("--share:0") == 9


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
