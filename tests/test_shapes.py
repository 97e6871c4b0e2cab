"""Sizes are read off the shapes, and shapes that do not fit are refused in words that help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.mask import Extent
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


@given(problems())
def test_every_size_is_read_off(problem):
    query, key, value = problem
    shape = AttentionShape.of(query, key, value)
    assert query == (*shape.batch, shape.query_heads, shape.queries, shape.dim)
    assert key == (*shape.batch, shape.key_heads, shape.keys, shape.dim)
    assert value == (*shape.batch, shape.key_heads, shape.keys, shape.value_dim)
    assert shape.group * shape.key_heads == shape.query_heads
    assert shape.extent == Extent(shape.queries, shape.keys, shape.batch, shape.query_heads)
    assert shape.public(query) == query
    assert not shape.headless


@given(problems())
def test_without_a_value_the_rest_is_the_same(problem):
    query, key, value = problem
    with_value, without = AttentionShape.of(query, key, value), AttentionShape.of(query, key)
    assert without.value_dim == 0
    assert without.extent == with_value.extent
    assert without.group == with_value.group


@given(problems(), st.integers(0, 2), st.data())
def test_one_axis_too_many_is_always_refused(problem, which, data):
    shapes = [list(shape) for shape in problem]
    shapes[which].insert(data.draw(st.integers(0, len(shapes[which]))), 1)
    with pytest.raises(ShapeError):
        AttentionShape.of(*shapes)


def test_two_axes_are_one_head_that_results_do_not_show():
    shape = AttentionShape.of((3, 4), (5, 4), (5, 2))
    assert shape.headless
    assert (shape.batch, shape.query_heads, shape.key_heads) == ((), 1, 1)
    assert shape.extent == Extent(3, 5, (), 1)
    assert shape.public((1, 3, 2)) == (3, 2)
    assert shape.public((1, 3)) == (3,)


def test_zero_heads_are_a_problem_of_size_zero():
    shape = AttentionShape.of((0, 3, 4), (0, 5, 4), (0, 5, 4))
    assert (shape.query_heads, shape.key_heads, shape.group) == (0, 0, 1)


def test_shapes_may_be_any_sequence():
    assert AttentionShape.of([2, 3, 4], [2, 3, 4]) == AttentionShape.of((2, 3, 4), (2, 3, 4))


@pytest.mark.parametrize(
    ("query", "key", "value", "said"),
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
def test_what_does_not_fit_is_named(query, key, value, said):
    with pytest.raises(ShapeError) as refused:
        AttentionShape.of(query, key, value)
    assert said in str(refused.value)
    assert f"query {query}, key {key}, value {value}" in str(refused.value)


def test_a_value_that_was_not_given_is_not_spoken_of():
    with pytest.raises(ShapeError, match=r"^query \(3, 4\), key \(3, 5\): query dim 4"):
        AttentionShape.of((3, 4), (3, 5))
