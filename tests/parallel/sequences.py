"""Long sequences, as cases: the whole on one rank, the same in shards on many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import regard
from each.conftest import call_of
from regard.errors import RegardError
from regard.parallel import Shards
from regard.testing import CASES as SHARED
from regard.testing import Case, Inputs, Yardstick

__all__ = [
    "CASES", "HEADS", "KINDS", "TOKENS", "attention", "case_named", "my_part", "names_on",
    "refusal", "right_of", "shards_of",
]  # fmt: skip

TOKENS = 61
KINDS = ("even", "zigzag", "uneven")
HEADS = ((4, 2), (5, 5), (6, 2), (8, 1), (2, 2), (6, 3), (3, 1))


def _documents(case: Case) -> regard.Mask:
    ids = torch.arange(case.keys) // 17
    return regard.Causal() & regard.Documents(ids, ids)


def _lengths(case: Case) -> regard.Mask:
    """One entry sees almost nothing, so that whole shards are hidden from it."""
    return regard.Padding([3, case.keys], [case.queries // 2, case.queries])


_MASKS: dict[str, Callable[[Case], regard.Mask]] = {
    "lengths": _lengths, "sink": _lengths, "documents": _documents,
    "one key head": lambda _: regard.Causal(), "no batch": lambda _: regard.Causal(),
}  # fmt: skip
_NAMES = {"square causal": "causal", "cap, alibi, sink, causal": "everything"}
_SQUARE = (
    "plain", "square causal", "window", "lengths", "documents", "prefix", "rule", "alibi",
    "relative bias", "bias table", "soft cap", "sink", "cap, alibi, sink, causal", "one key head",
    "wide values", "no batch", "large scores", "saturated",
)  # fmt: skip


def _case(shared: str) -> Case:
    case = next(case for case in SHARED if case.name == shared)
    mask = _MASKS.get(shared, case.mask)
    return replace(case, name=_NAMES.get(shared, shared), mask=mask, queries=TOKENS, keys=TOKENS)


CASES = (
    *map(_case, _SQUARE), next(case for case in SHARED if case.name == "two tokens"),
    *(
        replace(_case("cap, alibi, sink, causal"), name=f"{heads} heads of {keys}", heads=heads,
                key_heads=keys, queries=13, keys=13)
        for heads, keys in HEADS
    ),
)  # fmt: skip
NAMES = tuple(case.name for case in CASES)[: -len(HEADS)]


def case_named(name: str) -> Case:
    """Cases hold functions, which do not travel; their names do."""
    return next(case for case in CASES if case.name == name)


def names_on(world: int, kind: str, names: Sequence[str] = NAMES) -> Sequence[str]:
    """Every case on three ranks in one way, and otherwise a third of them."""
    every = (world, kind) == (3, "zigzag")
    return names if every else names[KINDS.index(kind) :: len(KINDS)]


@lru_cache(maxsize=64)
def right_of(name: str, dtype: torch.dtype) -> Yardstick:
    """The whole case on one rank."""
    return Yardstick(call_of(case_named(name).inputs(dtype)))


def shards_of(kind: str, tokens: int, world: int) -> Shards:
    """even, zigzag, or uneven: one rank has nothing, the last the most."""
    if kind == "uneven":
        small = [min(n, tokens // world) for n in [0, 3, 5][: world - 1]]
        return Shards.contiguous([*small, tokens - sum(small)])
    return Shards.zigzag(tokens, world) if kind == "zigzag" else Shards.even(tokens, world)


def my_part(inputs: Inputs, shards: Shards, gradients: bool = False) -> list[Tensor]:
    """This rank's query, key and value."""
    rank = dist.get_rank()
    parts = [shards.take(t, rank) for t in (inputs.query, inputs.key, inputs.value)]
    return [part.detach().clone().requires_grad_(gradients) for part in parts]


def attention(
    way: str, name: str, dtype: torch.dtype = torch.float64, kind: str = "zigzag",
    gradients: bool = False, **more: Any,
) -> tuple[Any, list[Tensor]]:  # fmt: skip
    """A case on this rank by `ring` or `ulysses`, and the tensors it went in with."""
    case = case_named(name)
    inputs = case.inputs(dtype)
    shards = shards_of(kind, case.keys, dist.get_world_size())
    leaves = my_part(inputs, shards, gradients)
    call = getattr(regard.parallel, way)
    return call(*leaves, shards=shards, **(inputs.options | more)), leaves


def refusal(ask: Callable[[], Any]) -> str:
    """The words of an error of ours, or of a rule of the caller's own."""
    try:
        ask()
    except (RegardError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "answered"
