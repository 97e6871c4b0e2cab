"""One causal attention over two ranks against the same on one, every rank with one thread.

one rank   `ring` over a group of one: no message is sent
ring       zig-zag shards, keys and values go round
ulysses    the same shards, tokens traded for heads

All measure everything that the first ring can. Ranks are processes on this machine that talk by
gloo; they stay, and the three take turns in them. The rows' notes give the efficiency of two ranks
(the time of one rank over that of all ranks together) and the bytes that each rank sent, counted.
"""

from __future__ import annotations

import tempfile
import time
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

import regard
from bench.cost import Layer
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns
from regard.errors import InputError
from regard.parallel import Shards, ring, ulysses
from regard.recorder.jobs import Task, Workers
from regard.summary import Summary, TopKeys, Visible

_WAYS = ("one rank", "ring", "ulysses")
_SUMMARIES: tuple[Summary, ...] = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Distance(),
    regard.Concentration(), Visible(), regard.Top(8),
)  # fmt: skip
_PATIENCE = timedelta(minutes=10)  # that a rank waits for another
_ROWS = 16  # of each rank that are compared
_ALLOWED = 2e-4


@dataclass(frozen=True)
class Size:
    """One problem, causal and in float32."""

    tokens: int
    heads: int = 2
    dim: int = 64
    ranks: int = 2

    def __post_init__(self) -> None:
        if self.tokens < 2 * self.ranks or self.heads % self.ranks:
            raise InputError(
                f"{self.tokens} tokens of {self.heads} heads on {self.ranks} ranks; give at least "
                f"{2 * self.ranks} tokens, and heads that divide by the ranks"
            )

    def inputs(self) -> list[Tensor]:
        """Gaussian q, k, v of unit variance, all tokens."""
        dice = torch.Generator().manual_seed(self.tokens)
        shape = (1, self.heads, self.tokens, self.dim)
        return [torch.randn(shape, generator=dice) for _ in range(3)]

    @property
    def layer(self) -> Layer:
        """For the cost model."""
        return Layer(self.heads, self.heads, self.dim, self.dim, torch.float32.itemsize)

    @property
    def spans(self) -> list[range]:
        """Rows that are compared: the last few of every rank."""
        last = [pieces[-1] for pieces in Shards.zigzag(self.tokens, self.ranks).pieces]
        return [range(max(start, stop - _ROWS), stop) for start, stop in last]


def measure(size: Size, seconds: float = 2.0, rounds: int = 5) -> list[Result]:
    """Compare the ways on some rows, count what travels, then let them take turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Workers(size.ranks, partial(_Rank, folder, size)) as ranks,
    ):
        _check(ranks, size)
        sent = {way: _counted(ranks, size, way) for way in _WAYS}
        contenders = {way: partial(_seconds, ranks, way) for way in _WAYS}
        # all have run in the check; the ranks' own clocks measure a call
        taken = take_turns(contenders, seconds=seconds, rounds=rounds, clock=_reported, warm=False)
    return [_result(size, way, taken, sent[way]) for way in _WAYS]


def _reported(run: Callable[[], object]) -> float:
    seconds = run()
    assert isinstance(seconds, float)
    return seconds


def _everyone(
    ranks: Workers[_Rank], way: str, function: Callable[[_Rank, str, Any], Any]
) -> list[Any]:
    """The answers of all ranks, one task each."""
    tasks = [Task(way, function, way) for _ in range(ranks.count)]
    return [answer for _, answer in ranks.run(tasks)]


def _seconds(ranks: Workers[_Rank], way: str) -> float:
    return max(_everyone(ranks, way, _Rank.timed))


def _counted(ranks: Workers[_Rank], size: Size, way: str) -> int:
    """Bytes a rank sends, on average; WrongResultError where the cost model says otherwise."""
    total = sum(_everyone(ranks, way, _Rank.sent))
    foreseen = {
        "one rank": 0,
        "ring": (size.ranks - 1) * size.layer.shard(size.tokens),
        "ulysses": size.layer.trade(size.tokens, size.ranks),
    }
    if total != foreseen[way]:
        raise WrongResultError(
            f"{way} of {size} sent {total} bytes, the cost model says {foreseen[way]:.0f}; one of "
            "them is wrong, so no time is reported"
        )
    return round(total / size.ranks)


# ── a rank ───────────────────────────────────────────────────────────────────────────────────


class _Rank:
    """In its own process: its tokens, and the others to talk to."""

    def __init__(self, folder: str, size: Size, number: int) -> None:
        torch.set_num_threads(1)  # this process is ours
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=number, world_size=size.ranks,
            timeout=_PATIENCE,
        )  # fmt: skip
        self.size, self.number = size, number
        self.first_alone = dist.new_group([0])
        self.whole = size.inputs()

    def ready(self, way: str, **options: Any) -> Callable[[], Any] | None:
        """A call of one of the ways; None where this rank has no part in it."""
        alone = way == _WAYS[0]
        if alone and self.number > 0:
            return None
        shards = Shards.zigzag(self.size.tokens, 1 if alone else self.size.ranks)
        mine = [shards.take(tensor, self.number) for tensor in self.whole]
        group = self.first_alone if alone else None
        call = ulysses if way == "ulysses" else ring
        return partial(call, *mine, shards=shards, group=group, mask=regard.Causal(), **options)

    def timed(self, way: str, _: object = None) -> float:
        """Seconds, from when all ranks are ready."""
        call = self.ready(way, summaries=_SUMMARIES)
        if call is None:
            return 0.0
        if way != _WAYS[0]:
            dist.barrier()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def sent(self, way: str, _: object = None) -> int:
        """Bytes that left this rank for the output alone."""
        call = self.ready(way, check=False)
        if call is None:
            return 0
        with _counting(self.number) as messages:
            call()
        return sum(messages)

    def rows(self, way: str, _: object = None) -> dict[int, list[Any]]:
        """This rank's values of the rows that are compared, by their position."""
        call = self.ready(way, summaries=_SUMMARIES)
        if call is None:
            return {}
        a = call()
        wanted = {row for span in self.size.spans for row in span}
        values = _values(a)
        return {
            place: [array[..., n, :].numpy() for array in values]
            for n, place in enumerate(a.positions.tolist())
            if place in wanted
        }


@contextmanager
def _counting(rank: int) -> Iterator[list[int]]:
    """The bytes of every message that this process gives to another, while it lasts."""
    messages: list[int] = []
    by_pairs, by_all = dist.batch_isend_irecv, dist.all_to_all_single

    def count_pairs(ops: list[dist.P2POp]) -> Any:
        messages.extend(op.tensor.nbytes for op in ops if op.op is dist.isend)
        return by_pairs(ops)

    def count_all(
        taken: Tensor, given: Tensor, arriving: list[int], leaving: list[int], **options: Any
    ) -> Any:
        messages.append(given.nbytes - leaving[rank] * given.itemsize)  # its own part stays
        return by_all(taken, given, arriving, leaving, **options)

    with patch.multiple(dist, batch_isend_irecv=count_pairs, all_to_all_single=count_all):
        yield messages


# ── is it right ──────────────────────────────────────────────────────────────────────────────


def _values(a: Any) -> list[Tensor]:
    """(…, rows, n) each: output, lse, statistics and the heaviest weights."""
    summaries = a.summarize(*_SUMMARIES)
    values = [summaries[summary] for summary in _SUMMARIES]
    values = [value.weights if isinstance(value, TopKeys) else value for value in values]
    rows = [a.output, a.lse, *values]
    return [row if row.ndim == a.output.ndim else row.unsqueeze(-1) for row in rows]


def _right(size: Size) -> dict[int, list[Any]]:
    """The definition in float64, for the rows that are compared."""
    q, k, v = (tensor.double() for tensor in size.inputs())
    found: dict[int, list[Any]] = {}
    for span in size.spans:
        seen = slice(0, span.stop)  # the mask hides what comes later
        a = regard.attend(
            q[..., span.start : span.stop, :], k[..., seen, :], v[..., seen, :],
            mask=regard.Causal(), summaries=_SUMMARIES, implementation="dense",
        )  # fmt: skip
        values = _values(a)
        found |= {row: [array[..., n, :].numpy() for array in values] for n, row in enumerate(span)}
    return found


def _check(ranks: Workers[_Rank], size: Size) -> None:
    right = _right(size)
    names = ["output", "lse", *(type(summary).__name__ for summary in _SUMMARIES)]
    for way in _WAYS:
        rows = dict(ChainMap(*_everyone(ranks, way, _Rank.rows)))
        if rows.keys() != right.keys():
            raise WrongResultError(f"{way} of {size} has rows {sorted(rows)} of {sorted(right)}")
        for row, arrays in rows.items():
            for name, found, wanted in zip(names, arrays, right[row], strict=True):
                gap = float(np.abs(found - wanted).max() / (np.abs(wanted).max() + 1))
                if not gap < _ALLOWED:
                    raise WrongResultError(
                        f"{way}: {name} of row {row} of {size} is off by {gap:.2g}; no time is "
                        "reported"
                    )


def _result(size: Size, way: str, taken: dict[str, Samples], sent: int) -> Result:
    mine, alone = taken[way], taken[_WAYS[0]]
    ratio = mine.ratio_to(alone)
    return timed(
        mine, 2, ratio, suite="parallel", what=way, implementation=_served(size),
        tokens=size.tokens, dim=size.dim, heads=size.heads, causal=True, dtype="float32",
        peer=_WAYS[0], threads=1,
        tflops=round(size.layer.work(size.tokens, causal=True) / mine.median / 1e12, 4),
        note=_note(size, way, ratio, sent),
    )  # fmt: skip


def _served(size: Size) -> str:
    few = [tensor[..., :2, :] for tensor in size.inputs()]
    return regard.attend(*few, mask=regard.Causal(), summaries=_SUMMARIES).implementation


def _note(size: Size, way: str, ratio: float, sent: int) -> str:
    """Efficiency, and the bytes that a rank sends."""
    if way == _WAYS[0]:
        return "1 rank of one thread"
    steps = size.ranks - 1
    each = f"{sent // steps} bytes a step" if way == "ring" else f"{sent} bytes in all"
    efficiency = f"efficiency {1 / (size.ranks * ratio):.3f}"
    return f"{size.ranks} ranks of one thread, {efficiency}, each sends {each}"
