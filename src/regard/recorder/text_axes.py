"""Pictures within a text: which runs of image tokens are whose patches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.axes import Axis, Grid, Other, Part, Tokens

Size = tuple[int, int, int]  # frames, rows, columns of patches
Run = tuple[int, int]  # its first token, and the one behind its last


def runs_of(ids: NDArray[np.int64], tokens: Iterable[int]) -> list[Run]:
    """Where these tokens stand one behind the other."""
    flags = np.isin(ids, list(tokens))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def among_words(count: int, runs: Sequence[Run], pictures: Sequence[Sequence[Part]]) -> Axis:
    """`count` tokens, in which each run is these parts."""
    parts: list[Part] = []
    reached = 0
    for (start, stop), own in zip(runs, pictures, strict=True):
        if start > reached:
            parts.append(Tokens(start - reached))
        parts += own
        reached = stop
    if count > reached:
        parts.append(Tokens(count - reached))
    return Axis(tuple(parts))


def unexplained(runs: Sequence[Run]) -> list[list[Part]]:
    """Image tokens, and no more is known."""
    return [[Other(stop - start, "image token")] for start, stop in runs]


def as_they_are(runs: Sequence[Run], sizes: Sequence[Size], first: int) -> list[list[Part]] | None:
    """Runs as pictures of these sizes, the first of which has the number `first`."""
    return _explained(runs, sizes, first, most=len(sizes))


def made_coarser(
    runs: Sequence[Run], sizes: Sequence[Size], most: int | None = None
) -> list[list[Part]] | None:
    """Runs as pictures of these sizes, or all coarser by one whole number a side; `most` pictures
    in a run."""
    for factor in range(1, max((max(size) for size in sizes), default=0) + 1):
        coarse = [_coarser(size, factor) for size in sizes]
        found = None
        if None not in coarse:
            found = _explained(runs, [one for one in coarse if one], 0, most or len(sizes))
        if found is not None:
            return found
    return None


def _coarser(size: Size, factor: int) -> Size | None:
    """`factor` × `factor` patches a token, where they divide."""
    t, h, w = size
    return None if h % factor or w % factor else (t, h // factor, w // factor)


def _explained(
    runs: Sequence[Run], sizes: Sequence[Size], first: int, most: int
) -> list[list[Part]] | None:
    """Each run as the next pictures; None unless all runs and all pictures come out."""
    queue = _Queue(list(sizes), first)
    found = []
    for start, stop in runs:
        if (parts := queue.laid(stop - start, most)) is None:
            return None
        found.append(parts)
    return None if queue.sizes else found


@dataclass
class _Queue:
    """Pictures that wait for their tokens, in their order."""

    sizes: list[Size]
    picture: int  # the number of the next one

    def laid(self, count: int, most: int) -> list[Part] | None:
        """A run of `count` tokens as the next pictures, at most so many; None where they do not add
        up to it."""
        left = count
        taken = list(self._taken(left, most))
        left -= sum(grid.count for grid in taken)
        if not left:
            del self.sizes[: len(taken)]
            self.picture += sum(grid.frames for grid in taken)
            return list(taken)
        frames, height, width = self.sizes[0] if self.sizes else (0, 0, 0)
        return [self._frame()] if frames > 1 and count == height * width else None

    def _taken(self, left: int, most: int) -> Iterator[Grid]:
        picture = self.picture
        for t, h, w in self.sizes[:most]:
            if t * h * w > left:
                return
            yield Grid(h, w, t, picture=picture)
            left, picture = left - t * h * w, picture + t

    def _frame(self) -> Grid:
        """One frame of a film whose frames have words between them (Qwen3-VL)."""
        frames, height, width = self.sizes[0]
        grid = Grid(height, width, picture=self.picture)
        self.picture += 1
        self.sizes[:1] = [(frames - 1, height, width)]
        return grid


def joined(parts: Sequence[tuple[Run, Sequence[Part]]]) -> tuple[list[Run], list[Sequence[Part]]]:
    """Runs of several kinds, in the order of the text."""
    ordered = sorted(parts, key=lambda one: one[0])
    return [run for run, _ in ordered], [replaced for _, replaced in ordered]
