"""A page in a frame of a notebook."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

import pytest

from regard.learn import Options, make_lesson
from regard.viewer.notebook import (
    frame,
    lesson_page,
    page_title,
    recording_page,
    without_picture,
)
from support.recordings import in_memory
from viewer.shell import Elements, use_small_page


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    use_small_page(monkeypatch)


class _Frame(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.attributes: dict[str, str | None] = {}
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes = dict(attrs)


def test_a_frame_holds_the_page_to_the_letter():
    page = '<p title="a">\'&amp;</p></iframe>✓ 猫'
    html = frame(page, 'say "×"')
    found = _Frame(html)
    assert found.tags == ["iframe"]
    assert found.attributes["srcdoc"] == page
    assert found.attributes["title"] == 'say "×"'
    assert html.isascii()


def test_a_frame_may_draw_and_save_and_no_more():
    found = _Frame(frame("", ""))
    assert found.attributes["sandbox"] == "allow-scripts allow-forms allow-downloads"
    assert "src" not in found.attributes


def test_why_there_is_no_picture_is_told_as_text():
    html = without_picture("<b>", "because\nof <i>")
    assert "<b>" not in html and "<i>" not in html
    assert "because of <i>" in unescape(html)


def test_a_head_opens_at_that_head():
    recording, _ = in_memory(prompts=2)
    page = Elements(recording_page(recording, prompt=1, head="L0H2"))
    assert '"open":{"view":"head","head":"L0H2"}' in page.text("script", id="regard-data")
    assert page.text("title") == "L0H2 · tiny · text 1" == page_title(recording, 1, "L0H2")


def test_a_lesson_is_carried_as_data():
    page = Elements(lesson_page(make_lesson(Options("The cat sat"))))
    assert page.text("script", id="regard-data").startswith('{"kind":"lesson","lesson":{"tokens"')
    assert page.text("title") == "Attention, step by step: The cat sat"
