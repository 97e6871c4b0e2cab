"""The mass of patches by rows and columns, samples of rows, and models that see."""

from __future__ import annotations

import numpy as np
import pytest

from regard import study
from regard.axes import Axis, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.study import patch_offsets, patches
from study.conftest import record_family
from support.recordings.planted import mixed, patch_targets, record_patches

GRID = Grid(6, 7, frames=2, prefix=2)


def random_weights(grid: Grid) -> np.ndarray:
    p = np.random.default_rng(0).random((1, 2, grid.count, grid.count)) ** 4
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("most", [2**20, 1000])
def test_the_mass_by_rows_and_columns_is_that_of_the_matrix(monkeypatch, most):
    monkeypatch.setattr(patches, "_MOST_CELLS", most)  # in one tile, or in several
    weights, places = random_weights(GRID), GRID.places
    expected = np.zeros((11, 13))
    for i, (frame, row, column) in enumerate(places):
        for j, (other, y, x) in enumerate(places):
            if frame == other:
                expected[y - row + 5, x - column + 6] += weights[0, 1, i + 2, j + 2]
    head = record_patches(weights, GRID)["L0H1"]
    np.testing.assert_allclose(patch_offsets(head), expected / len(places), atol=1e-6)


def test_what_has_no_rows_and_columns():
    stored = record_patches(random_weights(GRID), GRID, budget="50kB")["L0H0"]
    with pytest.raises(UnavailableError):
        patch_offsets(stored)
    head = record_patches(random_weights(Grid(4, 5)), Grid(4, 5))["L0H0"]
    head.key_axis = Axis((Tokens(20),))
    with pytest.raises(InputError, match="not the patches of one picture"):
        patch_offsets(head)


def test_a_sample_is_always_the_same_and_its_labels_are_those_of_all(monkeypatch):
    grid, kinds = Grid(16, 16, prefix=1), ["near-1", "same-row", "object"]
    sees, aims = np.ones((grid.count, grid.count), bool), patch_targets(grid)
    rec = record_patches(np.array([[mixed(aims[k], 0, 0.9, 0.2, sees=sees) for k in kinds]]), grid)
    every = study.patterns(rec, evidence="none")
    monkeypatch.setattr(patches, "_MOST_CELLS", 2**15)
    some, again = (study.patterns(rec, evidence="all") for _ in range(2))
    assert [head.as_dict() for head in some] == [head.as_dict() for head in again]
    for head, other, kind in zip(every, some, kinds, strict=True):
        assert head.labels == other.labels == (kind,)
        assert other["near-1"].score == pytest.approx(head["near-1"].score, abs=0.03)
        assert other["near-1"].detail["sampled"] == other["near-1"].n_rows < head["near-1"].n_rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["vit", "swin", "llava", "qwen2_vl", "vivit", "clip", "whisper"])
def test_models_that_see_are_reported(family):
    rec = record_family(family)
    report = study.make_report(rec)
    assert len(report.heads) == len(rec.labels())
    named = {finding.pattern for head in report.heads for finding in head}
    assert ("near-1" in named) == ("border" in named) == (family != "whisper")
    assert ("previous-frame" in named) == (family == "vivit")
