"""What numpy and torch share, and how arrays elsewhere are fetched."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.arrays import brief, check_broadcast, host, is_bool, is_integer, like, pick
from regard.errors import InputError, ShapeError
from regard.mask import Documents, Extent, Padding, Prefix, Verdict, as_mask


@pytest.mark.parametrize(
    ("array", "boolean", "whole"),
    [
        (np.zeros(1, bool), True, False),
        (np.zeros(1, np.uint8), False, True),
        (np.zeros(1, np.int64), False, True),
        (np.zeros(1, np.float32), False, False),
        (torch.zeros(1, dtype=torch.bool), True, False),
        (torch.zeros(1, dtype=torch.int32), False, True),
        (torch.zeros(1, dtype=torch.bfloat16), False, False),
    ],
)
def test_kinds_of_numbers_in_either_library(array, boolean, whole):
    assert (is_bool(array), is_integer(array)) == (boolean, whole)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Padding([-3, 5]), r"Padding\(keys\) has -3; give"),
        (lambda: Padding([[4], [-2]]), r"Padding\(keys\) has -2; give"),
        (lambda: Padding([3], (-1,)), r"Padding\(queries\) has -1; give"),
        (lambda: Prefix(-1), r"Prefix\(n\) has -1; give how many keys or queries, 0 or more"),
    ],
)
def test_a_number_of_tokens_is_not_negative(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_the_values_of_arrays_are_not_looked_at():
    Prefix(torch.empty(2, dtype=torch.int64, device="meta"))
    Padding(torch.empty(2, dtype=torch.int64, device="meta"))
    assert Prefix(0).n == 0 and Padding([0, 3]).keys.tolist() == [0, 3]


def test_like_follows_the_index():
    assert isinstance(like([1, 2], np.arange(2)), np.ndarray)
    made = like(np.array([1, 2]), torch.arange(2, dtype=torch.int32))
    assert made.dtype == torch.int32


@pytest.mark.parametrize(
    ("shape", "trailing", "batch", "expected"),
    [
        ((2, 3), 0, (1, 2), ()),
        ((1, 3), 0, (1, 2), ()),
        ((3,), 0, (1, 2), ()),
        ((), 0, (1, 2), ()),
        ((2, 3, 7), 1, (1, 2), (7,)),
        ((7,), 1, (1, 2), (7,)),
        ((7,), 1, (), (7,)),
        ((2, 3, 4, 5, 6), 3, (1, 2), (4, 5, 6)),
        ((5, 6), 3, (1, 2), (5, 6)),
    ],
)
def test_pick_is_indexing_after_broadcasting(shape, trailing, batch, expected):
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    lead = (2, 3)[2 - len(batch) :] if batch else ()
    tail = shape[max(len(shape) - trailing, 0) :]
    whole = np.broadcast_to(array, (*lead, *tail))
    assert np.shape(pick(array, batch, trailing)) == expected
    np.testing.assert_array_equal(pick(array, batch, trailing), whole[batch])


def test_broadcasting_is_refused_in_words():
    check_broadcast((), (2, 3), "x", "axes")
    check_broadcast((1, 3), (2, 3), "x", "axes")
    for shape in ((2,), (3, 3), (1, 2, 3), (0, 3), (0,)):
        with pytest.raises(ShapeError, match=r"x has shape .*, which does not broadcast to axes"):
            check_broadcast(shape, (2, 3), "x", "axes")


def test_brief():
    assert brief(torch.zeros(2, 3, dtype=torch.bool)) == "<bool (2, 3)>"
    assert brief(np.zeros(2, np.int32)) == "<int32 (2,)>"
    assert brief("x") == "'x'"


class Elsewhere:
    """An array on a device that numpy cannot reach by itself, as a GPU's."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim

    def cpu(self):
        return self.values

    def reshape(self, shape):
        return Elsewhere(self.values.reshape(shape))

    def __array__(self, *_, **__):
        raise TypeError("can't convert device array to numpy; use .cpu() first")


def test_verdicts_fetch_arrays_from_where_they_are():
    extent = Extent(2, 2)
    for mask in (
        Prefix(Elsewhere(2)),
        Padding(Elsewhere([2])),
        Padding(Elsewhere([True, True]), Elsewhere([True, True])),
        Documents(Elsewhere([3, 3])),
        as_mask(Elsewhere([[True, True]])),
    ):
        assert mask.verdict(range(2), range(2), extent) is Verdict.ALL
    assert host(torch.tensor([1])).dtype == np.int64
