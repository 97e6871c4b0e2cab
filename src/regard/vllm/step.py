"""One step of a worker, as far as requests that asked are concerned: who has which rows, and what
is kept of them until they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from regard.vllm.batch import StepBatch
from regard.vllm.sequence import ServedSequence
from regard.vllm.shelf import FileShelf, MemoryShelf

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
