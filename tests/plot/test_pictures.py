"""The helpers that look for texts in the way find them."""

from __future__ import annotations

import pytest

from plot.pictures import covered, outside, texts
from regard.plot.sheet import Box, opened


def test_clean_sheets_are_clean():
    with opened({}, (4.0, 4.0)) as sheet:
        sheet.write("one", 1.0, 1.0, size=9)
        sheet.write("two", 1.0, 2.0, size=9)
    assert covered(sheet.figure) == [] == outside(sheet.figure)
    assert texts(sheet.figure) == ["one", "two"]


def test_a_text_on_another_is_found():
    with opened({}, (4.0, 4.0)) as sheet:
        sheet.write("one", 1.0, 1.0, size=9)
        sheet.write("two", 1.1, 1.03, size=9)
    assert covered(sheet.figure) == [("one", "two")]


@pytest.mark.parametrize("at", [(3.9, 2.0), (-0.1, 2.0), (2.0, 3.97), (2.0, -0.05)])
def test_a_text_beyond_the_edge_is_found(at):
    with opened({}, (4.0, 4.0)) as sheet:
        sheet.write("wide text", *at, size=9)
    assert outside(sheet.figure) == ["wide text"]


def test_ticks_count_as_texts():
    with opened({}, (4.0, 4.0)) as sheet:
        axes = sheet.axes(Box(0.5, 0.5, 1.0, 1.0))
        axes.set_xticks([0.0, 0.05], ["first", "second"])
        axes.set_yticks([])
    assert covered(sheet.figure) == [("first", "second")]
