"""What positions stand for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.axes import Axis, Box, Cell, Frames, Grid, Other, Patches, Tokens
from regard.errors import FileError, InputError

sides = st.integers(1, 7)
grids = st.builds(
    lambda h, w, t, p, m, n: Grid(h * m, w * m, t, p, m, n),
    sides, sides, st.integers(1, 3), st.integers(0, 5), st.sampled_from([1, 2, 3]),
    st.integers(0, 4),
)  # fmt: skip
parts = st.one_of(
    grids,
    st.builds(Tokens, st.integers(0, 9)),
    st.builds(Frames, st.integers(0, 9), st.floats(0.01, 2)),
    st.builds(Other, st.integers(0, 9)),
)


def test_a_picture_begins_behind_its_class_token():
    grid = Grid(14, 14, prefix=1, names=("class",))
    assert grid.count == 197
    assert grid.cell(0) is None
    assert grid.cell(1) == Cell(0, 0, 0)
    assert grid.cell(196) == Cell(0, 13, 13)
    assert [grid.name(n) for n in (0, 1, 16)] == ["class", "(0, 0)", "(1, 1)"]


def test_merged_patches_come_in_blocks():
    """Qwen2-VL: the first four positions are the first 2 × 2 block."""
    grid = Grid(4, 6, merge=2)
    assert [grid.cell(n)[1:] for n in range(5)] == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]


def test_tiles_come_one_by_one_and_ragged_at_the_edge():
    grid = Grid(2, 3, tile=2)
    assert [grid.cell(n)[1:] for n in range(6)] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2),
    ]  # fmt: skip


@given(grids)
def test_numbers_are_laid_where_their_patches_are(grid):
    laid = grid.lay(np.arange(grid.count))
    assert laid.shape == (grid.frames, grid.height, grid.width)
    assert sorted(laid.ravel()) == list(range(grid.prefix, grid.count))
    for at in range(grid.prefix, grid.count):
        assert laid[grid.cell(at)] == at
        assert grid.at(*grid.cell(at)) == at


@given(st.lists(parts, max_size=4))
def test_an_axis_is_read_as_it_was_written(given_parts):
    axis = Axis(given_parts)
    again = Axis.from_json(json.loads(json.dumps(axis.to_json())))
    assert again == axis
    assert len(again) == sum(one.count for one in given_parts)


@given(st.lists(parts, min_size=1, max_size=4))
def test_every_position_has_a_part_and_a_name(given_parts):
    axis = Axis(given_parts)
    for position in range(len(axis)):
        at, part = axis.find(position)
        assert at <= position < at + part.count
        assert axis.name(position)
    with pytest.raises(InputError, match="position"):
        axis.find(len(axis))


def test_a_picture_within_a_text():
    axis = Axis((Tokens(5), Grid(2, 3), Tokens(4)))
    assert [at for at, _ in axis.grids()] == [5]
    assert axis.name(6) == "(0, 1)"
    assert not axis.is_text
    assert Axis.of(Tokens(3)).is_text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Grid(0, 4), "height is 0"),
        (lambda: Grid(4, 4.0), "width is 4.0"),
        (lambda: Grid(4, 4, prefix=-1), "prefix is -1"),
        (lambda: Grid(3, 4, merge=2), "do not divide"),
        (lambda: Grid(4, 4, names=("class",)), "1 names for a prefix of 0"),
        (lambda: Grid(2**20, 2**20), "too many"),
        (lambda: Frames(3, 0.0), "0.0 seconds"),
        (lambda: Axis.of(["cat"]), "an axis of str"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


@pytest.mark.parametrize(
    "value", [None, {}, ["grid"], [{"kind": "grid"}], [{"kind": "text", "count": -1}],
              [{"kind": "grid", "height": "4", "width": 4}], [{"kind": "frames", "count": 3}]],
)  # fmt: skip
def test_a_file_with_another_axis_is_an_error(value):
    with pytest.raises(FileError):
        Axis.from_json(value)


def test_a_kind_of_a_later_version_has_positions():
    assert Axis.from_json([{"kind": "sphere", "count": 7}]) == Axis((Other(7),))


@given(grids)
def test_every_patch_lies_in_its_own_box_and_no_other(grid):
    counts = np.zeros(grid.patches, int)
    for row in range(grid.height):
        for column in range(grid.width):
            size = grid.height, grid.width
            box = Box(row, column, row + 1, column + 1, of=size).covers(grid.centres())
            np.testing.assert_array_equal(
                box, Patches([(row, column)], of=size).covers(grid.centres())
            )
            assert (grid.places[box][:, 1:] == (row, column)).all()
            counts += box
    assert (counts == 1).all()


def test_a_box_of_shares_is_the_same_part_of_every_grid():
    box = Box(0.25, 0, 0.75, 0.5)
    for size in (4, 8, 24):
        marks = Grid(size, size).lay(box.covers(Grid(size, size).centres()))[0]
        assert marks.sum() == size * size // 4
        assert marks[size // 4 : 3 * size // 4, : size // 2].all()


def test_patches_of_a_fine_grid_in_a_coarse_one():
    """A coarse patch is meant if its middle lies in one of them."""
    quarter = Patches([(row, column) for row in range(4) for column in range(4)], of=(8, 8))
    assert np.flatnonzero(quarter.covers(Grid(2, 2).centres())).tolist() == [0]


def test_windows_lie_in_the_picture_they_make_up():
    grid = Grid(2, 2, windows=(2, 3), shift=1)
    found = np.concatenate([grid.centres(window) for window in range(6)])
    assert len({tuple(one) for one in found.tolist()}) == 24  # each place of 4 × 6 once
    assert found[0].tolist() == [1.5 / 4, 1.5 / 6] and found[-1].tolist() == [0.5 / 4, 0.5 / 6]
    apart = Grid(2, 2, windows=(1, 3), apart=True)
    np.testing.assert_array_equal(apart.centres(2), apart.centres(0))


def test_regions_that_cannot_be():
    for box in ((0, 0, 0, 1), (0.5, 0, 0.2, 1), (0, 0, 1, 2), (-0.1, 0, 1, 1)):
        with pytest.raises(InputError, match="give 0 ≤ top < bottom ≤ 1"):
            Box(*box)
    with pytest.raises(InputError, match=r"patches \[\(2, 0\)\]"):
        Patches([(0, 0), (2, 0)], of=(2, 2))
    with pytest.raises(InputError, match="patches"):
        Patches([], of=(2, 2))


def test_windows_may_reach_beyond_the_picture():
    """5 × 3 patches in windows of 2 × 2, moved by one: the last rows and columns are padding."""
    grid = Grid(2, 2, windows=(3, 2), shift=1, whole=(5, 3))
    assert (grid.padded, grid.size) == ((6, 4), (5, 3))
    assert grid.centres(0).tolist() == [[y / 5, x / 3] for y in (1.5, 2.5) for x in (1.5, 2.5)]
    last = grid.centres(5)  # rows 5 and 0, columns 3 and 0
    assert ((last < 1).all(1)).tolist() == [False, False, False, True]
    assert Box(0, 0, 1, 1).covers(last).tolist() == [False, False, False, True]
    assert Patches([(0, 0)], (5, 3)).covers(last).tolist() == [False, False, False, True]
    with pytest.raises(InputError, match=r"whole is two whole numbers"):
        Grid(2, 2, windows=(3, 2), whole=(7, 3))
