"""How masks combine: with each other, with arrays of either library, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mask.cases import answer
from regard.errors import DTypeError, ShapeError
from regard.mask import Causal, Extent, Mask, Padding, Prefix, Table, Verdict, Window, as_mask

SQUARE = Extent(3, 3)
EYE = np.eye(3, dtype=bool)
LOWER = np.tril(np.ones((3, 3), bool))


@pytest.mark.parametrize("array", [EYE, torch.eye(3, dtype=torch.bool)], ids=["numpy", "torch"])
def test_arrays_combine_from_either_side(array):
    for mask, expected in (
        (array & Causal(), EYE & LOWER),
        (Causal() & array, EYE & LOWER),
        (array | Causal(), EYE | LOWER),
        (Causal() | array, EYE | LOWER),
        (~as_mask(array), ~EYE),
    ):
        assert isinstance(mask, Mask)
        np.testing.assert_array_equal(answer(mask.map(np.asarray), SQUARE)[0], expected)


def test_a_mask_has_no_truth_value():
    for wrong in (
        lambda: bool(Causal()),
        lambda: Causal() and Prefix(1),
        lambda: not Causal(),
        lambda: Causal() if Causal() & Prefix(1) else None,
    ):
        with pytest.raises(DTypeError, match=r"no truth value; combine masks with & \| ~"):
            wrong()


@pytest.mark.parametrize("bad", [3, "causal", None, [[True]], object()])
def test_only_masks_and_arrays_combine(bad):
    for combine in (lambda: Causal() & bad, lambda: bad | Causal(), lambda: as_mask(bad)):
        with pytest.raises(DTypeError, match=r"mask is a .*; give a regard mask such as"):
            combine()


@pytest.mark.parametrize("array", [np.zeros((2, 2)), torch.zeros(2, 2), np.ones((2, 2), int)])
def test_numbers_belong_into_the_bias(array):
    with pytest.raises(DTypeError, match=r"a mask is boolean.*Additive numbers go into bias="):
        as_mask(array)
    with pytest.raises(DTypeError, match="bias="):
        Causal() & array


def test_a_mask_is_its_own_mask():
    mask = Causal()
    assert as_mask(mask) is mask


def test_a_small_table_speaks_for_all():
    assert answer(Table(np.array(True)), SQUARE).all()
    keys_only = answer(Table(np.array([True, False, True])), SQUARE)[0]
    np.testing.assert_array_equal(keys_only, np.tile([True, False, True], (3, 1)))
    queries_only = answer(Table(np.array([[True], [False], [True]])), SQUARE)[0]
    np.testing.assert_array_equal(queries_only, np.tile([[True], [False], [True]], (1, 3)))


def test_a_table_must_fit():
    extent = Extent(2, 3, (4,), heads=2)
    for shape in ((), (3,), (2, 3), (1, 3), (2, 1), (2, 2, 3), (1, 2, 3), (4, 1, 2, 3)):
        Table(np.ones(shape, bool)).check(extent)
    for shape in ((2,), (3, 3), (2, 2), (3, 2, 3), (5, 1, 2, 3), (1, 4, 2, 2, 3)):
        with pytest.raises(ShapeError, match=r"does not broadcast to \(…, heads, queries, keys\)"):
            Table(np.ones(shape, bool)).check(extent)


def test_every_part_of_a_combination_is_checked():
    extent = Extent(2, 3, (2,))
    wrong = Padding([1, 2, 3])
    for mask in (Causal() & wrong, wrong | Causal(), ~wrong, ~(Causal() & ~wrong)):
        with pytest.raises(ShapeError, match="Padding"):
            mask.check(extent)


def test_verdicts_of_combinations():
    rows, below, above = range(2, 4), range(2), range(4, 6)
    extent = Extent(6, 6)
    everything, nothing = Prefix(6), Prefix(0)
    for mask, on_below, on_above in (
        (Causal(), Verdict.ALL, Verdict.NONE),
        (~Causal(), Verdict.NONE, Verdict.ALL),
        (Causal() & everything, Verdict.ALL, Verdict.NONE),
        (Causal() & nothing, Verdict.NONE, Verdict.NONE),
        (Causal() | everything, Verdict.ALL, Verdict.ALL),
        (Causal() | nothing, Verdict.ALL, Verdict.NONE),
    ):
        assert mask.verdict(rows, below, extent) is on_below
        assert mask.verdict(rows, above, extent) is on_above
    assert (Causal() & Prefix(3)).verdict(rows, range(2, 4), extent) is Verdict.SOME


def test_a_table_looks_at_the_tile_and_nowhere_else():
    mask = Table(np.array([[0, 1, 1], [1, 1, 1], [0, 0, 0]], bool))
    assert mask.verdict(range(1, 2), range(3), SQUARE) is Verdict.ALL
    assert mask.verdict(range(2), range(1, 3), SQUARE) is Verdict.ALL
    assert mask.verdict(range(2, 3), range(3), SQUARE) is Verdict.NONE
    assert mask.verdict(range(2), range(3), SQUARE) is Verdict.SOME
    per_query = Table(np.array([[True], [False], [True]]))
    assert per_query.verdict(range(1, 2), range(1, 3), SQUARE) is Verdict.NONE


def test_combinations_read_as_they_are_written():
    assert repr(Causal() & ~Window(2)) == (
        "(Causal(align='end') & ~Window(left=2, right=0, align='end'))"
    )
    assert repr(Causal() | EYE) == "(Causal(align='end') | Table(table=<bool (3, 3)>))"


def test_combinations_of_values_are_values():
    assert Causal() & Window(2) == Causal() & Window(2)
    assert Causal() & Window(2) != Window(2) & Causal()
    assert hash(~Causal()) == hash(~Causal())


class Everything(Mask):
    """Somebody's own mask, with the least it must say."""

    def allows(self, i, j, extent):
        return (i == i)[:, None] & (j == j)[None, :]

    def verdict(self, rows, cols, extent):
        return Verdict.ALL if rows and cols else Verdict.NONE


def test_a_mask_of_ones_own_joins_in():
    np.testing.assert_array_equal(answer(Causal() & Everything(), SQUARE)[0], LOWER)
    mine = Everything()
    assert mine.map(len) is mine.select(()) is mine
    assert list(mine.arrays()) == []
    mine.check(SQUARE)
    assert repr(mine) == "Everything()"


def test_a_mask_must_answer_both_questions():
    with pytest.raises(TypeError, match="abstract"):
        Mask()
