"""The scale line says how values became shares."""

from __future__ import annotations

from regard.colour import TIMES_UNIFORM, Scale
from regard.draw import Paper, plain, scale_lines


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
