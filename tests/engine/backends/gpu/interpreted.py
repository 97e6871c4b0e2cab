"""Runs the kernels as Python over small forms of the shared cases; a child process, because Triton
decides on import whether it interprets.

    TRITON_INTERPRET=1 python interpreted.py <check> [<share>/<shares>]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import few_queries
from disorder import disordered
from hasten import hasten
from products import fix_products

import regard
from each import (
    conftest,
    test_brought,
    test_definition,
    test_gradients,
    test_infinities,
    test_stranger,
)
from engine import test_paging
from regard.engine import plan
from regard.engine.backends.gpu import decode, prune, replay
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.sweeps import TRITON
from regard.engine.backends.gpu.wanted import RUN, wanted
from regard.engine.call import parts_of
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxScore,
    Pooled,
    Received,
    Summary,
    Top,
    Visible,
)
from regard.testing import CASES, Case, Yardstick, poisoned_memory

# each kind of mask, bias and shape once; a GPU runs the whole matrix (make test-gpu)
STATISTICS = (
    "plain", "causal at the end", "more queries than keys", "window both sides", "lengths",
    "scattered padding", "documents", "packed", "packed together", "prefix", "not a window", "rule",
    "boolean table", "bias table", "relative bias", "cap, alibi, sink, causal", "wide values",
    "head dim 5", "one query", "no keys", "no queries", "no batch", "two batch axes", "saturated",
)  # fmt: skip
KEYS = ("plain", "documents", "packed", "not a window", "bias table", "sink", "no keys")
GRADIENTS = ("causal at the end", "packed", "cap, alibi, sink, causal", "wide values")
DECODED = (
    "causal at the end", "window both sides", "lengths", "documents", "packed", "not a window",
    "boolean table", "bias table", "cap, alibi, sink, causal", "wide values", "one query",
    "no keys", "no queries", "two batch axes",
)  # fmt: skip
BROUGHT = (
    "causal at the end", "more queries than keys", "window both sides", "lengths", "documents",
    "boolean table", "bias table", "sink", "cap, alibi, sink, causal", "wide values", "head dim 5",
    "one query", "no keys", "no queries", "two batch axes",
)  # fmt: skip
LATER = ("causal at the end", "lengths", "sink", "flat")
MAPPED = ("causal at the end", "packed", "window both sides", "bias table")
MAPS = (
    Pooled(1), Pooled(2), Pooled(4, "max"), Pooled(8), Pooled(8, "max"), Pooled(16),
    Pooled(16, "max"), Pooled(32), Pooled(64), Pooled(128, "max"), Pooled(192), Pooled(24),
)  # fmt: skip
TOGETHER = ("packed together",)  # as many queries as keys
SOME = Received((3, 68), "visible")  # in the first tile and in the last
QUESTIONS = ("output, lse and entropy", "received")


def always_prune() -> None:
    """However few keys there are."""
    prune._FEWEST_KEYS, prune._FEWEST_BLOCKS = 1, 0


@contextmanager
def as_if_long() -> Iterator[None]:
    """Keys in more blocks than a grid's second axis takes."""
    most, replay._SECOND_AXIS = replay._SECOND_AXIS, 0
    try:
        yield
    finally:
        replay._SECOND_AXIS = most


def small(case: Case) -> Case:
    """The same case with fewer heads and tokens: two tiles of keys, ragged."""
    batch = (1, 2)[: len(case.batch)] if len(case.batch) != 1 else (1,)
    heads = min(case.heads, 2)
    return replace(
        case, batch=batch, heads=heads, key_heads=min(case.key_heads, heads) // 2 or 1,
        queries=min(case.queries, 41 if case.name in TOGETHER else 23), keys=min(case.keys, 41),
    )  # fmt: skip


def statistics(case: Case) -> None:
    """Everything that is measured, in single precision."""
    test_definition.test_output_and_statistics(case, torch.float32, "triton")


def half(case: Case) -> None:
    """The same in half precision, whose tiles are larger."""
    test_definition.test_output_and_statistics(case, torch.bfloat16, "triton")


def double(case: Case) -> None:
    """In double precision, where flags and tables travel as whole numbers of 32 bits."""
    test_definition.test_output_and_statistics(case, torch.float64, "triton")


def later(case: Case) -> None:
    """Asked with the output or afterwards, a number has the same bits; and from the lse of more
    keys than were swept, it is that share of it."""
    inputs = case.inputs(torch.float64)
    asked = (Concentration(), Distance(), Entropy(), MaxScore(), Visible())
    given = {"implementation": "triton", **inputs.options}
    soon = regard.attend(inputs.query, inputs.key, inputs.value, summaries=asked, **given)
    late = regard.attend(inputs.query, inputs.key, inputs.value, **given).summarize(*asked)
    for summary, value in soon.summarize(*asked).items():
        assert torch.equal(value, late[summary]), f"{summary}: other bits"
    call = conftest.call_of(inputs)
    own = TRITON.rows(call, True, asked)
    more = own.state._replace(log=own.state.log + 0.5)
    less = TRITON.rows(call, True, asked, more)
    scale = float(torch.tensor(-0.5, dtype=torch.float64).exp())
    assert own.output is not None and less.output is not None
    torch.testing.assert_close(less.output, own.output * scale)
    torch.testing.assert_close(
        less.measured[Concentration()], own.measured[Concentration()] * scale**2
    )
    torch.testing.assert_close(less.measured[Distance()], own.measured[Distance()] * scale)
    for untouched in (Entropy(), MaxScore(), Visible()):
        assert torch.equal(less.measured[untouched], own.measured[untouched])


def infinite(case: Case) -> None:
    """±∞ in q and k, in both precisions."""
    for plant in test_infinities.PLANTS:
        for dtype in test_infinities.WIDE:
            test_infinities.test_every_implementation_agrees(plant, "causal", dtype, "triton")


def stranger(case: Case) -> None:
    """A mask, a bias and statistics that the package does not define."""
    for name in ("alone", "combined", "padded"):
        test_stranger.test_every_implementation(name, "triton", 40)
    test_stranger.test_gradients("triton", 24)
    inputs = replace(case, options=lambda *_: {"bias": test_stranger.Squared(0.5)}).inputs()
    assert TRITON.reasons(conftest.call_of(inputs).problem())


def by_squares(b: Any, h: Any, i: Any, j: Any) -> Any:
    """All, none or some of a square of 128 × 128, which differs by batch entry and head."""
    kind = (i // 128 + 2 * (j // 128) + b + h) % 3
    return (kind == 0) | ((kind == 1) & ((i + j) % 3 == 0))


def squares(case: Case) -> None:
    """A mask that is spelt out, at sizes that end within a square, at its border and behind it:
    everything that is measured, top keys, cells, gradients; a few queries over split keys."""
    case = replace(case, batch=(2,), heads=2, key_heads=1, mask=lambda _: regard.Rule(by_squares))
    statistics(replace(case, queries=130, keys=257, heads=1))
    half(replace(case, queries=129, keys=130, batch=(1,)))
    double(replace(case, queries=7, keys=130, batch=(1,)))
    for size in (1, 63, 130):
        keys(replace(case, queries=size, keys=size))
    test_gradients.QUESTIONS = {name: test_gradients.QUESTIONS[name] for name in QUESTIONS}
    test_gradients.test_gradients(replace(case, queries=20, keys=257), "triton")
    unseen(queries=130)
    decode._FEWEST_KEYS, decode._SPLIT, decode._SPLITS = 1, 64, 2
    statistics(replace(case, queries=3, keys=257))
    unseen(queries=3)


def unseen(queries: int) -> None:
    """Keys and values of squares that nobody sees are not read: they may hold anything. Maps of
    cells that begin with such a square, and the heaviest keys by block maxima, likewise."""
    always_prune()
    keys = 390
    mask = regard.Rule(lambda i, j: (j // 128 != 1) & ((i < 128) | (j >= 256) | (j % 5 == 0)))
    dice = torch.Generator().manual_seed(3)
    clean = [torch.randn(1, 1, n, 16, generator=dice) for n in (queries, keys, keys)]
    dirty = [t.clone() for t in clean]
    for t in dirty[1:]:
        t[..., 128:256, :] = torch.nan
    asked = (Entropy(), Received(), Pooled(256), Pooled(24), Visible(), Top(3))
    answers = []
    for given, name in ((dirty, "triton"), (clean, "dense")):
        leaves = [t.bfloat16().float().requires_grad_() for t in given]
        a = regard.attend(*leaves, mask=mask, implementation=name)
        found = [a.output, *(flat for s in asked for flat in parts_of(a.summarize(s)[s]))]
        found += torch.autograd.grad(a.output.square().sum() + a.entropy().sum(), leaves)
        halves = [t.bfloat16() for t in given]
        b = regard.attend(*halves, mask=mask, implementation=name, summaries=(Top(3),))
        answers.append((found, b.top(3).keys))
    (mine, best), (right, best_right) = answers
    for found, exact in zip(mine, right, strict=True):
        torch.testing.assert_close(found, exact, rtol=2e-5, atol=2e-5)
    assert torch.equal(best, best_right)


def keys(case: Case) -> None:
    """Top keys and cells."""
    test_definition.test_top_keys(case, "triton")
    test_definition.test_cells_agree_to_the_bit(case, "triton")


def gradients(case: Case) -> None:
    """Of questions that between them use every kernel of the backward."""
    every = test_gradients.QUESTIONS
    test_gradients.QUESTIONS = {name: every[name] for name in QUESTIONS}
    test_gradients.test_gradients(case, "triton")


def brought(case: Case) -> None:
    """The mass of each head of a group, from the backward: several tiles of queries a head, several
    blocks of keys, values in chunks."""
    test_brought.test_mass_from_the_backward(case, torch.float64, "triton")
    if case.name in GRADIENTS:
        sizes = {"queries": 70, "keys": 140, "value_dim": case.value_dim * 8}
        long = replace(case, **sizes)
        for dtype in (torch.float32, torch.bfloat16):
            test_brought.test_mass_from_the_backward(long, dtype, "triton")


def pruned(case: Case) -> None:
    """The heaviest keys by block maxima, some rows at a time, with equal keys among them; in
    whatever order the programs come."""
    always_prune()
    prune._BUFFER = 1
    long = replace(case, queries=140, keys=200, heads=1, key_heads=1)
    inputs = long.inputs(torch.bfloat16)
    key = inputs.key.clone()
    # equal keys in every block, so that equal maxima push each other out
    key[..., 64:144, :] = key[..., :80, :].clone()
    key[..., 150:190, :] = key[..., 10:50, :]
    found, exact = (
        regard.attend(inputs.query, key, inputs.value, implementation=name, **inputs.options)
        for name in ("triton", "dense")
    )
    for k in (1, 6, 16):
        with poisoned_memory(), disordered():
            mine = found.top(k)
        right = exact.top(k)
        assert torch.equal(mine.keys, right.keys)
        torch.testing.assert_close(mine.weights, right.weights)


def tied(case: Case) -> None:
    """Scores that are equal by the dozen: within a block, across blocks, in all of a row. The lower
    keys come first, whatever the mask, the heads that share a key, and the rows that are there."""
    always_prune()
    lengths = regard.Padding(torch.tensor([100]))
    masks = (None, regard.Causal(), regard.Window(40, 70), regard.Causal() & lengths)
    for n, (queries, keys) in enumerate(((70, 300), (129, 64), (20, 193), (64, 128))):
        sizes = {"queries": queries, "keys": keys, "heads": 2, "key_heads": 1, "mask": None}
        inputs = replace(case, **sizes).inputs(torch.bfloat16)
        query, key = inputs.query.clone(), inputs.key.clone()
        query[..., 3:9, :] = 0.0  # every score 0
        key[..., 5:60, :] = key[..., 5:6, :].clone()  # more of a block than there are places
        key[..., 100:150, :] = key[..., 5:6, :].clone()
        key[..., 150:, :] = key[..., : max(keys - 150, 0), :].clone()
        found, exact = (
            regard.attend(query, key, inputs.value, mask=masks[n], implementation=name)
            for name in ("triton", "dense")
        )
        for k in (1, 5, 8, 16):
            with poisoned_memory(), disordered():
                mine = found.top(k)
            right = exact.top(k)
            assert torch.equal(mine.keys, right.keys), f"{queries} × {keys}, {k}"
            torch.testing.assert_close(mine.weights, right.weights)


def listed(case: Case) -> None:
    """Each row's blocks and each block's rows, among maxima most of which are equal; blocks that
    a row does not see hold nothing, and rows that do not exist hold rubbish."""
    for queries, tall in ((70, 128), (64, 64)):
        sizes = {"queries": queries, "keys": 700, "heads": 2, "key_heads": 1}
        bound = bind(conftest.call_of(replace(case, **sizes).inputs(torch.bfloat16)))
        last = torch.arange(tall) + 700 - queries
        seen = torch.arange(11)[:, None] * 64 <= last  # (blocks, rows)
        maxima = torch.randint(4, (2, 11, tall)).float().masked_fill(~seen, -2.0e38)
        maxima[..., queries:] = 1.0e30
        with poisoned_memory(), disordered():
            made = wanted(bound, maxima, 0, 10)
        heavy, order = maxima.sort(dim=1, descending=True, stable=True)
        names = order.masked_fill(heavy < 0, -1)[:, :10]
        names[..., queries:] = -1
        for unit in range(2):
            pieces, work, ends = int(made.work_count[unit]), [], []
            for block in range(11):
                first, count = int(made.first[unit, block]), int(made.counts[unit, block])
                entries = made.entries[unit, first : first + count].sort().values
                row, place = (names[unit] == block).T.nonzero().T
                assert entries.tolist() == (row * 10 + place).tolist()
                work += [(block, first + n) for n in range(0, count, RUN)]
            for block, first in work:
                last = int(made.first[unit, block] + made.counts[unit, block])
                ends.append(min(first + RUN, last))
            assert made.work_behind[unit, :pieces].tolist() == ends
            given = torch.stack([made.work_block[unit], made.work_first[unit]], 1)[:pieces]
            assert given.tolist() == [list(piece) for piece in work]
        least = heavy[:, 9].clamp(min=-1.0e38)[..., :queries]
        assert torch.equal(made.least[..., :queries], least)
        assert torch.equal(made.names, names.to(torch.int32))
        assert (made.held[made.names < 0] == 0).all()


def decoded(case: Case) -> None:
    """A few queries over several splits of their keys: statistics, also with somebody else's lse,
    and the heaviest keys."""
    always_prune()
    decode._FEWEST_KEYS, decode._SPLIT, decode._SPLITS = 1, 64, 2
    keys = 200 if case.keys > 1 else case.keys
    few = replace(case, queries=min(case.queries, 3), keys=keys)
    statistics(few)
    if case.name in LATER:
        later(few)
    if keys:
        inputs = replace(few, heads=2, key_heads=1).inputs(torch.bfloat16)
        with poisoned_memory():
            found, exact = (
                regard.attend(
                    inputs.query, inputs.key, inputs.value, implementation=name,
                    summaries=(Top(6), Entropy()), **inputs.options,
                )
                for name in ("triton", "dense")
            )  # fmt: skip
        assert torch.equal(found.top(6).keys, exact.top(6).keys)
        torch.testing.assert_close(found.top(6).weights, exact.top(6).weights)


def paged(case: Case) -> None:
    """Keys in a paged cache, a few queries a sequence and many."""
    plan._order = lambda problem: ("triton",)
    for layout, packed in (("heads first", False), ("beside values", True), ("dims first", False)):
        test_paging.check_every_question(torch.float32, layout, packed)
    always_prune()
    test_paging.check_every_question(torch.bfloat16, "tokens", True)


def mapped(case: Case) -> None:
    """Maps beside the mass of all queries, from one sweep: as defined, whatever the cell. Mass has
    the same bits whichever map comes along and whichever way the grid is turned, and a map whether
    mass was asked or not."""
    sizes = {"queries": 70, "keys": 150, "heads": 1, "key_heads": 1}
    inputs = replace(case, **sizes).inputs(torch.bfloat16)
    call = conftest.call_of(inputs)
    right, bare = Yardstick(call), {"implementation": "triton", **inputs.options}

    def ask(*asked: Summary) -> dict[Summary, Any]:
        return regard.attend(inputs.query, inputs.key, inputs.value, **bare).summarize(*asked)

    alone = ask(Received())[Received()]
    for one in MAPS:
        with poisoned_memory():
            found = ask(Received(), one, Received(per="visible"), SOME)
        for summary, value in found.items():
            budget = right.budget(lambda steps, s=summary: s.define(steps, call.shape))
            budget.check(value, f"{summary!r} with {one!r}")
        assert torch.equal(found[Received()], alone), f"mass with {one!r}: other bits"
        assert torch.equal(found[one], ask(one)[one]), f"{one!r} alone: other bits"
    with as_if_long():
        assert torch.equal(ask(Received())[Received()], alone), "grid not turned: other bits"


CHECKS: dict[str, tuple[Callable[[Case], None], tuple[str, ...]]] = {
    "statistics": (statistics, STATISTICS),
    "half": (half, ("causal at the end", "sink")),
    "double": (double, ("scattered padding", "boolean table", "flat")),
    "later": (later, LATER),
    "infinite": (infinite, ("plain",)),
    "stranger": (stranger, ("plain",)),
    "squares": (squares, ("plain",)),
    "keys": (keys, KEYS),
    "gradients": (gradients, GRADIENTS),
    "brought": (brought, BROUGHT),
    "pruned": (pruned, ("causal at the end", "sink")),
    "tied": (tied, ("plain",)),
    "listed": (listed, ("causal at the end",)),
    "mapped": (mapped, MAPPED),
    "decoded": (decoded, DECODED),
    "paged": (paged, ("plain",)),
    "few": (few_queries.few, few_queries.FEW),
    "few_more": (few_queries.few_more, ("causal at the end",)),
}


def main(name: str, share: str) -> int:
    """How many cases are wrong."""
    hasten()
    fix_products()
    run, only = CHECKS[name]
    part, parts = map(int, share.split("/"))
    wrong = 0
    for case in [c for c in CASES if not only or c.name in only][part::parts]:
        start = time.perf_counter()
        try:
            run(small(case))
        except Exception as error:  # noqa: BLE001 - every wrong case is named
            wrong += 1
            print(f"{name}, {case.name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
        print(f"{case.name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "0/1"))
