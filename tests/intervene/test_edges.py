"""Edges as masks: exact for every kind of set, and in a form that kernels like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.engine.call import Call
from regard.engine.observers import editing
from regard.errors import InputError
from regard.intervene import Edge
from regard.intervene.edges import TokenPositions, without
from regard.mask import Mask
from regard.mask.spans import spans_of

N = 30


@pytest.mark.parametrize(
    ("given", "among"),
    [
        (3, [3]),
        (np.int64(3), [3]),
        ([5, 3, 3], [3, 5]),
        (torch.tensor([4, 2]), [2, 4]),
        (range(2, 5), [2, 3, 4]),
        (range(2, 9, 3), [2, 5, 8]),
        (slice(7, None), [7, 8, 9]),
        (slice(None, 2), [0, 1]),
        (slice(None), list(range(10))),
        ([], []),
        (range(0), []),
        ([4, 99], [4]),
    ],
)
def test_places_are_read(given: Any, among: list[int]) -> None:
    places = TokenPositions.of(given, "keys")
    assert np.flatnonzero(places.among(np.arange(10))).tolist() == among
    later = np.flatnonzero(places.among(np.arange(4, 7))) + 4
    assert later.tolist() == [n for n in among if 4 <= n < 7]


@pytest.mark.parametrize(
    "wrong", [-1, [3, -1], slice(-3, None), range(5, 0, -1), "3", 2.0, [True], slice(0, 5, 0), None]
)
def test_what_is_no_place_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"keys=.*counted from 0"):
        Edge(queries=0, keys=wrong)


def test_edges_are_values() -> None:
    assert Edge([1, 2], 3) == Edge((2, 1), [3])
    assert Edge(1, 2, ["L0H1"]) != Edge(1, 2, ["L0H2"])
    assert len({Edge(1, 2), Edge(1, 2)}) == 1
    assert repr(Edge(19, range(10, 21))) == "Edge(queries=[19], keys=10:21, heads=None)"
    assert repr(Edge(slice(5, None, 2), []).queries) == "5::2"


class Cut:
    """Takes one edge out of some heads of every call."""

    def __init__(self, edge: Edge, heads: list[int], *starts: int) -> None:
        first, second = starts or (0, 0)
        self._told = edge, heads, first, second
        self.found: Mask | None = None

    def mask(self, call: Call) -> Mask | None:
        """Without the edge."""
        edge, heads, query_start, key_start = self._told
        i, j = np.arange(call.shape.queries)[None], np.arange(call.shape.keys)[None]
        self.found = without(call, edge, heads, i + query_start, j + key_start)
        return self.found

    def output(self, call: Call, output: Tensor) -> Tensor:
        """As it is."""
        return output


def table(edge: Edge, heads: list[int], count: int = 4) -> Tensor:
    """(heads, N, N): what the edge leaves, cell by cell."""
    seen = np.ones((count, N, N), bool)
    rows, columns = (places.among(np.arange(N)) for places in (edge.queries, edge.keys))
    seen[np.ix_(heads, np.flatnonzero(rows), np.flatnonzero(columns))] = False
    return torch.from_numpy(seen)


@pytest.mark.parametrize("heads", [[0, 1, 2, 3], [2], [0, 3]])
@pytest.mark.parametrize(
    "edge",
    [
        Edge(N - 1, range(10, 21)),
        Edge(slice(None), [0]),
        Edge(slice(None), [5]),
        Edge([3, 7, 20], range(4)),
        Edge(range(10, 20), slice(None)),
        Edge(slice(5, None, 2), [1, 4, 9]),
        Edge(slice(None), slice(None)),
    ],
    ids=str,
)
@pytest.mark.parametrize("causal", [True, False])
def test_a_cut_is_the_table_it_stands_for(edge: Edge, heads: list[int], causal: bool) -> None:
    q = torch.randn(2, 4, N, 8, generator=torch.Generator().manual_seed(0))
    mask = regard.Causal() if causal else None
    left = table(edge, heads)
    with editing(Cut(edge, heads)):
        found = regard.attend(q, q, q, mask=mask)
    seen = left if mask is None else mask & left
    expected = regard.attend(q, q, q, mask=seen)
    assert torch.equal(found.dense(), expected.dense())
    assert torch.equal(found.output, expected.output)
    blind = ~(left & (torch.ones(N, N).tril() if causal else torch.ones(N, N)).bool()).any(-1)
    assert torch.equal(found.output == 0, blind[None, :, :, None].expand_as(found.output))


def test_an_edge_elsewhere_leaves_the_mask_alone() -> None:
    q = torch.randn(1, 4, N, 8)
    for cut in (
        Cut(Edge(N, 0), [0]),
        Cut(Edge(0, 5), [0], 10, 6),
        Cut(Edge(0, 0), []),
    ):
        mask = regard.Causal()
        with editing(cut):
            regard.attend(q, q, q, mask=mask)
        assert cut.found is mask


@pytest.mark.parametrize(
    "edge", [Edge([3, 9], range(6)), Edge(4, slice(7, None)), Edge(5, slice(None))], ids=str
)
def test_what_can_be_intervals_is(edge: Edge) -> None:
    q, cut = torch.randn(1, 4, N, 8), Cut(edge, [0, 1, 2, 3])
    with editing(cut):
        found = regard.attend(q, q, q, mask=regard.Causal())
    _, rest = spans_of(cut.found, found._call.shape.extent)
    assert rest is None


def test_one_row_is_a_table_of_one_row() -> None:
    q, k = torch.randn(1, 4, 1, 8), torch.randn(1, 4, N, 8)
    cut = Cut(Edge(N - 1, range(10, 21)), [0, 1, 2, 3], N - 1, 0)
    with editing(cut):
        weights = regard.attend(q, k, k)[..., 0, :]
    assert [tuple(array.shape) for array in cut.found.arrays()] == [(1, N)]
    assert torch.all(weights[..., 10:21] == 0)
    assert torch.all(weights[..., :10] > 0)


def test_the_mask_follows_the_call_s_device() -> None:
    q = torch.randn(1, 4, N, 8)
    call = regard.attend(q, q, q)._call
    there = replace(call, query=call.query.to("meta"))
    mask = without(there, Edge(3, 1), range(4), *(np.arange(N)[None],) * 2)
    assert all(array.device.type == "meta" for array in mask.arrays())
