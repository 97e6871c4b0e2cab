"""What operators promise while torch traces is what they give: sizes, strides and dtypes.

A sharded or compiled program lays out its memory by the promise. Every tensor an operator takes
comes transposed here, not the query alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

import regard
from regard.engine import ops
from regard.engine.backends import library
from regard.engine.codec import Spec, measure_text
from regard.score import BiasTable, ScoreRule

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 2, 4, 2, 5, 7, 8


def turned(*shape: int) -> Tensor:
    """Random numbers of this shape whose last two axes are stored the other way round."""
    return torch.randn(*shape[:-2], shape[-1], shape[-2], dtype=torch.float64).mT


def given() -> dict[str, Any]:
    torch.manual_seed(0)
    rows = (BATCH, HEADS, QUERIES)
    table, sink = turned(HEADS, QUERIES, KEYS), torch.randn(2 * HEADS).double()[::2]
    spec = Spec.of(regard.Causal(), ScoreRule(0.5, None, BiasTable(table), sink))
    made: dict[str, Any] = {"arrays": [table, sink], "spec": spec, "rows": rows}
    made["q"] = turned(*rows, DIM)
    made["k"], made["v"] = (turned(BATCH, KEY_HEADS, KEYS, DIM) for _ in range(2))
    found = ops.rows(made["q"], made["k"], made["v"], made["arrays"], [], [], None, spec.asking())
    made["state"] = [t.mT.contiguous().mT for t in found[1:3]]
    return made


def _gradient(kind: str, told: list[Tensor], g: dict[str, Any]) -> Any:
    values = g["v"] if kind == "output" else g["k"][..., :0]
    spec = g["spec"].asking(output=kind == "output", what="weights")
    return ops.gradient, (g["q"], g["k"], values, g["arrays"], g["state"], told, kind, spec)


def _place() -> list[Tensor]:
    return [torch.tensor([0, 3, 5]), torch.tensor([4, 1]), torch.tensor([6, 0, 2, 1])]


CALLS: dict[str, Callable[[dict[str, Any]], tuple[Any, tuple[Any, ...]]]] = {
    "rows": lambda g: (
        ops.rows,
        (g["q"], g["k"], g["v"], g["arrays"], g["state"], [], None,
         g["spec"].asking(output=True, asked=measure_text((regard.Entropy(), regard.Top(2))))),
    ),
    "columns": lambda g: (
        ops.columns,
        (g["q"], g["k"], g["arrays"], g["state"], torch.arange(QUERIES) > 1,
         turned(*g["rows"], 3), g["spec"].asking(seen=True, offsets=True)),
    ),
    "cells": lambda g: (
        ops.cells, (g["q"], g["k"], g["arrays"], g["state"], _place(), g["spec"].asking()),
    ),
    "attach": lambda g: (
        ops.attach,
        (g["q"], g["k"], g["arrays"], g["state"], turned(*g["rows"], 2),
         torch.zeros(*g["rows"], 2, dtype=torch.int64), g["spec"].asking()),
    ),
    "refuse": lambda g: (ops.refuse, (turned(*g["rows"]), g["q"], g["k"], "Distance()")),
    "gradient of the output": lambda g: _gradient(
        "output", [turned(*g["rows"], DIM), turned(*g["rows"]), torch.empty(0).double()], g
    ),
    "gradient of a product": lambda g: _gradient(
        "product", [turned(BATCH, HEADS, KEYS, 3), turned(*g["rows"], 3)], g
    ),
    "gradient of cells": lambda g: _gradient(
        "cells", [*_place(), turned(3, 2, 4), turned(*g["rows"])], g
    ),
    "gradient of top weights": lambda g: _gradient(
        "top", [torch.zeros(*g["rows"], 2, dtype=torch.int64), turned(*g["rows"], 2)], g
    ),
    "the library's": lambda g: (
        library.flash,
        (g["q"], g["k"], g["v"], False, Spec.of(None, ScoreRule(0.5)).asking(output=True)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_promise_is_kept(name: str) -> None:
    operator, arguments = CALLS[name](given())
    real = operator(*arguments)
    with FakeTensorMode() as mode:
        promised = operator(*tree_map_only(Tensor, mode.from_tensor, arguments))
    pairs = zip([real], [promised], strict=True)
    if isinstance(real, list):
        pairs = zip(real, promised, strict=True)
    for n, (a, b) in enumerate(pairs):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{name}, {n}"
        # how nothing is laid out does not matter
        assert a.stride() == b.stride() or not a.numel(), f"{name}, {n}"
