"""Where positions lie in a picture, which rows are computed, and the mass by rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.axes import Axis, Grid, Tokens
from regard.errors import InputError, UnavailableError
from regard.study import patch_offsets, patches
from regard.study.facts import PlaceFacts
from regard.study.patches import near, same_column, same_place, same_row, spots_of
from support.recordings.planted import mixed, patch_targets, record_patches

GRID = Grid(6, 7, frames=2, prefix=2)


def random_weights(grid: Grid, heads: int = 2) -> np.ndarray:
    p = np.random.default_rng(0).random((1, heads, grid.count, grid.count)) ** 4
    return p / p.sum(-1, keepdims=True)


def test_positions_know_where_they_lie() -> None:
    axis = Axis((Tokens(3), Grid(2, 4, prefix=1), Tokens(1), Grid(3, 3, frames=2)))
    spots = spots_of(axis)
    assert np.flatnonzero(spots.text).tolist() == [0, 1, 2, 12]
    assert np.flatnonzero(spots.register).tolist() == [3]
    assert spots.grid.tolist() == [-1] * 4 + [0] * 8 + [-1] + [1] * 18
    assert (spots.row[9], spots.column[9]) == (1, 1)
    assert np.flatnonzero(~spots.border[13:]).tolist() == [4, 13]  # the middles of 3 × 3


def test_a_window_of_a_picture_has_no_border_and_a_picture_beside_others_has() -> None:
    assert not spots_of(Axis((Grid(4, 4, windows=(2, 2)),))).border.any()
    assert spots_of(Axis((Grid(4, 4, windows=(1, 2), apart=True),))).border.sum() == 12


def test_blocks_and_tiles_do_not_change_who_is_beside_whom() -> None:
    plain, merged = (spots_of(Axis((Grid(4, 8, merge=m),))) for m in (1, 2))
    order = np.lexsort((merged.column, merged.row))
    for relation in (near(1), near(2), same_row, same_column):
        expected = relation(plain.at(np.arange(32)[:, None]), plain)
        found = relation(merged.at(order[:, None]), merged.at(order))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["near-1", "near-2", "same-row", "same-column"])
def test_relations_are_their_definitions(kind: str) -> None:
    relation = {"near-1": near(1), "near-2": near(2), "same-row": same_row}.get(kind, same_column)
    spots = spots_of(Axis((GRID,)))
    found = relation(spots.at(np.arange(GRID.count)[:, None]), spots)
    np.testing.assert_array_equal(found, patch_targets(GRID)[kind])
    later = same_place(1)(spots.at(np.arange(GRID.count)[:, None]), spots)
    np.testing.assert_array_equal(later, patch_targets(GRID)["next-frame"])


def test_the_mass_by_rows_and_columns_is_that_of_the_matrix(monkeypatch: Any) -> None:
    monkeypatch.setattr(patches, "_MOST_CELLS", 1000)  # several tiles
    weights = random_weights(GRID)
    head = record_patches(weights, GRID)["L0H1"]
    expected = np.zeros((11, 13))
    places = GRID.places
    for i, (frame, row, column) in enumerate(places):
        for j, (other, y, x) in enumerate(places):
            if frame == other:
                expected[y - row + 5, x - column + 6] += weights[0, 1, i + 2, j + 2]
    np.testing.assert_allclose(patch_offsets(head), expected / len(places), atol=1e-6)


def test_what_has_no_rows_and_columns() -> None:
    head = record_patches(random_weights(GRID), GRID, budget="200kB")["L0H0"]
    if not head.exact:
        with pytest.raises(UnavailableError):
            patch_offsets(head)
    layer = record_patches(random_weights(Grid(4, 5)), Grid(4, 5))
    layer["L0H0"].key_axis = Axis((Tokens(20),))
    with pytest.raises(InputError, match="not the patches of one picture"):
        patch_offsets(layer["L0H0"])


def test_a_sample_is_always_the_same_and_its_labels_are_those_of_all(monkeypatch: Any) -> None:
    from regard import study

    grid = Grid(16, 16, prefix=1)
    sees = np.ones((grid.count, grid.count), bool)
    kinds = ["near-1", "same-row", "object"]
    aims = patch_targets(grid)
    rec = record_patches(np.array([[mixed(aims[k], 0, 0.9, 0.2, sees=sees) for k in kinds]]), grid)
    every = study.patterns(rec, evidence="none")
    monkeypatch.setattr(patches, "_MOST_CELLS", 2**15)
    place = PlaceFacts(rec.recording.prompt(0), "L0")
    assert place.patches is not None and len(place.patches.rows) == 128
    np.testing.assert_array_equal(
        place.patches.rows, PlaceFacts(rec.recording.prompt(0), "L0").patches.rows
    )
    some = study.patterns(rec, evidence="all")
    for one, other, kind in zip(every, some, kinds, strict=True):
        assert one.labels == other.labels == (kind,)
        assert other["near-1"].score == pytest.approx(one["near-1"].score, abs=0.03)
        assert other["near-1"].detail["sampled"] == other["near-1"].n_rows
