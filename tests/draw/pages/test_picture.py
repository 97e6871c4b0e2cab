"""Rows and keys over pictures, as pages of a terminal."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from regard.axes import Axis, Frames, Grid, Tokens
from regard.draw import Paper, finished, plain
from regard.draw.pages import column_lines, head_lines, region_lines, row_lines
from regard.draw.spelling import cells
from regard.mask import Causal
from regard.views.head import HeadView
from regard.views.picture import overlay
from regard.views.region import make_region
from regard.views.row import make_row
from regard.views.uniform import Look
from support.recordings import HOSTILE, in_memory, sighted

MONO, SIMPLE, SOME, TRUE = (
    Paper(),
    Paper(60, is_ascii=True),
    Paper(80, 40, "256"),
    Paper(90, 46, "true"),
)
VIT = Axis((Grid(4, 5, prefix=1, names=("class",)),))
WORDS = ["<s>", "a", *["<image>"] * 16, " red", " ball"]
TOLD = Axis((Tokens(2), Grid(4, 4), Tokens(2)))


def page(axis, row, paper=MONO, label="L0H0", look=None, **options):
    rec, made = sighted(axis, layers=1, **options)
    prompt = rec.prompts[0]
    view = make_row(prompt, prompt[label], row, top=4)
    lines = finished(row_lines(view, look or Look(), paper), paper)
    return "\n".join(plain(lines)), made[0].truth.weights(), lines


def test_a_row_of_patches_is_told_by_their_places():
    text, truth, _ = page(VIT, 8)
    assert "21 × 21 positions (class + 4 × 5 patches)" in text
    assert "row 8 (1, 2) · sees 21 keys" in text
    best = int(truth[0][8].argmax())
    row, column = divmod(best - 1, 5)
    assert f"({row}, {column})" in text.split("together")[1].splitlines()[1]
    assert f"{truth[0][8][1:].sum():.3f} on patches, {truth[0][8][0]:.3f} on class" in text
    assert "picture 0 · scene 0 · 4 × 5 patches" in text
    assert "scale: × even share (at most 21 keys), log, 0.1–21" in text


def test_the_darkest_sign_stands_at_the_heaviest_patch():
    text, truth, _ = page(VIT, 8, look=Look(raw=True))
    best = int(truth[0][8][1:].argmax())
    drawn = text.split("patches · ")[1].splitlines()[1:]
    marked = [(n, line.index("@")) for n, line in enumerate(drawn) if "@" in line]
    zoom = 4
    assert marked[0][0] // zoom == best // 5
    assert (marked[0][1] - 2) // (2 * zoom) == best % 5


def test_true_colours_show_the_picture_and_others_the_heat_alone():
    _, _, lines = page(VIT, 8, TRUE)
    styles = {style for line in lines for text, style in line if "▀" in text}
    assert len(styles) > 60  # the picture's own colours
    _, _, heat = page(VIT, 8, SOME)
    assert {style.split("(")[0] for line in heat for text, style in line if "▀" in text} == {
        "color"
    }


def test_without_pillow_there_is_heat_and_a_line_that_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    text, _, _ = page(VIT, 8, TRUE)
    assert "heat alone: the picture itself needs Pillow" in text.replace("\n", " ")
    assert "Pillow" not in page(VIT, 8)[0]


def test_a_picture_within_a_text():
    text, truth, _ = page(TOLD, -1, tokens=WORDS)
    row = truth[0][19]
    assert "[4 × 4 patches]" in text
    assert "<image>" not in text
    assert f"{row[2:18].sum():.3f} on patches, {row[:2].sum() + row[18:].sum():.3f} on text" in text
    assert f"[4 × 4 patches]({row[2:18].sum():.2f})" in text
    assert "> ball<" in text or "> ball(" in text


def test_a_patch_that_looks_marks_its_picture_in_the_text():
    text, *_ = page(TOLD, 5, tokens=WORDS)
    assert "> [4 × 4 patches]" in text


def test_a_window_is_shown_where_it_is():
    axis = Axis((Grid(2, 2, windows=(2, 2), shift=1),))
    text, *_ = page(axis, 1, label="L0H7", heads=8)
    assert "head 1 in window 3 of 4, from patch (3, 3) on" in text.replace("\n", " ")
    drawn = text.split("patches · ")[1].splitlines()[1:17]
    assert [line[3:].count("·") > 0 for line in drawn[4:8]] == [True] * 4
    assert "·" in drawn[0] and "window 3: 2 × 2 from (3, 3) on" in text
    assert "not looked at from here" in text


def test_a_film_shows_the_frame_with_most_weight():
    axis = Axis((Grid(3, 3, frames=4),))
    text, truth, _ = page(axis, 10, label="L0H1", seconds=[0, 0.25, 0.5, 0.75])
    masses = truth[1][10].reshape(4, 9).sum(1)
    most = masses.argmax()
    assert f"frame {most} · scene {most} · {most / 4:.2f} s · 3 × 3 patches" in text
    assert f"{masses.min():.3f} to {masses.max():.3f} a frame" in text


def test_many_pictures_are_not_all_drawn():
    axis = Axis(tuple(Grid(2, 2, picture=n) for n in range(5)))
    text, truth, _ = page(axis, 3, label="L0H1")
    masses = np.sort(truth[1][3].reshape(5, 4).sum(1))
    assert text.count("2 × 2 patches · ") == 3
    assert f"2 more pictures hold {masses[:2].sum():.3f}" in text


def test_a_grid_without_a_picture_is_drawn_all_the_same():
    text, *_ = page(Axis((Grid(3, 3, picture=-1),)), 3, TRUE)
    assert "heat alone: the recording holds no picture of it" in text


def test_a_sound_has_no_overlay():
    text, *_ = page(Axis((Frames(8, 0.5),)), 3)
    assert "row 3 1.50 s" in text
    assert "picture" not in text
    assert "time" in text


@pytest.mark.parametrize("paper", [MONO, SIMPLE, SOME, TRUE, Paper(20, 10, "true")])
def test_no_line_is_wider_than_the_paper_and_ascii_is_ascii(paper):
    for axis, options in ((VIT, {}), (TOLD, {"tokens": WORDS, "mask": Causal()})):
        text, *_ = page(axis, 7, paper, **options)
        assert max(map(cells, text.splitlines())) <= paper.width
        assert not paper.is_ascii or text.isascii()


def test_hostile_names_are_spelt_out():
    axis = Axis((Grid(2, 2, prefix=len(HOSTILE), names=tuple(HOSTILE)),))
    text, *_ = page(axis, 1)
    assert not {"\x1b", "\x9b", "\u202e", "\x00", "\r"} & set(text)


def test_who_looks_at_a_key():
    rec, made = sighted(VIT, layers=1)
    prompt, key = rec.prompts[0], 7
    column = made[0].truth.weights()[0][:, key]
    over = overlay(prompt["L0H0"], key=key)
    text = "\n".join(plain(column_lines(prompt, over, Look(), MONO, top=3)))
    assert f"key 7 (1, 1) · seen by 21 rows · receives {column.sum():.3f} in all" in text
    first = text.split("weight\n")[1].splitlines()[0].split()
    assert first[0] == str(column.argmax())
    assert f"{column.max():.3f}" in first
    assert "picture 0" in text


def test_who_looks_at_a_word():
    rec, made = in_memory()
    prompt = rec.prompts[0]
    over = overlay(prompt["L0H1"], key=2)
    text = "\n".join(plain(column_lines(prompt, over, Look(), MONO, top=3)))
    total = made[0, 0].truth.weights()[1][:, 2].sum()
    assert f"key 2 ␣cat · seen by 10 rows · receives {total:.3f} in all" in text
    assert "picture" not in text


def test_figures_have_narrow_names():
    rec, made = sighted(VIT, layers=1)
    view = make_region(rec.prompts[0], rec["L0H1"], rows=range(2, 4), keys=range(7, 10))
    lines = plain(region_lines(view, Look(), MONO))
    assert ["1,1", "1,2", "1,3"] in [line.split() for line in lines]
    first = next(line for line in lines if line.startswith("2 (0, 1)"))
    truth = made[0].truth.weights()[1][2, 7:10]
    assert first.split()[-3:] == [f"{weight:.3f}" for weight in truth]


def test_the_page_of_a_head_names_patches():
    rec, _ = sighted(VIT, layers=1)
    view = HeadView(rec.prompts[0], rec["L0H0"])
    text = "\n".join(plain(head_lines(view, Look(), Paper(100), cell=1, top=3)))
    assert "(3, 4)" in text
    assert "patch" in text.split("keys looked at most")[1].splitlines()[0]
