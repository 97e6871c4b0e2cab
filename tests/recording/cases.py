"""Problems that recordings are made of: a table of kinds, and masks, rules and cuts at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from regard.mask import Causal, Documents, Mask, Padding, Prefix, Table, Window
from regard.mask.base import Part
from regard.score import ALiBi, BiasTable, PartBias, RelativeBias, ScoreRule
from support.recordings import Chunk

__all__ = ["CASES", "Case", "masks", "problems", "whole"]

DICE = np.random.default_rng(3)


@dataclass(frozen=True)
class Case:
    """What `write_recording` is given."""

    chunks: list[Chunk]
    options: dict[str, Any] = field(default_factory=dict)


def whole(n: int, mask: Any = None, keys: int | None = None, **score: Any) -> list[Chunk]:
    """One segment over everything."""
    scale = score.pop("scale", 0.25)
    return [Chunk((0, n), (0, keys or n), mask, ScoreRule(scale, **score))]


def _bias(heads: int, *shape: int) -> torch.Tensor:
    table = torch.from_numpy(DICE.standard_normal((heads, *shape)).astype(np.float32))
    return table.masked_fill(table > 1.5, -torch.inf)


IDS = torch.arange(160) // 37
CROSS = {"kind": "cross", "tokens": False}
CASES = {
    "plain": Case(whole(160)),
    "causal": Case(whole(700, Causal()), {"pieces": 256}),
    "one key head": Case(whole(160, Causal()), {"key_heads": 1}),
    "a head each": Case(whole(160, Causal()), {"key_heads": 4}),
    "some heads": Case(whole(160, Causal()), {"recorded": (1, 3)}),
    "window": Case(whole(160, Window(20))),
    "window both sides": Case(whole(160, Window(5, 9))),
    "prefix": Case(whole(160, Causal() | Prefix(torch.tensor(9)))),
    "not a window": Case(whole(160, ~Window(30))),
    "padding": Case(whole(160, Padding(torch.tensor(3)) & Causal())),
    "scattered": Case(whole(160, Padding(torch.arange(160) % 3 != 1, torch.tensor(80)))),
    "documents": Case(whole(160, Causal() & Documents(IDS, IDS))),
    "table": Case(whole(160, Table(torch.from_numpy(DICE.random((160, 160)) > 0.3)))),
    "tables": Case(whole(160, Table(torch.from_numpy(DICE.random((4, 160, 160)) > 0.3)))),
    "bias": Case(whole(160, Causal(), bias=BiasTable(_bias(1, 160, 160)))),
    "biases": Case(whole(160, bias=BiasTable(_bias(4, 160, 160)))),
    "alibi": Case(whole(160, Causal(), bias=ALiBi(torch.rand(4)))),
    "relative": Case(whole(160, bias=RelativeBias(torch.randn(32, 4)))),
    "soft cap": Case(whole(160, Causal(), softcap=2.0), {"spread": 4.0}),
    "sink": Case(whole(160, Padding(torch.tensor(50)), sink=torch.randn(4) * 3)),
    "everything": Case(
        whole(160, Causal(), softcap=5.0, bias=ALiBi(torch.rand(4)), sink=torch.randn(4))
    ),
    "cross": Case(whole(60, None, 130), CROSS),
    "more queries than keys": Case(whole(130, Causal(), 60), CROSS),
    "chunks": Case([Chunk((0, 100), (0, 100), Causal()), Chunk((100, 160), (0, 160), Causal())]),
    "decoding": Case(
        [
            Chunk((0, 90), (0, 90), Causal()),
            *[Chunk((n, n + 1), (0, n + 1)) for n in range(90, 110)],
        ]
    ),
    "sliding cache": Case(
        [
            Chunk((0, 80), (0, 80), Window(19)),
            Chunk((80, 120), (61, 120), Window(19)),
            Chunk((120, 160), (101, 160), Window(19)),
        ]
    ),
    "part": Case(
        [
            Chunk(
                (0, 60), (10, 100), Part(Causal("start") | Prefix(torch.tensor(30)), 5, 0, 90, 100),
                ScoreRule(0.25, None, PartBias(BiasTable(_bias(4, 90, 100)), 5, 0, 90, 100)),
            )
        ]
    ),
    "bf16": Case(whole(160, Causal()), {"dtype": torch.bfloat16}),
    "fp16": Case(whole(160, Causal()), {"dtype": torch.float16}),
    "fp64": Case(whole(160, Causal()), {"dtype": torch.float64}),
    "large scores": Case(whole(160, Causal()), {"spread": 60.0}),
    "saturated": Case(whole(160, Causal()), {"spread": 30000.0, "lse": False}),
    "one token": Case(whole(1, Causal())),
    "two tokens": Case(whole(2, Causal())),
    "1000 keys, dim 5": Case(whole(33, None, 1000), {"dim": 5, **CROSS}),
    "1100 rows with gaps": Case(
        whole(1100, Causal() & ~Window(30)), {"heads": 1, "key_heads": 1, "dim": 4}
    ),
}  # fmt: skip


@st.composite
def masks(draw: Any, queries: int, keys: int, heads: int = 4) -> Mask | None:
    """Of any kind that a recording can write down, one condition or two."""
    dice = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    kinds: list[Any] = [
        None,
        Causal(),
        Causal("start"),
        Window(draw(st.integers(0, 12))),
        Window(draw(st.integers(0, 5)), draw(st.integers(0, 5))),
        Causal() | Prefix(torch.tensor(draw(st.integers(0, keys)))),
        Padding(torch.tensor(draw(st.integers(0, keys)))),
        Padding(torch.rand(keys, generator=dice) > 0.4),
        Table(torch.rand(queries, keys, generator=dice) > 0.4),
        Table(torch.rand(heads, queries, keys, generator=dice) > 0.4),
        Documents(
            torch.randint(0, 3, (queries,), generator=dice).sort().values,
            torch.randint(0, 3, (keys,), generator=dice).sort().values,
        ),
    ]
    first, second = draw(st.sampled_from(kinds)), draw(st.sampled_from(kinds))
    return first if first is None or second is None else first & second


@st.composite
def _rules(draw: Any, queries: int, keys: int) -> ScoreRule:
    """Scale, cap, bias and sink in any company."""
    dice = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    biases = [
        None,
        ALiBi(torch.rand(4, generator=dice)),
        BiasTable(torch.randn(4, queries, keys, generator=dice)),
        BiasTable(torch.randn(1, queries, keys, generator=dice)),
    ]
    return ScoreRule(
        draw(st.sampled_from([0.1, 0.25, 1.0])),
        draw(st.sampled_from([None, 2.0, 30.0])),
        draw(st.sampled_from(biases)),
        draw(st.sampled_from([None, torch.randn(4, generator=dice)])),
    )


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Segments one after another; each sees keys from the first on."""
    chunks, start = [], 0
    for count in draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)):
        stop = start + count
        mask, rule = draw(masks(count, stop)), draw(_rules(count, stop))
        chunks.append(Chunk((start, stop), (0, stop), mask, rule))
        start = stop
    return {
        "chunks": chunks,
        "key_heads": draw(st.sampled_from([1, 2, 4])),
        "dim": draw(st.sampled_from([1, 5, 16])),
        "pieces": draw(st.sampled_from([1, 7, 64])),
        "seed": draw(st.integers(0, 9)),
        "pool_cell": draw(st.sampled_from([1, 4, 16])),
        "recorded": draw(st.sampled_from([None, (1, 3)])),
    }
