"""Maps: every cell in its place, in its colour, and the axes say which is which."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import codes
from regard.draw import Axis, Paper, heat_map, largest_side, palette, plain, widest_side
from regard.draw.spelling import cells

TRUE = Paper(80, 40, "true")
MONO, SIMPLE = Paper(80), Paper(80, is_ascii=True)


def causal(size: int) -> np.ndarray:
    """Shares that grow along the keys; what lies ahead is masked."""
    shares = np.broadcast_to(np.linspace(0, 1, size), (size, size)).copy()
    shares[np.triu_indices(size, 1)] = np.nan
    return shares


def pixels(lines, height: int, width: int) -> list[list[str]]:
    """The map's cells read back from half blocks: a colour, or nothing where masked."""
    grid = [[""] * width for _ in range(height + height % 2)]
    for n, line in enumerate(lines):
        column = 0
        for text, style in line[1:]:  # behind the gutter
            ink, _, ground = style.partition(" on ")
            for sign in text:
                upper, lower = {"▀": (ink, ground), "▄": ("", ink), "·": ("", "")}[sign]
                grid[2 * n][column], grid[2 * n + 1][column] = upper, lower
                column += 1
    return grid[:height]


@pytest.mark.parametrize("size", [13, 24, 64])
@pytest.mark.parametrize("colours", ["true", "256"])
def test_half_blocks_hold_every_cell(size, colours):
    shares = causal(size)
    lines = heat_map(shares, Axis(), Axis(), Paper(80, 14 + size // 2, colours))
    *picture, _ = lines
    assert len(picture) == -(-size // 2)
    for row, colours_of_row in zip(shares, pixels(picture, size, size), strict=True):
        for share, shown in zip(row, colours_of_row, strict=True):
            code = int(codes(share))
            assert shown == ("" if np.isnan(share) else palette.colour(code, colours))


SHORT = 20  # lines of paper on which a map of a few cells is not drawn larger


@pytest.mark.parametrize(("is_ascii", "hidden"), [(False, "·"), (True, ".")])
def test_signs_where_there_is_no_colour(is_ascii, hidden):
    shares = np.zeros((7, 7))
    shares[1, :3] = 0.5, 1.0, np.nan
    lines = plain(heat_map(shares, Axis(), Axis(), Paper(80, SHORT, is_ascii=is_ascii)))
    assert lines[:2] == ["0", f"  ++@@{hidden}"]
    assert lines[-1] == "  0"


def test_few_cells_are_drawn_larger():
    lines = plain(heat_map([[1.0, 0.0], [0.0, 1.0]], Axis(0, 10), Axis(0, 10), SIMPLE))
    assert lines[:4] == [" 0 " + "@@" * 4, *["   " + "@@" * 4] * 3]
    assert lines[4] == "   " + "  " * 4 + "@@" * 4
    assert len(lines) == 9
    tall = plain(heat_map(np.ones((9, 9)), Axis(0, 10), Axis(0, 10), SIMPLE))
    assert [line.split()[0] for line in tall[:-1:8]] == ["0", "26", "53", "80"]


def test_signs_shrink_to_fit():
    shares = np.ones((2, 30))
    wide, narrow = (plain(heat_map(shares, Axis(), Axis(), Paper(w)))[0] for w in (80, 40))
    assert (wide.count("@"), narrow.count("@")) == (60, 30)


def test_beyond_the_scale_is_its_end():
    shares = np.full((7, 7), -9.0)
    shares[0, 1] = 9.0
    lines = plain(heat_map(shares, Axis(), Axis(), Paper(80, SHORT)))
    assert lines[0] == "0   @@"


def test_positions_stand_at_their_cells():
    lines = plain(heat_map(np.ones((20, 20)), Axis(100, 16), Axis(0, 16), MONO))
    assert [line[:3] for line in lines[:-1:8]] == ["100", "228", "356"]
    ticks = lines[-1]
    assert ticks.split() == ["0", "128", "256"]
    assert ticks.index("128") == lines[0].index("@") + 2 * 8


TOKENS = ["<s>", "The", " cat", "\n"]


def test_tokens_label_small_maps():
    axis = Axis(tokens=TOKENS)
    assert plain(heat_map(causal(4), axis, axis, SIMPLE)) == [
        "         _",
        "     < T c",
        "     s h a \\",
        "     > e t n",
        " <s>   . . .",
        " The   --. .",
        "_cat   --**.",
        "  \\n   --**@@",
    ]


def test_labelled_cells_are_squares_of_colour():
    axis = Axis(tokens=TOKENS)
    *_, last = heat_map(causal(4), axis, axis, TRUE)
    assert last[0] == ("   ⏎ ", "dim")
    assert [text for text, _ in last[1:]] == ["██"] * 4
    assert last[-1][1] == palette.colour(255, "true")


def test_forty_tokens_are_labelled_and_no_more():
    axis = Axis(tokens=["token"] * 40), Axis(tokens=["token"] * 41)
    assert "token" in plain(heat_map(causal(40), axis[0], axis[0], TRUE))[-1]
    assert "token" not in "".join(plain(heat_map(causal(41), axis[1], axis[1], TRUE)))


def test_labels_give_way_on_narrow_paper():
    axis = Axis(tokens=["token"] * 30)
    lines = plain(heat_map(causal(30), axis, axis, Paper(36, 40, "true")))
    assert "token" not in "".join(lines)
    assert max(map(cells, lines)) <= 36


@pytest.mark.parametrize(
    ("paper", "side"),
    [
        (Paper(80, 46, "true"), 64),
        (Paper(200, 74, "true"), 120),
        (Paper(80, 24, "true"), 24),
        (Paper(80, 46), 32),
        (Paper(20, 10), 8),
    ],
)
def test_the_largest_side_follows_the_terminal(paper, side):
    assert largest_side(paper) == side
    assert widest_side(paper) == paper.width - 7


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_map_is_no_lines(shape):
    assert heat_map(np.zeros(shape), Axis(), Axis(), TRUE) == []
