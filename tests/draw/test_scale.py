"""Values become shares; the scale line says how."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import TIMES_UNIFORM, Scale, linear
from regard.draw import Paper, plain, scale_lines


@pytest.mark.parametrize(
    ("value", "share"),
    [(0.1, 0.0), (1.0, 1 / 3), (100.0, 1.0), (1e9, 1.0), (1e-9, 0.0), (0.0, 0.0), (-1.0, 0.0)],
)
def test_times_uniform_is_logarithmic_and_clamped(value, share):
    assert TIMES_UNIFORM.shares(value) == pytest.approx(share)


def test_masked_stays_masked():
    for scale in (TIMES_UNIFORM, Scale("w", 0, 1), Scale("w", 1, 1)):
        assert np.isnan(scale.shares([np.nan, 1.0])).tolist() == [True, False]


def test_a_scale_of_one_value_has_two_colours():
    assert Scale("w", 2.0, 2.0).shares([1.0, 2.0, 3.0]).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([7.0, 9.0], (7, 9)),
        ([1.0, 9.0], (0, 9)),  # 0 is near
        ([-1.0, 9.0], (-1, 9)),
        ([np.nan, np.inf], (0, 1)),
        ([], (0, 1)),
    ],
)
def test_linear_scales_fit_the_values(values, ends):
    scale = linear("w", values)
    assert (scale.low, scale.high) == ends


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
