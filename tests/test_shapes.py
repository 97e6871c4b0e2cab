"""Sizes are read off the shapes, what does not fit is refused in words that help, and arrays are
treated alike in numpy, in torch and elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.arrays import brief, check_broadcast, host, is_bool, is_integer, like, pick
from regard.errors import InputError, ShapeError
from regard.mask import Documents, Extent, Padding, Prefix, Verdict, as_mask
from regard.shapes import AttentionShape

sizes = st.integers(0, 5)


@st.composite
def problems(draw):
    """(query, key, value) shapes that fit, of three axes or more."""
    batch = tuple(draw(st.lists(sizes, max_size=3)))
    key_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    queries, keys, value_dim = draw(sizes), draw(sizes), draw(sizes)
    dim = draw(st.integers(1, 5))
    return (
        (*batch, key_heads * group, queries, dim),
        (*batch, key_heads, keys, dim),
        (*batch, key_heads, keys, value_dim),
    )


@given(problems(), st.integers(0, 2), st.data())
def test_every_size_is_read_off(problem, which, data):
    query, key, value = problem
    shape = AttentionShape.of(query, key, value)
    assert query == (*shape.batch, shape.query_heads, shape.queries, shape.dim)
    assert key == (*shape.batch, shape.key_heads, shape.keys, shape.dim)
    assert value == (*shape.batch, shape.key_heads, shape.keys, shape.value_dim)
    assert shape.group * shape.key_heads == shape.query_heads
    assert shape.extent == Extent(shape.queries, shape.keys, shape.batch, shape.query_heads)
    assert shape.public(query) == query and not shape.headless
    without = AttentionShape.of(query, key)
    assert (without.value_dim, without.extent, without.group) == (0, shape.extent, shape.group)
    wrong = [list(given) for given in problem]
    wrong[which].insert(data.draw(st.integers(0, len(wrong[which]))), 1)
    with pytest.raises(ShapeError):  # an axis too many
        AttentionShape.of(*wrong)


def test_two_axes_are_one_head_that_results_do_not_show():
    shape = AttentionShape.of((3, 4), (5, 4), (5, 2))
    assert shape.headless
    assert (shape.batch, shape.query_heads, shape.key_heads) == ((), 1, 1)
    assert shape.extent == Extent(3, 5, (), 1)
    assert shape.public((1, 3, 2)) == (3, 2) and shape.public((1, 3)) == (3,)
    empty = AttentionShape.of((0, 3, 4), (0, 5, 4), (0, 5, 4))
    assert (empty.query_heads, empty.key_heads, empty.group) == (0, 0, 1)
    assert AttentionShape.of([2, 3, 4], [2, 3, 4]) == AttentionShape.of((2, 3, 4), (2, 3, 4))


@pytest.mark.parametrize(
    ("query", "key", "value", "words"),
    [
        ((4,), (4,), (4,), "same number of axes, at least two: (…, heads, tokens, dim)"),
        ((), (), (), "same number of axes"),
        ((3, 4), (3, 4), (), "value (): they need the same number of axes"),
        ((2, 3, 4), (3, 4), (3, 4), "query (2, 3, 4), key (3, 4), value (3, 4)"),
        ((3, 4), (3, 5), (3, 5), "query dim 4 ≠ key dim 5; the score is their dot product"),
        ((3, 0), (3, 0), (3, 4), "dim is 0; a dot product needs at least one dimension"),
        ((3, 4), (5, 4), (6, 4), "5 keys but 6 values; each key needs its own value"),
        ((3, 4), (5, 4), (6, 0), "value (6, 0): 5 keys but 6 values"),
        ((4, 3, 4), (2, 5, 4), (4, 5, 4), "heads (2,), value (4,); give both the same"),
        ((7, 4, 3, 4), (6, 4, 3, 4), (6, 4, 3, 4), "batch (7,) of query ≠ batch (6,) of key"),
        ((1, 4, 3, 4), (6, 4, 3, 4), (6, 4, 3, 4), "expand the smaller one"),
        ((6, 3, 4), (4, 3, 4), (4, 3, 4), "6 query heads are not a multiple of 4 key heads"),
        ((6, 3, 4), (4, 3, 4), (4, 3, 4), "key and value could have 1, 2, 3, 6"),
        ((2, 3, 4), (0, 3, 4), (0, 3, 4), "2 query heads are not a multiple of 0 key heads"),
        ((0, 3, 4), (2, 3, 4), (2, 3, 4), "0 query heads are not a multiple of 2 key heads"),
    ],
)
def test_what_does_not_fit_is_named(query, key, value, words):
    with pytest.raises(ShapeError) as refused:
        AttentionShape.of(query, key, value)
    assert words in str(refused.value)
    assert f"query {query}, key {key}, value {value}" in str(refused.value)
    with pytest.raises(ShapeError, match=r"^query \(3, 4\), key \(3, 5\): query dim 4"):
        AttentionShape.of((3, 4), (3, 5))  # a value that was not given is not named


# ── arrays ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("array", "boolean", "whole"),
    [
        (np.zeros(1, bool), True, False),
        (np.zeros(1, np.uint8), False, True),
        (np.zeros(1, np.float32), False, False),
        (torch.zeros(1, dtype=torch.bool), True, False),
        (torch.zeros(1, dtype=torch.int32), False, True),
        (torch.zeros(1, dtype=torch.bfloat16), False, False),
    ],
)
def test_kinds_of_numbers_in_either_library(array, boolean, whole):
    assert (is_bool(array), is_integer(array)) == (boolean, whole)
    made = like(np.array([1, 2]), array)
    assert type(made) is type(array)
    assert made.dtype == array.dtype or not whole or isinstance(array, np.ndarray)


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


def test_arrays_are_broadcast_and_shown_in_words():
    check_broadcast((), (2, 3), "x", "axes")
    check_broadcast((1, 3), (2, 3), "x", "axes")
    for shape in ((2,), (3, 3), (1, 2, 3), (0, 3), (0,)):
        with pytest.raises(ShapeError, match=r"x has shape .*, which does not broadcast to axes"):
            check_broadcast(shape, (2, 3), "x", "axes")
    assert brief(torch.zeros(2, 3, dtype=torch.bool)) == "<bool (2, 3)>"
    assert brief(np.zeros(2, np.int32)) == "<int32 (2,)>" and brief("x") == "'x'"


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: Padding([-3, 5]), r"Padding\(keys\) has -3; give"),
        (lambda: Padding([[4], [-2]]), r"Padding\(keys\) has -2; give"),
        (lambda: Padding([3], (-1,)), r"Padding\(queries\) has -1; give"),
        (lambda: Prefix(-1), r"Prefix\(n\) has -1; give how many keys or queries, 0 or more"),
    ],
)
def test_a_number_of_tokens_is_not_negative(attempt, words):
    with pytest.raises(InputError, match=words):
        attempt()
    unread = torch.empty(2, dtype=torch.int64, device="meta")  # values of arrays are not read
    assert Prefix(unread) != Padding(unread) and Prefix(0).n == 0


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


@pytest.mark.parametrize(
    "mask",
    [
        Prefix(Elsewhere(2)), Padding(Elsewhere([2])), Documents(Elsewhere([3, 3])),
        Padding(Elsewhere([True, True]), Elsewhere([True, True])),
        as_mask(Elsewhere([[True, True]])),
    ],
)  # fmt: skip
def test_verdicts_fetch_arrays_from_where_they_are(mask):
    assert mask.verdict(range(2), range(2), Extent(2, 2)) is Verdict.ALL
    assert host(torch.tensor([1])).dtype == np.int64
