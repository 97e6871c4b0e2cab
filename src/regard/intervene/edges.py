"""Edges: queries that may not see keys, and the mask that says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from regard.engine.call import Call
from regard.errors import InputError
from regard.intervene.names import HeadNames, Heads, read_heads
from regard.mask import Mask, Padding, Table

Places: TypeAlias = "int | slice | range | Iterable[int]"
_Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class TokenPositions:
    """Some places of a sequence, whose length need not be known."""

    numbers: tuple[int, ...] = ()
    start: int = 0
    stop: int | None = 0  # None: to the end, however far that is
    step: int = 1

    @classmethod
    def of(cls, given: Places, name: str) -> TokenPositions:
        """From what a caller gives; negative numbers mean nothing while a sequence grows."""
        if isinstance(given, range):
            given = slice(given.start, given.stop, given.step)
        if isinstance(given, slice):
            start, step = given.start or 0, 1 if given.step is None else given.step
            if _whole(start, step) and (given.stop is None or _whole(given.stop)) and step:
                return cls((), start, given.stop, step)
            raise _refused(given, name)
        if isinstance(given, torch.Tensor):
            given = given.tolist()
        numbers = list(given) if isinstance(given, Iterable) else [given]
        if isinstance(given, str) or not _whole(*numbers):
            raise _refused(given, name)
        return cls(tuple(sorted({int(n) for n in numbers})))

    def among(self, at: NDArray[np.int64]) -> _Flags:
        """Which of the places `at`, of any shape, are meant; below 0 is padding, which never is."""
        within = (at >= self.start) & ((at - self.start) % self.step == 0)
        within &= True if self.stop is None else at < self.stop
        return within | np.isin(at, np.array(self.numbers, np.int64))

    def __repr__(self) -> str:
        if self.stop == 0:
            return str(list(self.numbers))
        stop = "" if self.stop is None else self.stop
        return f"{self.start}:{stop}" + (f":{self.step}" if self.step != 1 else "")


@dataclass(frozen=True, init=False)
class Edge:
    """Queries that may not see keys, in some heads or in all.

    queries, keys  places in the whole sequence from 0 on: a number, a range, a slice such as
                   slice(10, None), or a list. They are those of a recording: padding does not
                   count, so 0 is the first real token of each sequence of a batch. Tokens in a
                   cache count: while generating, the query of a step is the token that is read
    heads          such as ["L5H1", (5, 2), "L7", "cross"]; every head of the model where not given
    """

    queries: TokenPositions
    keys: TokenPositions
    heads: tuple[Heads, ...] | None

    def __init__(
        self,
        queries: Places,
        keys: Places,
        heads: HeadNames | Iterable[HeadNames] | None = None,
    ) -> None:
        object.__setattr__(self, "queries", TokenPositions.of(queries, "queries"))
        object.__setattr__(self, "keys", TokenPositions.of(keys, "keys"))
        object.__setattr__(self, "heads", None if heads is None else read_heads(heads))


def without(
    call: Call,
    edge: Edge,
    heads: Iterable[int],
    query_at: NDArray[np.int64],
    key_at: NDArray[np.int64],
) -> Mask | None:
    """The call's mask less the edge in these heads; the same mask where the edge lies elsewhere.

    query_at, key_at  (E, L) and (E, S): where the tokens of each batch entry stand in their whole
                      sequence, below 0 where they are padding; (1, …) where all entries are alike
    """
    shape = call.shape
    rows, columns = edge.queries.among(query_at), edge.keys.among(key_at)
    chosen = np.isin(np.arange(shape.query_heads), list(heads))
    if not ((rows.any(-1) & columns.any(-1)).any() and chosen.any()):
        return call.mask
    rows, columns = (
        flags[0] if (flags == flags[:1]).all() else flags.reshape(*shape.batch, -1)
        for flags in (rows, columns)
    )
    cut = _cut(rows, columns, call.query.device)
    if not chosen.all():
        cut = Table(_tensor(~chosen[:, None, None], call.query.device)) | cut
    return cut if call.mask is None else call.mask & cut


def cut_keys(columns: _Flags, queries: int, device: torch.device) -> Mask:
    """Nobody sees these keys (S,)."""
    return _cut(np.ones(queries, np.bool_), columns, device)


def _cut(rows: _Flags, columns: _Flags, device: torch.device) -> Mask:
    """Everybody sees every key, but these rows (…, L) not these columns (…, S).

    Either way of saying it is one that kernels like: intervals, where the keys that are left
    stand together, and a table of a single row, where all rows are alike.
    """
    left = _tensor(~columns, device)
    if rows.all() and not _are_runs(~columns):
        return Table(left[..., None, :] if left.ndim == 1 else left[..., None, None, :])
    every = torch.ones_like(left)
    return Padding(every, queries=_tensor(~rows, device)) | Padding(left)


def _are_runs(flags: _Flags) -> bool:
    """Whether in each (…, N) all that are set stand together."""
    begins = np.diff(flags.astype(np.int8), prepend=0) == 1
    return bool((np.count_nonzero(begins, axis=-1) <= 1).all())


def _tensor(flags: _Flags, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(flags)).to(device)


def _whole(*numbers: Any) -> bool:
    return all(
        hasattr(n, "__index__") and not isinstance(n, bool) and n.__index__() >= 0 for n in numbers
    )


def _refused(given: Any, name: str) -> InputError:
    return InputError(
        f"{name}={given!r}; give places in the sequence counted from 0: a number, range(10, 20), "
        "slice(10, None) or a list"
    )
