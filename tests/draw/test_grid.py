"""Layers by heads: the numbers can be read, the shades compared, and 32 heads fit."""

from __future__ import annotations

import numpy as np
import pytest

from regard.draw import Paper, head_grid, palette, plain
from regard.draw.spelling import cells

COLOUR, MONO, SIMPLE = Paper(80, colours="true"), Paper(80), Paper(80, is_ascii=True)


def shares(layers: int, heads: int) -> np.ndarray:
    """Some shares."""
    return np.random.default_rng(0).random((layers, heads))


def test_few_heads_have_two_decimals():
    lines = plain(head_grid([[0.5, 1.0], [0.04, np.nan]], "sink", MONO, is_share=True))
    assert lines == [
        "        0     1",
        "L0   0.50  1.00",
        "L1   0.04     ·",
        "scale: sink, linear, 0–1 · not known: ·",
    ]


@pytest.mark.parametrize("paper", [COLOUR, MONO, SIMPLE])
@pytest.mark.parametrize("heads", [1, 12, 16, 20, 25, 32])
def test_up_to_32_heads_fit_on_one_line(heads, paper):
    for is_share, factor in ((True, 1), (False, 300), (False, -3), (False, 1e-4)):
        values = shares(30, heads) * factor
        lines = plain(head_grid(values, "stat", paper, is_share=is_share))
        assert max(map(cells, lines)) <= 80
        assert sum(line.lstrip().startswith("L") for line in lines) == 30


def test_32_heads_have_hundredths_in_colour_and_tenths_without():
    values = np.full((1, 32), 0.57)
    values[0, 5] = 1.0
    colour = plain(head_grid(values, "sink", COLOUR, is_share=True))
    assert colour[2] == "L0 " + "57" * 5 + "99" + "57" * 26
    assert "in hundredths" in colour[3]
    mono = plain(head_grid(values, "sink", MONO, is_share=True))
    assert mono[2] == "L0 " + " 5" * 5 + " 9" + " 5" * 26
    assert "in tenths" in mono[3]


def test_numbers_of_heads_are_stacked_where_they_must():
    tens, ones, *_ = plain(head_grid(shares(1, 32), "sink", MONO, is_share=True))
    assert tens.split() == ["1"] * 10 + ["2"] * 10 + ["3"] * 2
    assert "".join(ones.split()) == ("0123456789" * 4)[:32]


def test_more_heads_come_in_blocks():
    lines = plain(head_grid(shares(2, 64), "sink", MONO, is_share=True))
    assert sum(line.startswith("L0") for line in lines) == 2
    assert max(map(cells, lines)) <= 80
    assert lines[4].split()[0] == "3" and len(lines[4].split()) == 32


def test_large_numbers_have_a_unit():
    lines = plain(head_grid([[1234.0] * 32], "max_score", MONO))
    assert lines[2].split() == ["L0"] + ["1"] * 32
    assert "in units of 1000" in lines[3]


def test_decimals_as_there_is_room():
    assert plain(head_grid([[4.25, 11.5]], "entropy", MONO))[1] == "L0   4.25 11.50"
    assert plain(head_grid([[1234.5, 1.0]], "max_score", MONO))[1] == "L0   1234     1"


def test_every_head_is_shaded():
    line = head_grid([[0.0, 1.0, np.nan]], "sink", COLOUR, is_share=True)[1]
    first, last = (palette.colour(code, "true") for code in (0, 255))
    assert [style for _, style in line[1:]] == [f"#ffffff on {first}", f"#000000 on {last}", "dim"]


def test_shares_are_shaded_from_0_to_1_and_others_by_what_there_is():
    middle = palette.colour(128, "true")
    assert middle in head_grid([[0.5]], "sink", COLOUR, is_share=True)[1][1][1]
    assert "linear, 7–9" in plain(head_grid([[7.0, 9.0]], "max_score", COLOUR))[-1]


def test_nothing_recorded_is_a_grid_of_dots():
    lines = plain(head_grid(np.full((2, 3), np.nan), "sink", SIMPLE, is_share=True))
    assert lines[1].split() == ["L0", ".", ".", "."]
