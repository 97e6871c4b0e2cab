"""The fewest problems that take every path of the kernels: masks in each of their forms, every
score rule, four dtypes, sizes one above a tile's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from each.conftest import DEVICE
from regard.mask import Causal, Documents, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi, RelativeBias
from regard.testing import CASES, Case

__all__ = ["PATHS", "SMALL", "by_squares", "named"]

Options = dict[str, Any]
HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64
HEADS: Options = {"heads": 2, "key_heads": 1}


def named(name: str) -> Case:
    """A case of the shared matrix."""
    return next(case for case in CASES if case.name == name)


def by_squares(b: Any, h: Any, i: Any, j: Any) -> Any:
    """All, none or some of a square of 128 × 128, which differs by batch entry and head."""
    kind = (i // 128 + 2 * (j // 128) + b + h) % 3
    return (kind == 0) | ((kind == 1) & ((i + j) % 3 == 0))


def _ids_and_flags(case: Case) -> Mask:
    ids = torch.arange(case.keys) // 37
    return (
        Causal() & Documents(ids[-case.queries :], ids) & Padding(torch.arange(case.keys) % 3 > 0)
    )


def _two_spans(case: Case) -> Mask:
    return Window(9) | Prefix(torch.tensor([3, case.keys // 2]))


def _table(case: Case) -> torch.Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.rand(*case.batch, 1, case.queries, case.keys, generator=dice) > 0.3


def _by_distance(case: Case, dice: torch.Generator, _: torch.dtype) -> Options:
    return {"bias": RelativeBias(torch.randn(32, case.heads, generator=dice))}


def _slopes_and_sink(case: Case, dice: torch.Generator, dtype: torch.dtype) -> Options:
    exact = torch.promote_types(dtype, torch.float32)
    slopes, sink = (torch.rand(case.heads, generator=dice).to(exact) for _ in range(2))
    return {"bias": ALiBi(slopes), "sink": sink * 3, "softcap": 5.0, "scale": 0.7}


PATHS: dict[str, tuple[Case, torch.dtype]] = {
    "band": (
        Case("band", batch=(1,), queries=130, keys=200, mask=lambda _: Causal(), **HEADS), HALF,
    ),
    "score rule": (
        Case("score rule", batch=(1,), queries=70, keys=97, mask=lambda _: Window(40, 9),
             options=_slopes_and_sink, **HEADS),
        SINGLE,
    ),
    "two spans": (
        Case("two spans", queries=66, keys=70, value_dim=130, mask=_two_spans,
             options=_by_distance, heads=1, key_heads=1),
        SINGLE,
    ),
    "ids and flags": (
        Case("ids and flags", batch=(), queries=66, keys=97, mask=_ids_and_flags,
             options=named("bias table").options, **HEADS),
        SINGLE,
    ),
    "table": (
        Case("table", batch=(2, 1), queries=33, keys=65, dim=5, value_dim=5,
             mask=_table, options=named("sink").options, **HEADS),
        DOUBLE,
    ),
    "flags of doubles": (
        Case("flags of doubles", batch=(1,), queries=33, keys=41, mask=_ids_and_flags,
             options=_slopes_and_sink, **HEADS),
        DOUBLE,
    ),
    "squares": (
        Case("squares", batch=(1,), queries=129, keys=257, mask=lambda _: Rule(by_squares),
             **HEADS),
        HALF,
    ),
    "packed": (replace(named("packed"), batch=(1,), queries=66, keys=97, **HEADS), SINGLE),
    "packed together": (
        replace(named("packed together"), batch=(1,), queries=131, keys=131, **HEADS),
        torch.float16,
    ),
    "saturated": (replace(named("saturated"), batch=(1,), queries=66, keys=97, **HEADS), SINGLE),
}  # fmt: skip


def _small(case: Case) -> Case:
    """Fewer heads and tokens: two tiles of keys, ragged."""
    heads = min(case.heads, 2)
    return replace(
        case, batch=(1, 2)[: len(case.batch)] if len(case.batch) != 1 else (1,), heads=heads,
        key_heads=min(case.key_heads, heads) // 2 or 1, keys=min(case.keys, 41),
        queries=min(case.queries, 41 if case.name == "packed together" else 23),
    )  # fmt: skip


SMALL = CASES if DEVICE == "cuda" else tuple(map(_small, CASES))
