"""Rollout over a picture is rollout with a matrix, laid out by the grid."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import regard
from regard import study
from regard.axes import Axis, Grid
from regard.errors import InputError, UnavailableError
from support.families.build import build
from support.families.inputs import accepted
from support.recordings.planted import record_patches, record_planted, text

GRID = Grid(4, 6, prefix=2, names=("class", "register"))


def weights(grid: Grid) -> np.ndarray:
    p = np.random.default_rng(3).random((3, 2, grid.count, grid.count)) ** 4
    return p / p.sum(-1, keepdims=True)


def dense(p: np.ndarray, residual: float = 0.5) -> np.ndarray:
    """R ← R · (½ mean A + ½ I), last layer first, as published."""
    rolled = np.eye(p.shape[-1])
    for layer in p[::-1]:
        rolled = rolled @ ((1 - residual) * layer.mean(0) + residual * np.eye(p.shape[-1]))
    return rolled


@pytest.mark.parametrize(
    ("start", "at", "name"),
    [(None, 0, "class"), ("register", 1, "register"), ((2, 3), 17, "(2, 3)"), (-1, 25, "(3, 5)")],
)
def test_from_the_class_token_or_a_patch(start: object, at: int, name: str) -> None:
    p = weights(GRID)
    found = study.roll_out_picture(record_patches(p, GRID), start)  # type: ignore[arg-type]
    expected = dense(p)[at]
    np.testing.assert_allclose(found.shares, expected, atol=1e-5)
    np.testing.assert_allclose(found.maps[0][0], expected[2:].reshape(4, 6), atol=1e-5)
    assert (found.start, found.layers, found.caution) == (name, 3, "")
    assert found.on_patches == pytest.approx(expected[2:].sum(), abs=1e-5)


def test_without_a_class_token_it_is_the_mean_of_all_patches() -> None:
    grid = Grid(4, 4, merge=2)
    p = weights(grid)
    found = study.roll_out_picture(record_patches(p, grid), residual=0.25)
    shares = dense(p, 0.25).mean(0)
    np.testing.assert_allclose(found.shares, shares, atol=1e-5)
    assert found.maps[0][0, 1, 2] == pytest.approx(shares[grid.at(0, 1, 2)], abs=1e-5)
    assert found.start == "all patches"


def recorded(family: str) -> regard.recorder.session.Recorder:
    model = build(family)
    inputs = {name: one[:1] for name, one in accepted(model).items() if hasattr(one, "ndim")}
    with warnings.catch_warnings(), regard.record(model) as rec, torch.no_grad():
        warnings.simplefilter("ignore")
        model(**inputs)
    return rec


def test_a_picture_within_a_text_is_seen_from_the_last_token() -> None:
    rec = recorded("llava")
    tower = study.roll_out_picture(rec)
    assert tower.start == "class" and tower.maps[0].shape == (1, 4, 4) and not tower.caution
    words = study.roll_out_picture(rec, stack="")
    plain = study.roll_out_recording(rec, stack="")
    np.testing.assert_allclose(words.shares, plain.shares)
    assert words.caution and words.axis == rec["L0H0"].key_axis
    assert words.maps[0].sum() < words.shares.sum()


def test_what_cannot_be_laid_out() -> None:
    rec = record_patches(weights(GRID), GRID)
    with pytest.raises(InputError, match=r"no name of a position; there are class, register, \(0"):
        study.roll_out_picture(rec, "clas")
    with pytest.raises(InputError, match=r"no patch of a grid of \(1, 4, 6\)"):
        study.roll_out_picture(rec, (4, 0))
    with pytest.raises(InputError, match="0–25"):
        study.roll_out_picture(rec, 26)
    ids = text(20)
    with pytest.raises(InputError, match="known to be patches"):
        study.roll_out_picture(record_planted(weights(Grid(4, 5)) * np.tri(20), ids))
    with pytest.raises(UnavailableError, match="within windows"):
        study.roll_out_picture(recorded("swin"))
    assert Axis((GRID,)).names[0] == "class"
