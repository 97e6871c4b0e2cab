"""`a[…]` is the dense matrix's own indexing, to the bit and to the shape."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.engine.indexing import read_cells
from regard.errors import InputError

SHAPES = [(7, 5), (3, 7, 5), (2, 3, 7, 5), (2, 1, 3, 4, 70)]


@cache
def attention(shape: tuple[int, ...], implementation: str) -> tuple[regard.Attention, Tensor]:
    """A matrix of this shape, and the same as a tensor."""
    torch.manual_seed(0)
    *lead, queries, keys = shape
    q, k = torch.randn(*lead, queries, 4), torch.randn(*lead, keys, 4)
    a = regard.attend(q, k, k, mask=regard.Causal(), implementation=implementation)
    return a, a.dense()


def whole_numbers(size: int) -> st.SearchStrategy[int]:
    return st.integers(-size, size - 1)


def slices(size: int) -> st.SearchStrategy[slice]:
    edge = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, edge, edge, st.none() | st.integers(1, 4))


@st.composite
def lists(draw: st.DrawFn, size: int, length: int | None = None) -> Any:
    """Whole numbers as somebody may write them: a list, a range, an array, a tensor."""
    bounds = {"max_size": 4} if length is None else {"min_size": length, "max_size": length}
    numbers = draw(st.lists(whole_numbers(size), **bounds))
    return draw(st.sampled_from([list, torch.tensor, np.array]))(numbers) if numbers else numbers


def flags(size: int) -> st.SearchStrategy[Tensor]:
    return st.lists(st.booleans(), min_size=size, max_size=size).map(torch.tensor)


@st.composite
def outer(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers and slices, and at most one list."""
    count = draw(st.integers(0, len(shape)))
    listed = draw(st.none() | st.integers(0, len(shape) - 1))
    parts = []
    for axis in range(count):
        if axis == listed:
            parts.append(draw(lists(shape[axis]) | flags(shape[axis])))
        else:
            parts.append(draw(whole_numbers(shape[axis]) | slices(shape[axis])))
    return tuple(parts)


@st.composite
def pointwise(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Lists of one length in two or more axes: cell by cell."""
    length = draw(st.integers(0, 6))
    chosen = draw(st.sets(st.integers(0, len(shape) - 1), min_size=2))
    return tuple(
        draw(lists(size, length)) if axis in chosen else draw(whole_numbers(size) | slices(size))
        for axis, size in enumerate(shape)
    )


@st.composite
def with_dots(draw: st.DrawFn, index: tuple[Any, ...], ndim: int) -> Any:
    """The same index with `…` where axes are missing, moved to either end or into the middle."""
    form = draw(st.sampled_from(["as it is", "dots"]))
    if form == "as it is":
        return index[0] if len(index) == 1 and not isinstance(index[0], list) else index
    kept = draw(st.integers(0, len(index)))
    return (*index[:kept], ..., *index[kept:]) if len(index) == ndim else (*index, ...)


@st.composite
def with_new_axes(draw: st.DrawFn, index: Any) -> Any:
    """The same index with None here and there."""
    parts = list(index) if isinstance(index, tuple) else [index]
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return index if len(parts) == 1 else tuple(parts)


def as_torch(index: Any) -> Any:
    """numpy's arrays as tensors, which is how torch takes them."""
    if isinstance(index, tuple):
        return tuple(as_torch(part) for part in index)
    return torch.from_numpy(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_index_means_what_it_means_to_a_tensor(implementation, shape, data):
    a, every = attention(shape, implementation)
    index = data.draw(st.one_of(outer(shape), pointwise(shape)))
    index = data.draw(with_dots(index, len(shape)))
    index = data.draw(with_new_axes(index))
    expected = every[as_torch(index)]
    found = a[index]
    assert found.shape == expected.shape
    assert torch.equal(found, expected)


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_scores_are_indexed_alike(implementation):
    a, _ = attention((2, 3, 7, 5), implementation)
    every = a.scores[...]
    for index in [(0, 1), (..., 3), (1, ..., [0, 4], [3, 2]), (slice(None), 2, slice(1, 6, 2))]:
        assert torch.equal(a.scores[index], every[index])


def test_booleans_of_several_axes():
    a, every = attention((2, 3, 7, 5), "cpu")
    for index in [every > 0.2, (0, every[0] > 0.2), (..., every[1, 1] > 0.1), every[..., 0] > 0.5]:
        assert torch.equal(a[index], every[index])
    assert torch.equal(a[0, None, every[0, :, 0, 0] > 0], every[0, None, every[0, :, 0, 0] > 0])


def test_many_scattered_cells_are_gathered_in_order():
    a, every = attention((2, 1, 3, 4, 70), "cpu")
    torch.manual_seed(1)
    index = tuple(torch.randint(n, (3, 50)) for n in a.shape)
    assert torch.equal(a[index], every[index])


def test_rows_of_many_blocks_are_gathered():
    """More queries than one strip holds, in an order of their own."""
    torch.manual_seed(0)
    q, k = torch.randn(200, 4), torch.randn(90, 4)
    a = regard.attend(q, k, k, implementation="cpu")
    i, j = torch.randint(200, (500,)), torch.randint(90, (500,))
    assert torch.equal(a[i, j], a.dense()[i, j])
    assert torch.equal(a.rows(i), a.dense()[i])


def test_one_call_asks_for_no_more_than_it_names():
    asked = []

    def block(place):
        asked.append([part.tolist() for part in place])
        return torch.zeros(tuple(len(part) for part in place))

    device = torch.device("cpu")
    assert read_cells((1, ..., 2, slice(0, 3)), (2, 3, 4, 5), device, block).shape == (3, 3)
    assert asked == [[[3, 4, 5], [2], [0, 1, 2]]]
    asked.clear()
    assert read_cells((0, 1, [3, 0], [4, 2]), (2, 3, 4, 5), device, block).shape == (2,)
    assert asked == [[[1], [0, 3], [2, 4]]]


def test_an_empty_choice_is_an_empty_answer():
    a, every = attention((3, 7, 5), "cpu")
    for index in [([],), (..., []), ([], []), (slice(0), [0, 1]), (..., slice(3, 1))]:
        assert a[index].shape == every[index].shape
    assert a.rows([]).shape == (3, 0, 5)
    nobody = regard.attend(*(torch.randn(2, n, 4) for n in (0, 5, 5)))
    assert nobody[..., 0].shape == (2, 0)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ((0, 0, 0, 0), "names too many axes"),
        ((..., ...), "names too many axes"),
        ((..., 5), "does not fit a matrix of shape (3, 7, 5)"),
        ((..., -6), "does not fit a matrix of shape (3, 7, 5)"),
        (3, "index 3 does not fit"),
        ((..., [0, 5]), "index (Ellipsis, [0, 5]) does not fit"),
        ((..., [0, 1], [0, 1, 2]), "does not fit"),
        ((..., torch.tensor([True] * 4)), "does not fit"),
        ((..., torch.tensor([], dtype=torch.bool)), "does not fit"),
        (slice(None, None, -1), "does not fit"),
        ((None, 0, 0, 0, 0), "names too many axes"),
        ((..., torch.ones(2, 5) > 0), "does not fit"),
        (True, "True cannot index"),
        (torch.tensor(True), "tensor(True) cannot index"),
        (torch.tensor(1.5), "tensor(1.5000) cannot index"),
        ((..., [0.5]), "cannot index"),
        ("x", "'x' cannot index"),
        ((..., ["x"]), "['x'] cannot index"),
    ],
    ids=repr,
)
def test_what_cannot_be_an_index(index, said):
    a, _ = attention((3, 7, 5), "cpu")
    with pytest.raises(InputError) as caught:
        a[index]
    assert said in str(caught.value)
