"""What keys received and the map of the whole matrix, from a second ring of keys alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from parallel.sequences import ring_of, shards_of
from parallel.test_forward import RUNS, right_of
from parallel.world import run
from regard.summary import Offsets, Pooled, Received, Summary

NAMES = [
    "plain", "causal", "lengths", "documents", "alibi", "relative bias", "bias table", "sink",
    "everything", "one key head", "no batch", "large scores", "saturated", "two tokens",
]  # fmt: skip
MINE: tuple[Received, ...] = (
    Received(), Received(7), Received(per="visible"), Received(range(2, 50, 3), groups="mean"),
    Received([0, -1], "visible", "sum"),
)  # fmt: skip
EVERYONES: tuple[Summary, ...] = (
    Pooled(), Pooled(8), Pooled(7, "max"), Pooled(100), Offsets(),
)  # fmt: skip


def _fits(summary: Summary, tokens: int) -> bool:
    """A choice of queries must exist in the smallest sequence too."""
    wanted = getattr(summary, "queries", None)
    return not isinstance(wanted, range) or max(wanted) < tokens


def _asked(tokens: int) -> list[Summary]:
    return [summary for summary in (*MINE, *EVERYONES) if _fits(summary, tokens)]


def _measure(names: list[str], dtype: torch.dtype, kind: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        a, _ = ring_of(name, dtype, kind)
        known = a.summarize(*_asked(a.shape[-1]))
        found.append({repr(summary): value for summary, value in known.items()})
    return found


@pytest.mark.parametrize(("world", "kind", "dtype"), RUNS)
def test_one_rank_is_many_ranks(world: int, kind: str, dtype: torch.dtype) -> None:
    told = run(world, _measure, NAMES, dtype, kind)
    for n, name in enumerate(NAMES):
        right, shape = right_of(name, dtype), right_of(name, dtype).call.shape
        shards = shards_of(kind, shape.keys, world)
        for summary in _asked(shape.keys):
            values = [rank[n][repr(summary)] for rank in told]
            budget = right.budget(lambda s, m=summary, shape=shape: m.define(s, shape))
            label = f"{summary!r} of {name}, {world} ranks, {kind}"
            if isinstance(summary, Received):
                budget.check(shards.join(values, -1), label)
                continue
            for value in values:  # the whole matrix, on every rank
                assert torch.equal(value, values[0])
                budget.check(value, label)


def _by_method() -> list[bool]:
    a, _ = ring_of("causal", torch.float64, "zigzag", summaries=(Received(), Pooled(8)))
    b, _ = ring_of("causal", torch.float64, "zigzag")
    return [
        torch.equal(a.received(), b.received()),
        torch.equal(a.pooled(8), b.pooled(8)),
        torch.equal(b.received(5, "visible", "sum"), a.received(5, "visible", "sum")),
        torch.equal(b.pooled(how="max"), a.summarize(Pooled(how="max"))[Pooled(how="max")]),
    ]


def test_asked_with_the_forward_or_later_by_name() -> None:
    assert run(3, _by_method) == [[True] * 4] * 3


def _wrong_question(queries: Any) -> str:
    a, _ = ring_of("causal", torch.float32, "even")
    try:
        a.received(queries)
    except regard.errors.InputError as error:
        return str(error)
    return ""


def test_queries_that_do_not_exist_are_refused_on_every_rank() -> None:
    assert all("query 99 does not exist" in said for said in run(2, _wrong_question, [99]))
