"""A region in figures."""

from __future__ import annotations

import numpy as np

from regard.draw import Axis, Paper, plain, value_table

WEIGHTS = np.array([[1.0, 0.0], [0.25, 0.75]])
SHARES = np.array([[1.0, np.nan], [0.2, 0.7]])


def test_figures_stand_under_their_keys():
    rows, keys = Axis(5, tokens=["a", " b"]), Axis(4, tokens=["x", "long word"])
    assert plain(value_table(WEIGHTS, SHARES, rows, keys, Paper())) == [
        "         4     5",
        "         x long…",
        "5 a  1.000     ·",
        "6 ␣b 0.250 0.750",
    ]


def test_positions_alone_where_no_tokens_are_known():
    assert plain(value_table(WEIGHTS, SHARES, Axis(9), Axis(0), Paper())) == [
        "       0     1",
        "9  1.000     ·",
        "10 0.250 0.750",
    ]


def test_wide_regions_are_cut_into_blocks():
    weights = np.full((1, 20), 0.05)
    lines = plain(value_table(weights, weights, Axis(), Axis(), Paper(40)))
    assert len(lines) == 8
    assert max(map(len, lines)) <= 40
    assert "".join(lines[::2]).split() == [str(n) for n in range(20)]


def test_figures_are_shaded_where_there_are_colours():
    lines = value_table(WEIGHTS, SHARES, Axis(), Axis(), Paper(colours="true"))
    styles = {text.strip(): style for line in lines for text, style in line}
    assert styles["1.000"].startswith("#000000 on #") and styles["0.250"].startswith("#ffffff")
    assert styles["·"] == "dim"
