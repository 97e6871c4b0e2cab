"""Long sequences, as cases: the whole on one rank, the same in shards on many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

import regard
from each.conftest import call_of
from regard.parallel import RingAttention, Shards
from regard.testing import Case, Inputs, Yardstick

__all__ = [
    "CASES", "KINDS", "MERGING", "TOKENS", "case_named", "my_part", "names_on", "right_of",
    "ring_of", "shards_of",
]  # fmt: skip

TOKENS = 61
KINDS = ("even", "zigzag", "uneven")
_SQUARE: dict[str, Any] = {"queries": TOKENS, "keys": TOKENS}

MERGING = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Concentration(),
    regard.Distance(),
)  # fmt: skip


def _documents(case: Case) -> regard.Mask:
    ids = torch.arange(case.keys) // 17
    return regard.Causal() & regard.Documents(ids, ids)


def _lengths(case: Case) -> regard.Mask:
    """One entry sees almost nothing, so that whole shards are hidden from it."""
    return regard.Padding([3, case.keys], [case.queries // 2, case.queries])


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _alibi(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"bias": regard.ALiBi(torch.rand(case.heads, generator=dice).to(_exact(dtype)))}


def _relative(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    table = torch.randn(32, case.heads, generator=dice).to(_exact(dtype))
    return {"bias": regard.RelativeBias(table)}


def _table(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    table = torch.randn(case.heads, case.queries, case.keys, generator=dice)
    return {"bias": table.masked_fill(table > 1.5, -torch.inf).to(dtype)}


def _sink(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"sink": torch.randn(case.heads, generator=dice).to(_exact(dtype)) * 3}


def _everything(case: Case, dice: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
    return {"softcap": 5.0, "scale": 0.7, **_alibi(case, dice, dtype), **_sink(case, dice, dtype)}


CASES = (
    Case("plain", **_SQUARE),
    Case("causal", mask=lambda _: regard.Causal(), **_SQUARE),
    Case("window", mask=lambda _: regard.Window(9), **_SQUARE),
    Case("lengths", mask=_lengths, **_SQUARE),
    Case("documents", mask=_documents, **_SQUARE),
    Case("prefix", mask=lambda _: regard.Causal() | regard.Prefix(9), **_SQUARE),
    Case("rule", mask=lambda _: regard.Rule(lambda i, j: (i + 2 * j) % 5 != 0), **_SQUARE),
    Case("alibi", mask=lambda _: regard.Causal(), options=_alibi, **_SQUARE),
    Case("relative bias", options=_relative, **_SQUARE),
    Case("bias table", options=_table, **_SQUARE),
    Case("soft cap", options=lambda *_: {"softcap": 2.0}, spread=4.0, **_SQUARE),
    Case("sink", options=_sink, mask=_lengths, **_SQUARE),
    Case("everything", options=_everything, mask=lambda _: regard.Causal(), **_SQUARE),
    Case("one key head", key_heads=1, mask=lambda _: regard.Causal(), **_SQUARE),
    Case("wide values", value_dim=24, **_SQUARE),
    Case("no batch", batch=(), mask=lambda _: regard.Causal(), **_SQUARE),
    Case("large scores", spread=60.0, **_SQUARE),
    Case("saturated", spread=30000.0, mask=lambda _: regard.Causal(), **_SQUARE),
    Case("two tokens", queries=2, keys=2, mask=lambda _: regard.Causal()),
)


def case_named(name: str) -> Case:
    """Cases hold functions, which do not travel; their names do."""
    return next(case for case in CASES if case.name == name)


NAMES = tuple(case.name for case in CASES)


def names_on(world: int, kind: str, names: Sequence[str] = NAMES) -> Sequence[str]:
    """Every case on three ranks in every way, and on any other number of them in one way each."""
    return names if world == 3 else names[KINDS.index(kind) :: len(KINDS)]


@lru_cache(maxsize=64)
def right_of(name: str, dtype: torch.dtype) -> Yardstick:
    """The whole case on one rank."""
    return Yardstick(call_of(case_named(name).inputs(dtype)))


def shards_of(kind: str, tokens: int, world: int) -> Shards:
    """even, zigzag, or uneven: one rank has nothing, the last the most."""
    if kind == "uneven":
        small = [0, 3, 5][: world - 1]
        small = [min(n, tokens // world) for n in small]
        return Shards.contiguous([*small, tokens - sum(small)])
    return Shards.zigzag(tokens, world) if kind == "zigzag" else Shards.even(tokens, world)


def my_part(inputs: Inputs, shards: Shards, gradients: bool = False) -> list[torch.Tensor]:
    """This rank's query, key and value."""
    rank = dist.get_rank()
    parts = [shards.take(t, rank) for t in (inputs.query, inputs.key, inputs.value)]
    return [part.detach().clone().requires_grad_(gradients) for part in parts]


def ring_of(
    name: str, dtype: torch.dtype, kind: str, gradients: bool = False, **more: Any
) -> tuple[RingAttention, list[torch.Tensor]]:
    """A case on this rank, and the tensors it went in with."""
    case = case_named(name)
    inputs = case.inputs(dtype)
    shards = shards_of(kind, case.keys, dist.get_world_size())
    leaves = my_part(inputs, shards, gradients)
    return regard.parallel.ring(*leaves, shards=shards, **inputs.options, **more), leaves
