"""ring(): many ranks compute what one rank does; what it accepts, remembers and refuses."""

from __future__ import annotations

import importlib
import weakref
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

import regard
from parallel.sequences import (
    KINDS,
    MERGING,
    TOKENS,
    case_named,
    my_part,
    names_on,
    right_of,
    ring_of,
    shards_of,
)
from parallel.world import WORLDS, run
from regard.engine.observers import editing
from regard.errors import RegardError
from regard.parallel import Shards, problem, transport
from regard.summary import Offsets, Pooled, Received, Summary, Visible

# float32 on every number of ranks, shared out in every way; a narrow type once
RUNS = [
    *((world, kind, torch.float32) for world in WORLDS for kind in KINDS),
    (3, "zigzag", torch.bfloat16),
]


def _refused(what: str) -> str:
    rank, world = dist.get_rank(), dist.get_world_size()
    shards: Any = Shards.even(8, world)
    q: Any = torch.zeros(2, shards.lengths[rank], 4)
    k: Any = q.clone()
    options: dict[str, Any] = {}
    if what == "tokens":
        k = torch.zeros(2, 5, 4)
    elif what == "no shards":
        shards = 8
    elif what == "other world":
        shards = Shards.even(8, world + 1)
    elif what == "two axes":
        q = torch.zeros(4, 4)
    elif what == "numbers":
        q, k = q.long(), k.long()
    elif what == "mask":
        options["mask"] = torch.ones(3, 3, dtype=torch.bool)
    elif what == "summary":
        options["summaries"] = ("entropy",)
    elif what == "implementation":
        options["implementation"] = "magic"
    hand = editing(object()) if what == "knock out" else nullcontext()  # type: ignore[arg-type]
    try:
        with hand:
            regard.parallel.ring(q, k, k, shards=shards, **options)
    except RegardError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("tokens", "key (2, 5, 4) has 5 tokens, the shard of rank 0 has 4"),
        ("no shards", "shards is a int; give e.g. regard.parallel.Shards.even(tokens, 2)"),
        ("other world", "shards are of 3 ranks, the group has 2"),
        ("two axes", "give a tensor (…, heads, tokens, dim)"),
        ("numbers", "query has dtype int64"),
        ("mask", "does not broadcast"),
        ("summary", "'entropy' is not a summary"),
        ("implementation", "'magic' does not exist"),
        ("knock out", "regard.knock_out"),
    ],
)
def test_what_is_refused(what: str, message: str) -> None:
    results = run(2, _refused, what)
    assert message in results[0], results
    assert "taken" not in results


def _by_name(implementation: str) -> torch.Tensor:
    inputs = case_named("causal").inputs(torch.float64)
    shards = shards_of("zigzag", 61, dist.get_world_size())
    parts = my_part(inputs, shards)
    a = regard.parallel.ring(*parts, shards=shards, implementation=implementation, **inputs.options)
    return a.output + a.entropy()[..., None]


def test_every_implementation_computes_the_same() -> None:
    results = [torch.cat(run(2, _by_name, name), -2) for name in ("cpu", "tiled", "dense")]
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


def _autocast() -> tuple[torch.dtype, torch.dtype, bool]:
    shards = Shards.even(8, dist.get_world_size())
    torch.manual_seed(dist.get_rank())
    q = torch.randn(2, shards.lengths[dist.get_rank()], 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = regard.parallel.ring(q, q, q, shards=shards)
    low = q.bfloat16()
    b = regard.parallel.ring(low, low, low, shards=shards)
    return a.output.dtype, a.lse.dtype, torch.equal(a.received(), b.received())


def test_autocast_casts_before_anything_travels() -> None:
    assert run(2, _autocast) == [(torch.bfloat16, torch.float32, True)] * 2


def _unchecked() -> torch.Tensor:
    shards = Shards.even(8, dist.get_world_size())
    q = torch.arange(8 * 4.0).reshape(1, 8, 4)
    mine = shards.take(q, dist.get_rank())
    return regard.parallel.ring(mine, mine, mine, shards=shards, check=False).output


def test_without_the_check_it_is_the_same() -> None:
    q = torch.arange(8 * 4.0).reshape(1, 8, 4)
    found = torch.cat(run(2, _unchecked), -2)
    torch.testing.assert_close(found, regard.attend(q, q, q).output)


# ── first ring ───────────────────────────────────────────────────────────────────────────────


def _rows(names: list[str], dtype: torch.dtype, kind: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        a, _ = ring_of(name, dtype, kind, summaries=(*MERGING, Visible(), regard.Top(5)))
        known = a.summarize(*MERGING, Visible())
        found.append(
            {"output": a.output, "lse": a.lse, "top": tuple(a.top(5)), "peak": tuple(a.peak())}
            | {repr(summary): value for summary, value in known.items()}
        )
    return found


@pytest.mark.parametrize(("world", "kind", "dtype"), RUNS)
def test_rows_of_many_ranks_are_those_of_one(world: int, kind: str, dtype: torch.dtype) -> None:
    names = names_on(world, kind)
    results = run(world, _rows, names, dtype, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, dtype), right_of(name, dtype).call.shape
        shards = shards_of(kind, shape.keys, world)

        def joined(key: str, dim: int = -1, n: int = n, shards: Any = shards) -> torch.Tensor:
            return shards.join([rank[n][key] for rank in results], dim)

        label = f"{name}, {world} ranks, {kind}"
        assert results[0][n]["output"].dtype == dtype
        right.budget(lambda s: s.context).check(joined("output", -2), f"output of {label}")
        right.budget(lambda s: s.lse).check(joined("lse"), f"lse of {label}")
        for summary in (*MERGING, Visible()):
            budget = right.budget(lambda s, m=summary, shape=shape: m.define(s, shape))
            budget.check(joined(repr(summary)), f"{summary!r} of {label}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_top_keys_are_numbers_of_the_whole_sequence(world: int, kind: str) -> None:
    names = names_on(world, kind)
    results = run(world, _rows, names, torch.float64, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, torch.float64), right_of(name, torch.float64).call.shape
        shards = shards_of(kind, shape.keys, world)
        exact = regard.Top(5).define(right.exact, shape)
        top = [shards.join([rank[n]["top"][side] for rank in results], -2) for side in (0, 1)]
        peak = shards.join([rank[n]["peak"][1] for rank in results], -1)
        assert torch.equal(top[1], exact.keys), f"{name}, {world} ranks, {kind}"
        assert torch.equal(peak, exact.keys[..., 0])
        torch.testing.assert_close(top[0], exact.weights, rtol=1e-10, atol=1e-12)


def _late(name: str) -> dict[str, Any]:
    early, _ = ring_of(name, torch.float64, "zigzag", summaries=(*MERGING, regard.Top(7)))
    late, _ = ring_of(name, torch.float64, "zigzag")
    same = {repr(s): torch.equal(early.summarize(s)[s], late.summarize(s)[s]) for s in MERGING}
    same["top"] = torch.equal(early.top(3).keys, late.top(3).keys)
    same["normalized"] = torch.equal(early.entropy(True), late.entropy(True))
    return same


def test_what_is_asked_late_is_what_was_asked_early() -> None:
    for results in run(2, _late, "everything"):
        assert all(results.values()), results


def _without_tokens() -> tuple[tuple[int, ...], ...]:
    shards = Shards.contiguous([5, 0])
    q = torch.randn(2, 5 * (1 - dist.get_rank()), 8)
    a = regard.parallel.ring(q, q, q, shards=shards, summaries=(regard.Top(2),))
    return tuple(a.output.shape), tuple(a.lse.shape), tuple(a.top(2).keys.shape), a.shape


def test_a_rank_without_tokens_takes_part() -> None:
    first, second = run(2, _without_tokens)
    assert first == ((2, 5, 8), (2, 5), (2, 5, 2), (2, 5, 5))
    assert second == ((2, 0, 8), (2, 0), (2, 0, 2), (2, 0, 5))


def _order() -> list[str]:
    """What happens when: posts, blocks and waits of one ring."""
    shards = Shards.even(9, 3)
    q = torch.randn(1, 3, 8)
    seen: list[str] = []

    def spied(name: str, real: Any) -> Any:
        def spy(*given: Any, **options: Any) -> Any:
            seen.append(name)
            return real(*given, **options)

        return spy

    real = transport.shift, transport.Transfer.wait, problem.ShardedProblem.partial
    with (
        patch.object(transport, "shift", spied("post", real[0])),
        patch.object(transport.Transfer, "wait", spied("wait", real[1])),
        patch.object(problem.ShardedProblem, "partial", spied("block", real[2])),
    ):
        regard.parallel.ring(q, q, q, shards=shards, check=False)
    return seen


def test_keys_are_under_way_before_a_block_is_computed() -> None:
    checked, *order = ["block", "post", "block", "wait", "post", "block", "wait", "block"]
    assert run(3, _order) == [[checked, *order]] * 3  # the first block is the empty one that checks


# ── second ring ──────────────────────────────────────────────────────────────────────────────


COLUMN_CASES = [
    "plain", "causal", "lengths", "documents", "alibi", "relative bias", "bias table", "sink",
    "everything", "one key head", "no batch", "large scores", "saturated", "two tokens",
]  # fmt: skip
MINE: tuple[Received, ...] = (
    Received(), Received(7), Received(per="visible"), Received(range(2, 50, 3), groups="mean"),
    Received([0, -1], "visible", "sum"), Received(how="max"), Received(7, groups="max", how="max"),
)  # fmt: skip
OF_THE_MATRIX: tuple[Summary, ...] = (
    Pooled(), Pooled(8), Pooled(7, "max"), Pooled(100), Offsets(),
)  # fmt: skip


def _fits(summary: Summary, tokens: int) -> bool:
    """A choice of queries must exist in the smallest sequence too."""
    wanted = getattr(summary, "queries", None)
    return not isinstance(wanted, range) or max(wanted) < tokens


def _asked(tokens: int) -> list[Summary]:
    return [summary for summary in (*MINE, *OF_THE_MATRIX) if _fits(summary, tokens)]


def _columns(names: list[str], dtype: torch.dtype, kind: str) -> list[dict[str, Any]]:
    found = []
    for name in names:
        a, _ = ring_of(name, dtype, kind)
        known = a.summarize(*_asked(a.shape[-1]))
        found.append({repr(summary): value for summary, value in known.items()})
    return found


@pytest.mark.parametrize(("world", "kind", "dtype"), RUNS)
def test_columns_of_many_ranks_are_those_of_one(world: int, kind: str, dtype: torch.dtype) -> None:
    names = names_on(world, kind, COLUMN_CASES)
    results = run(world, _columns, names, dtype, kind)
    for n, name in enumerate(names):
        right, shape = right_of(name, dtype), right_of(name, dtype).call.shape
        shards = shards_of(kind, shape.keys, world)
        for summary in _asked(shape.keys):
            values = [rank[n][repr(summary)] for rank in results]
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
    assert all("query 99 does not exist" in message for message in run(2, _wrong_question, [99]))


def _weighted() -> str:
    a, _ = ring_of("causal", torch.float32, "even")
    try:
        a.received(weighted_by=torch.ones(a.shape[-2] * 2))
    except regard.errors.RegardError as error:
        return str(error)
    return ""


def test_weights_of_queries_are_refused_on_every_rank() -> None:
    assert all("not weighted" in said or "Weighted(by)" in said for said in run(2, _weighted))


# ── answers ──────────────────────────────────────────────────────────────────────────────────


def _description() -> dict[str, Any]:
    a, _ = ring_of("sink", torch.float32, "zigzag")
    return {
        "shape": a.shape, "positions": a.positions, "rank": a.rank, "repr": repr(a),
        "shards": a.shards, "lse": a.lse.dtype, "output": a.output.dtype,
    }  # fmt: skip


def test_it_says_what_it_is() -> None:
    shards = Shards.zigzag(TOKENS, 2)
    for rank, results in enumerate(run(2, _description)):
        assert results["shape"] == (2, 4, shards.lengths[rank], TOKENS)
        assert torch.equal(results["positions"], shards.positions(rank))
        assert results["rank"] == rank
        assert results["shards"] == shards
        assert results["lse"] == results["output"] == torch.float32
        assert f"rank {rank} of 2" in results["repr"]


def _trips() -> list[int]:
    """How often tensors were passed on, after each question."""
    a, _ = ring_of("causal", torch.float32, "even", summaries=(regard.Top(5),), check=False)
    count: list[int] = []
    with patch.object(dist, "batch_isend_irecv", wraps=dist.batch_isend_irecv) as posts:
        for ask in (
            lambda: a.top(5), lambda: a.top(2), a.peak,  # known from the first ring
            a.entropy, a.entropy, lambda: a.entropy(True),  # a ring; known; another for the counts
            a.received, a.received, a.received,
            lambda: a.summarize(regard.Received(), regard.Entropy()),
        ):  # fmt: skip
            ask()
            count.append(posts.call_count)
    return count


def test_a_question_goes_round_once() -> None:
    for count in run(2, _trips):
        assert count[:3] == [0, 0, 0]
        assert count[3] == count[4] > 0
        assert count[5] > count[4]
        assert count[6] > count[5]
        assert count[6] == count[7] == count[8] == count[9]


def _sinks() -> tuple[torch.Tensor, torch.Tensor]:
    a, _ = ring_of("sink", torch.float64, "even")
    b, _ = ring_of("plain", torch.float64, "even")
    return a.sink_mass(), b.sink_mass()


def test_the_share_of_the_sink() -> None:
    results = run(2, _sinks)
    shards = Shards.even(TOKENS, 2)
    whole = shards.join([mass for mass, _ in results], -1)
    torch.testing.assert_close(whole, right_of("sink", torch.float64).exact.sink)
    assert all(not mass.any() for _, mass in results)


def _stale() -> str:
    a, (_, key, _) = ring_of("causal", torch.float32, "even")
    key.add_(1)
    try:
        a.entropy()
    except regard.errors.StaleError as error:
        return str(error)
    return ""


def test_keys_changed_in_place_are_noticed() -> None:
    assert all("was changed in place after this ring" in message for message in run(2, _stale))


def _no_summary() -> str:
    a, _ = ring_of("causal", torch.float32, "even")
    try:
        a.summarize("entropy")  # type: ignore[arg-type]
    except regard.errors.InputError as error:
        return str(error)
    return ""


def test_only_summaries_can_be_asked_for() -> None:
    assert all("'entropy' is not a summary" in message for message in run(2, _no_summary))


@pytest.mark.parametrize("name", ["ring", "tree", "ulysses"])
def test_functions_are_not_hidden_by_the_modules_of_their_names(name: str) -> None:
    module = importlib.import_module(f"regard.parallel.{name}")
    assert getattr(regard.parallel, name) is getattr(module, name)


@pytest.mark.parametrize("name", ["parallel", "nn"])
def test_it_is_loaded_on_first_use(name: str) -> None:
    assert name in dir(regard)
    assert getattr(regard, name).__name__ == f"regard.{name}"


def _lives() -> list[bool]:
    """Neither the graph nor the caches hold the answers' object back."""
    a, _ = ring_of("everything", torch.float32, "zigzag", gradients=True)
    kept, held = a.output, weakref.ref(a)
    a.received(), a.entropy()
    del a
    gone = held() is None
    kept.sum().backward()
    return [gone]


def test_the_graph_does_not_hold_it() -> None:
    assert run(2, _lives) == [[True]] * 2
