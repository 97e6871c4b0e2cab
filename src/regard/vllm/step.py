"""One step of a worker, as far as requests that asked are concerned: who has which rows, and what
is kept of them until they are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.vllm.sequence import ServedSequence
from regard.vllm.shelf import FileShelf, MemoryShelf


class StepBatch(NamedTuple):
    """One step's tokens, as the model is given them."""

    starts: Mapping[str, int]  # by request: its first row
    ids: Tensor  # (rows, or more)

    @classmethod
    def of(cls, order: Sequence[str], counts: Mapping[str, int], ids: Tensor) -> StepBatch:
        """From the requests in order, and how many rows each has."""
        ends = accumulate((counts[one] for one in order), initial=0)
        return cls(dict(zip(order, ends, strict=False)), ids)


class Rows:
    """Tells the batch of the step under way."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._prepared: Any = None  # the second runner's batch, which it keeps nowhere
        if not hasattr(runner, "input_batch"):
            prepare = runner.prepare_inputs

            def prepare_inputs(*args: Any, **kwargs: Any) -> Any:
                self._prepared = prepare(*args, **kwargs)
                return self._prepared

            runner.prepare_inputs = prepare_inputs

    def now(self, counts: Mapping[str, int]) -> StepBatch:
        """`counts` says how many tokens of each request are computed in this step."""
        runner = self._runner
        if self._prepared is not None:
            return StepBatch.of(self._prepared.req_ids, counts, self._prepared.input_ids)
        return StepBatch.of(runner.input_batch.req_ids, counts, runner.input_ids.gpu)


GATHER = 128  # rows that are measured together: what a measurement costs besides is then small


@dataclass
class KeptRows:
    """One step's rows of all requests that gather, as they are copied from each layer."""

    rows: Tensor  # (m,): which rows of the batch
    ids: Tensor  # (m,): their tokens
    wanted: frozenset[str]  # layers that any of the requests asked for
    layers: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # q, output (m, H, D)


class OwnRows(NamedTuple):
    """One request's part of them."""

    kept: KeptRows
    part: slice
    start: int  # of its first row in the request


@dataclass
class Following:
    """A request that asked."""

    sequence: ServedSequence
    shelf: FileShelf | MemoryShelf
    gathered: list[OwnRows] = field(default_factory=list)

    @property
    def id(self) -> str:
        """vLLM's own."""
        return self.sequence.request.id

    @property
    def is_due(self) -> bool:
        """Whether enough rows have gathered; best where a cell of the map is full."""
        waiting = sum(one.part.stop - one.part.start for one in self.gathered)
        last = self.gathered[-1]
        stop = last.start + last.part.stop - last.part.start
        full = stop % self.sequence.plan.pool_cell == 0
        return waiting >= GATHER and (full or waiting >= 2 * GATHER)


@dataclass(frozen=True)
class StepPart:
    """The rows of one request in the step under way."""

    following: Following
    start: int  # in the request
    first: int  # in the batch
    count: int

    @property
    def rows(self) -> slice:
        """In the batch."""
        return slice(self.first, self.first + self.count)


@dataclass
class ServedStep:
    """What the scheduler ordered, and once the model runs, who stands where."""

    counts: Mapping[str, int]
    starts: Mapping[str, int]  # by request that is followed: rows computed before
    long: list[StepPart] = field(default_factory=list)  # measured as they are computed
    short: list[StepPart] = field(default_factory=list)  # gathered
    kept: KeptRows | None = None
    is_located: bool = False

    def locate(self, batch: StepBatch, following: Mapping[str, Following]) -> None:
        """Find everybody's rows."""
        self.is_located = True
        for id, start in self.starts.items():
            if id in following and id in batch.starts:
                part = StepPart(following[id], start, batch.starts[id], self.counts[id])
                (self.long if part.count >= GATHER else self.short).append(part)
        if self.short:
            rows = [n for part in self.short for n in range(part.rows.start, part.rows.stop)]
            chosen = torch.tensor(rows, device=batch.ids.device)
            wanted = frozenset[str]().union(*(p.following.sequence.layers for p in self.short))
            self.kept = KeptRows(chosen, batch.ids.index_select(0, chosen), wanted)
