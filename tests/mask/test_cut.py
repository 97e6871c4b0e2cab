"""Some entries and heads of a problem: its rules cut to them say what they said of the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.declare import array
from regard.mask import Extent, Mask, as_mask
from regard.mask.base import Part
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias, ScoreRule

WHOLE = Extent(queries=5, keys=6, batch=(2, 3), heads=4)
SOME = WHOLE, (range(1, 2), range(2)), range(1, 4)
HERE = Extent(queries=5, keys=6, batch=(1, 2), heads=3)
ROWS, COLS = torch.arange(5), torch.arange(6)


def mine(whole: Tensor, extent: Extent = WHOLE) -> Tensor:
    """The cells of these entries and heads."""
    return whole.expand(extent.full)[1:2, 0:2, 1:4]


def _all_four(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (batch * 7 + head * 3 + i + j) % 4 != 0


def _table(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.6


IDS = torch.randint(3, (2, 3, 6), generator=torch.Generator().manual_seed(1))
MASKS: dict[str, Any] = {
    "causal": regard.Causal(),
    "window or prefix": regard.Window(1) | regard.Prefix(torch.tensor([[0, 1, 2], [3, 4, 5]])),
    "lengths": regard.Padding(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([5, 4, 3])),
    "flags": ~regard.Padding(_table(2, 1, 6)),
    "documents": regard.Documents(IDS[..., :5], IDS),
    "table": _table(2, 3, 4, 5, 6),
    "table of heads": _table(4, 5, 6),
    "table of rows": _table(1, 6),
    "rule": regard.Rule(lambda i, j: (i + j) % 2 == 0),
    "rule of heads": regard.Rule(_all_four) & regard.Causal(),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    mask = as_mask(MASKS[name])
    found = mask.cut(*SOME)
    found.check(HERE)
    right = mine(mask.allows(ROWS, COLS, WHOLE))
    assert torch.equal(found.allows(ROWS, COLS, HERE).expand(HERE.full), right)


def test_a_part_of_the_queries_stays_where_it_is() -> None:
    part = Part(as_mask(MASKS["table"]), 2, 1, 5, 6).cut(*SOME)
    right = mine(as_mask(MASKS["table"]).allows(ROWS, COLS, WHOLE))[..., 2:4, 1:3]
    small = Extent(queries=2, keys=2, batch=(1, 2), heads=3)
    found = part.allows(torch.arange(2), torch.arange(2), small)
    assert torch.equal(found.expand(small.full), right)


NUMBERS = torch.randn(2, 3, 4, 5, 6, generator=torch.Generator().manual_seed(2))
BIASES: dict[str, Bias] = {
    "table": BiasTable(NUMBERS),
    "table of heads": BiasTable(NUMBERS[0, 0, :, :1]),
    "slopes": ALiBi(torch.tensor([0.1, 0.2, 0.3, 0.4])),
    "buckets": RelativeBias(torch.randn(8, 4), True, 5),
}


@pytest.mark.parametrize("name", BIASES)
def test_biases_and_sinks(name: str) -> None:
    sink = torch.arange(4.0)
    for bias in (BIASES[name], PartBias(BIASES[name], 0, 0, 5, 6)):
        found = ScoreRule(0.5, 3.0, bias, sink).cut(*SOME)
        found.check(HERE)
        assert found.bias is not None and (found.scale, found.softcap) == (0.5, 3.0)
        assert found.sink.tolist() == [1.0, 2.0, 3.0]
        right = mine(bias.tile(ROWS, COLS, WHOLE))
        assert torch.equal(found.bias.tile(ROWS, COLS, HERE).expand(HERE.full), right)
    assert ScoreRule(0.5).cut(*SOME).bias is None


def test_gradients_find_their_way_back() -> None:
    sink = torch.zeros(4, requires_grad=True)
    ScoreRule(1.0, sink=sink).cut(*SOME).sink.sum().backward()
    assert sink.grad is not None and sink.grad.tolist() == [0.0, 1.0, 1.0, 1.0]


def test_an_axis_of_one_speaks_for_all() -> None:
    ids = regard.Documents(
        torch.zeros(1, 4, 5, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    )
    found = ids.cut(Extent(5, 6, (3, 4), 2), (range(1, 3), range(2)), range(1))
    assert found.query_ids.shape == (1, 2, 5) and found.key_ids.shape == (6,)


def test_values_about_tokens_are_cut_along_them() -> None:
    marks = regard.Matching(torch.arange(5), torch.arange(6))
    found = marks.cut(*SOME, range(1, 3), range(2, 6))
    assert found.query_marks.tolist() == [1, 2] and found.key_marks.tolist() == [2, 3, 4, 5]


def test_a_class_of_ones_own_is_cut_by_what_it_declares() -> None:
    class Own(Mask):
        limit: Any = array("heads")  # (*batch, heads)

        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return (i[:, None] - j).abs() <= self.limit[..., None, None]

    mask = Own(torch.arange(24).reshape(2, 3, 4))
    right = mine(mask.allows(ROWS, COLS, WHOLE))
    assert torch.equal(mask.cut(*SOME).allows(ROWS, COLS, HERE), right)
