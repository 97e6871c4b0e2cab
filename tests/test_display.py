"""The hook by which values are shown and drawn."""

from __future__ import annotations

import pytest

from regard import display


class Thing:
    """Shows itself."""

    _repr_html_ = display.as_html


@pytest.fixture
def silent(monkeypatch):
    monkeypatch.setattr(display, "_ANSWERS", {})


@pytest.mark.usefixtures("silent")
def test_without_a_painter_text_is_shown():
    assert Thing()._repr_html_() is None


@pytest.mark.usefixtures("silent")
def test_the_last_to_come_answers():
    thing = Thing()
    display.answered_by(html=lambda _: "first")
    display.answered_by(html=lambda value: f"<b>{value is thing}</b>")
    assert thing._repr_html_() == "<b>True</b>"


@pytest.mark.usefixtures("silent")
def test_questions_are_passed_on():
    display.answered_by(table=lambda *given, **options: (given, options))
    assert display.ask("table", 1, "rows", top=3) == ((1, "rows"), {"top": 3})


def test_regard_itself_says_who_answers():
    import regard

    assert regard.display.__name__ == "regard.display"
    assert {"html", "table", "plot_head", "plot_row"} <= display._ANSWERS.keys()
