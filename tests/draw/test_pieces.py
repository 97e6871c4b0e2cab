"""The pieces of pages: lines that end at the edge, scales, tables, figures, bars, colours, and what
a console can show."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from regard.colour import TIMES_UNIFORM, Scale
from regard.colour import shades as colours
from regard.draw import (
    Axis,
    Column,
    Paper,
    aligned,
    bar,
    binned,
    finished,
    palette,
    paper_of,
    plain,
    scale_lines,
    spark,
    value_table,
    weight_table,
    wrapped,
)
from regard.draw.spelling import cells

NARROW = Paper(20)


def test_lines_end_at_the_edge():
    line = [("a" * 12, "bold"), ("b" * 12, ""), ("c", "")]
    assert plain(finished([line], NARROW)) == ["a" * 12 + "b" * 7 + "…"]
    assert finished([[("a" * 20, "")]], NARROW) == [[("a" * 20, "")]]


def test_a_cut_between_pieces_is_marked():
    line = [("a" * 20, "bold"), ("b", "")]
    assert plain(finished([line], NARROW)) == ["a" * 19 + "…"]


def test_sentences_go_on_below():
    lines = wrapped("one two three four five six seven", NARROW, "dim", indent=2)
    assert plain(lines) == ["one two three four", "  five six seven"]
    assert {style for line in lines for _, style in line} == {"dim"}


def test_the_line_says_what_is_shown():
    paper = Paper(100, colours="true")
    (line,) = plain(scale_lines(TIMES_UNIFORM, paper, "mean of 32×32 tokens a cell"))
    assert line == "scale: × even share, log, 0.1–100 · mean of 32×32 tokens a cell  " + "█" * 16


def test_the_line_in_ascii_shows_the_ramp():
    (line,) = plain(scale_lines(TIMES_UNIFORM, Paper(is_ascii=True), "no pooling"))
    assert line == "scale: x even share, log, 0.1-100, no pooling  [ :-=+*#%@]"


def test_the_legend_runs_through_the_palette():
    (line,) = scale_lines(Scale("w", 0, 1), Paper(colours="true"))
    swatch = [style for text, style in line if text == "█"]
    assert len(swatch) == len(set(swatch)) == 16
    assert plain(scale_lines(Scale("w", 0, 1), Paper(), legend=False)) == ["scale: w, linear, 0–1"]


def test_narrow_paper_breaks_the_line_between_remarks():
    lines = plain(scale_lines(TIMES_UNIFORM, Paper(33, is_ascii=True), "one remark", "another"))
    assert lines == ["scale: x even share, log, 0.1-100", "one remark, another  [ :-=+*#%@]"]


COLUMNS = [Column("key", ["3", "12"], is_number=True), Column("token", ["猫", "the"])]


def test_columns_line_up():
    assert plain(aligned(COLUMNS, Paper())) == ["key  token", "  3  猫", " 12  the"]


def test_no_rows_are_a_heading_alone():
    assert plain(aligned([Column("key", [])], Paper())) == ["key"]


def test_bars_start_in_one_column():
    head, first, second = plain(weight_table(COLUMNS, [0.5, 0.25], Paper(is_ascii=True)))
    assert head == "key  token"
    assert first.endswith("#" * 20) and second.endswith("#" * 10)
    assert cells(first) - 20 == cells(second) - 10


def test_without_weight_there_are_no_bars():
    assert plain(weight_table(COLUMNS, [0.0, 0.0], Paper())) == plain(aligned(COLUMNS, Paper()))


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


FANCY, SIMPLE = Paper(), Paper(is_ascii=True)


@pytest.mark.parametrize(
    ("share", "fancy", "simple"),
    [(1, "██████████", "##########"), (0.5, "█████", "#####"), (0.05, "▌", "#"), (0, "", "")],
)
def test_bars(share, fancy, simple):
    assert bar(share, 10, FANCY) == fancy
    assert bar(share, 10, SIMPLE) == simple


@given(st.floats())
def test_bars_stay_in_their_box(share):
    for paper in (FANCY, SIMPLE):
        shown = bar(share, 7, paper)
        assert cells(shown) <= 7
        assert bool(shown) == (share > 0)


def test_profiles():
    assert spark([0, 1, 4, 8], FANCY) == "▁▂▅█"
    assert spark([0, 1, 4, 8], SIMPLE) == ".:+@"
    assert spark([0.5, np.nan, 2.0], FANCY, high=1.0) == "▅ █"
    assert spark([0.0, 0.0], FANCY) == "▁▁"
    assert spark([], FANCY) == ""


def test_a_small_spike_is_seen():
    assert spark([1, 100], FANCY) == "▂█"
    assert spark([0.1, 100], FANCY) == "▁█"


def test_long_profiles_are_averaged():
    means = binned(np.arange(100.0), 10)
    assert means.tolist() == [4.5 + 10 * n for n in range(10)]
    assert binned([1.0, 2.0], 10).tolist() == [1.0, 2.0]


def test_what_is_missing_does_not_count():
    given = np.full(20, np.nan)
    given[:2] = 3.0
    means = binned(given, 5)
    assert means[0] == 3.0 and np.isnan(means[1:]).all()


# What is left of linear red, green and blue for eyes without one kind of cone (Viénot 1999).
WITHOUT_RED = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
WITHOUT_GREEN = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_share_has_a_colour_and_a_sign(share):
    code = int(colours.codes(share))
    assert palette.colour(code, "true").startswith("#")
    assert palette.ramp_sign(code) in palette.RAMP


@pytest.mark.parametrize("seen", [WITHOUT_RED, WITHOUT_GREEN], ids=["red", "green"])
def test_it_reads_without_one_kind_of_cone(seen):
    linear = (colours.palette() / 255) ** 2.2
    left = np.clip(linear @ seen.T, 0, 1) ** (1 / 2.2) * 255
    light = colours.lightness(left)
    assert np.diff(light[::16]).min() > 0.01
    assert light[-1] - light[0] > 0.7


def test_the_fixed_colours_are_real_and_never_darker():
    chosen = palette.xterm()
    assert chosen.min() >= 16 and len(set(chosen.tolist())) >= 12
    levels = np.array([0, 95, 135, 175, 215, 255])
    cube = [c for c in chosen.astype(int) if c < 232]
    rgb = [[levels[(c - 16) // 36], levels[(c - 16) // 6 % 6], levels[(c - 16) % 6]] for c in cube]
    assert np.diff(colours.lightness(rgb)).min() >= 0


def test_styles_name_the_colour():
    assert palette.colour(255, "true") == "#" + bytes(colours.palette()[255]).hex()
    assert palette.colour(0, "256") == f"color({palette.xterm()[0]})"


@pytest.mark.parametrize("colours", ["true", "256"])
def test_ink_is_light_on_dark_and_dark_on_light(colours):
    white, black = palette.ink(0, colours), palette.ink(255, colours)
    assert (white, black) in (("#ffffff", "#000000"), ("color(231)", "color(16)"))


def test_the_ramp_uses_every_sign_in_order():
    signs = [palette.ramp_sign(code) for code in range(256)]
    assert list(dict.fromkeys(signs)) == list(palette.RAMP)
    assert "." not in palette.RAMP and palette.RAMP.isascii()


def console(**given) -> Console:
    """A console in memory, 90 by 30 unless told otherwise."""
    size = {"width": 90, "height": 30} | given
    return Console(file=io.StringIO(), _environ={}, **size)


@pytest.mark.parametrize(
    ("system", "colours"),
    [("truecolor", "true"), ("256", "256"), ("standard", "none"), (None, "none")],
)
def test_the_palette_needs_256_colours(system, colours):
    paper = paper_of(console(force_terminal=True, color_system=system), is_ascii=False)
    assert paper == Paper(width=90, height=30, colours=colours)


def test_no_colour_where_none_is_wanted():
    refused = console(force_terminal=True, color_system="truecolor", no_color=True)
    assert paper_of(refused, is_ascii=False).colours == "none"
    piped = console(color_system="truecolor")
    assert paper_of(piped, is_ascii=False).colours == "none"


def test_ascii_has_no_colours():
    paper = paper_of(console(force_terminal=True, color_system="truecolor"), is_ascii=True)
    assert paper.is_ascii and paper.colours == "none"


def test_a_pipe_has_no_lower_edge():
    assert paper_of(console(height=5), is_ascii=False).height == Paper().height


def test_paper_is_never_too_narrow_to_draw_on():
    assert paper_of(console(width=3), is_ascii=False).width == 20


def test_every_sign_has_a_twin_in_ascii():
    fancy, simple = Paper(), Paper(is_ascii=True)
    for name in ("hidden", "dash", "dot", "ellipsis", "times"):
        assert not getattr(fancy, name).isascii()
        assert getattr(simple, name).isascii()


def test_plain_forgets_styles_and_blanks_at_the_end():
    assert plain([[("a", "bold"), (" b  ", "")], []]) == ["a b", ""]
