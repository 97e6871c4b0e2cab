"""The hook by which values show themselves."""

from __future__ import annotations

import pytest

from regard import display


class Thing:
    """Shows itself."""

    _repr_html_ = display.as_html


@pytest.fixture
def painters(monkeypatch):
    monkeypatch.setattr(display, "_PAINTERS", [])


@pytest.mark.usefixtures("painters")
def test_without_a_painter_text_is_shown():
    assert Thing()._repr_html_() is None


@pytest.mark.usefixtures("painters")
def test_the_last_painter_paints():
    thing = Thing()
    display.shown_by(lambda _: "first")
    display.shown_by(lambda value: f"<b>{value is thing}</b>")
    assert thing._repr_html_() == "<b>True</b>"


def test_regard_itself_says_who_paints():
    import regard

    assert regard.display.__name__ == "regard.display"
    assert len(display._PAINTERS) == 1
