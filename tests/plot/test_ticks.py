"""Ticks: every token where it can be read, some of them where not, else round positions."""

from __future__ import annotations

import pytest

from plot.pictures import covered, ticks
from regard.plot.sheet import Box, Sheet, settings
from regard.plot.ticks import LABELLED, Ticks, place_ticks, tick_names, tick_positions, tick_tokens

TOKENS = [f" word{n}" for n in range(LABELLED)]


@pytest.fixture
def sheet():
    with settings():
        yield Sheet((8.0, 8.0), 100, False)


def test_tokens_stand_in_the_middle_of_their_cells(sheet):
    found = tick_tokens([" a", "\n", "c"], 5, 4.0, sheet)
    assert found == Ticks([5.5, 6.5, 7.5], ["␣a", "⏎", "c"], 8.0)


def test_they_become_smaller_and_then_fewer(sheet):
    roomy, tight, cramped = (tick_tokens(TOKENS, 0, side, sheet) for side in (8.0, 4.0, 2.0))
    assert [len(one.texts) for one in (roomy, tight, cramped)] == [40, 40, 20]
    assert roomy.size == 8.0 and 5.0 < tight.size < 8.0 and cramped.size == 5.0
    assert cramped.places[1] == 2.5 and cramped.texts[1] == "␣word2"


def test_a_long_token_is_cut(sheet):
    (text,) = tick_tokens([" internationalization" * 3], 0, 4.0, sheet).texts
    assert text.startswith("␣internat") and text.endswith("…")


@pytest.mark.parametrize("side", [0.6, 1.0, 2.2, 5.0])
def test_neighbours_never_touch(sheet, side):
    axes = sheet.axes(Box(2, 2, side, side))
    names = tick_names([f"L{n}" for n in range(30)], 0, side, sheet)
    place_ticks(axes, below=Ticks([], [], 5.0), left=names, turned=False)
    axes.set_ylim(30, 0)
    sheet.figure.draw_without_rendering()
    assert covered(sheet.figure) == []


@pytest.mark.parametrize(
    ("start", "stop", "length", "texts"),
    [
        (0, 226, 5.0, ["0", "50", "100", "150", "200"]),
        (0, 226, 1.0, ["0", "200"]),
        (190, 200, 2.0, ["190", "195"]),
        (0, 1, 3.0, ["0"]),
        (7, 8, 3.0, ["7"]),
    ],
)  # fmt: skip
def test_positions_are_round(sheet, start, stop, length, texts):
    found = tick_positions(start, stop, length, sheet)
    assert list(found.texts) == texts
    assert [place - 0.5 for place in found.places] == [float(text) for text in texts]


def test_there_is_no_position_between_tokens(sheet):
    assert list(tick_positions(0, 3, 8.0, sheet).texts) == ["0", "1", "2"]


def test_turned_ticks_read_upwards(sheet):
    axes = sheet.axes(Box(2, 2, 3, 3))
    names = Ticks([0.5, 1.5], ["a", "b$c$"], 6.0)
    place_ticks(axes, below=names, left=names, turned=True)
    axes.set(xlim=(0, 2), ylim=(2, 0))
    sheet.figure.draw_without_rendering()
    assert ticks(axes, "x") == ticks(axes, "y") == ["a", "b$c$"]
    assert {one.get_rotation() for one in axes.get_xticklabels()} == {90.0}
    assert {one.get_fontsize() for one in axes.get_yticklabels()} == {6.0}
    assert not any(one.get_parse_math() for one in axes.get_xticklabels())
