"""Plots over pictures: what lies where, every word inside the sheet, light and dark."""

from __future__ import annotations

import numpy as np
import pytest

from plot.pictures import texts
from regard.axes import Axis, Grid, Tokens
from regard.colour.over import blended
from regard.colour.scale import times_uniform_of
from regard.errors import InputError
from support.recordings import in_memory, scene, sighted

VIT = Axis((Grid(4, 6, prefix=1, names=("class",)),))
WORDS = ["<s>", "a", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(2), Grid(4, 4), Tokens(2)))
SWIN = Axis((Grid(2, 2, windows=(2, 2), shift=1),))


def image(axes):
    return np.asarray(axes.images[0].get_array())


def frames(axes):
    return [patch.get_xy() for patch in axes.patches]


def test_each_pixel_has_its_patchs_heat_over_the_picture():
    rec, made = sighted(VIT)
    figure = rec.plot_picture("L1H0", query=9)
    row = made[1].truth.weights()[0][9]
    shares = times_uniform_of(25).shares(25 * row[1:]).reshape(4, 6)
    pixels = scene(96, 96, 0)
    wanted = blended(pixels, shares.repeat(24, 0).repeat(16, 1))
    assert np.abs(image(figure.axes[0]).astype(int) - wanted).max() <= 1
    (first, _) = frames(figure.axes[0])
    assert first == (2, 1)  # patch (1, 2) is the one that looks
    said = figure.get_label()
    assert "L1H0 · row 9 “(1, 2)”" in said
    assert f"{row[1:].sum():.3f} on patches, {row[0]:.3f} on class" in said
    assert "the frame marks the patch that looks" in said


def test_a_column_and_weights():
    rec, made = sighted(VIT)
    figure = rec.plot_picture("L0H1", key=3, raw=True)
    column = made[0].truth.weights()[1][:, 3]
    assert f"weight, linear 0–{column[1:].max():.3g}" in figure.get_label()
    assert "who looks at key 3 “(0, 2)”" in figure.get_label()
    assert frames(figure.axes[0])[0] == (2, 0)


def test_a_word_has_no_frame_and_its_text_is_told():
    rec, made = sighted(TOLD, tokens=WORDS)
    figure = rec.plot_picture("L0H0", query=-1)
    row = made[0].truth.weights()[0][19]
    assert not frames(figure.axes[0])
    assert "row 19 “␣ball”" in figure.get_label()
    assert f"{row[:2].sum() + row[18:].sum():.3f} on text" in figure.get_label()


def test_a_window_leaves_the_rest_dark():
    rec, _ = sighted(SWIN, heads=8, layers=1)
    figure = rec.plot_picture("L0H7", query=0)
    pixels = scene(96, 96, 0)
    shown, dark = image(figure.axes[0]), blended(pixels, np.full((96, 96), np.nan))
    outside_it = [(r, c) for r in range(4) for c in range(4) if r not in (3, 0) or c not in (3, 0)]
    for r, c in outside_it:
        part = slice(r * 24, r * 24 + 24), slice(c * 24, c * 24 + 24)
        assert np.array_equal(shown[part], dark[part])
    assert not np.array_equal(shown[:24, :24], dark[:24, :24])
    assert "head 1 in window 3 of 4" in figure.get_label()


def test_a_film_has_a_panel_a_frame_and_many_are_cut():
    rec, _ = sighted(Axis((Grid(2, 2, frames=4),)), layers=1)
    figure = rec.plot_picture("L0H1", query=5)
    assert {"frame 0", "frame 3"} <= set(texts(figure))
    assert len(figure.axes) == 5  # and the bar
    long, _ = sighted(Axis((Grid(2, 2, frames=20),)), layers=1)
    figure = long.plot_picture("L0H1", query=5)
    assert len(figure.axes) == 13
    assert "lies on pictures that are not drawn" in figure.get_label()


def test_all_heads_side_by_side():
    rec, made = sighted(VIT)
    figure = rec.plot_heads_over_picture(9)
    assert len(figure.axes) == 9
    assert {"L0H0", "L1H3"} <= set(texts(figure))
    lefts = [axes.get_position().x0 for axes in figure.axes[:8]]
    assert lefts[:4] == pytest.approx(lefts[4:])  # heads of a layer in a line
    row = made[1].truth.weights()[2][9]
    shares = times_uniform_of(25).shares(25 * row[1:]).reshape(4, 6)
    wanted = blended(scene(96, 96, 0), shares.repeat(24, 0).repeat(16, 1))
    assert np.abs(image(figure.axes[6]).astype(int) - wanted).max() <= 1
    assert len(rec.plot_heads_over_picture(9, heads="L1H2,L0").axes) == 6


def test_without_a_picture_the_heat_is_drawn_alone():
    rec, _ = sighted(VIT, pictures=[])
    figure = rec.plot_picture("L0H0", query=9)
    assert image(figure.axes[0]).shape == (4, 6, 3)


def test_what_has_no_patches_is_refused():
    rec, _ = in_memory()
    with pytest.raises(InputError, match="its keys are no patches of a picture"):
        rec.plot_picture("L0H0", query=3)
    with pytest.raises(InputError, match="keys that are patches"):
        rec.plot_heads_over_picture(3)
    with pytest.raises(InputError, match="give query or key"):
        sighted(VIT)[0].plot_picture("L0H0")
