"""A head's map as tiles: computed from q, k and lse, or cut from the map that was stored."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, UnavailableError
from regard.recording import Head, PromptView
from regard.recording.replay import BLOCK_ROWS, Block, Replay, RowState
from regard.recording.visibility import Sight, uniform_cells
from regard.views.cache import Cache
from regard.views.pixels import TILE, Pixels, Sums, join
from regard.views.schema import How
from regard.views.uniform import HIDDEN, Codes, codes_of, mask_kind

_MOST_CELLS: Final = 2**30  # of the matrix in one computed tile: some seconds
_HOWS: Final[tuple[How, ...]] = ("mean", "max")
_KEPT_LEVEL: Final = 32  # tokens a pixel of the sums that are kept, from which coarser tiles come
_Array: TypeAlias = NDArray[Any]


def levels_of(head: Head, how: How = "mean") -> list[int]:
    """Tokens a pixel that the head can be shown at, finest first; the last fits in one tile, unless
    that would take too long.

    1, 2, 4 … where cells can be computed; from the stored map's cell on that cell, doubled.
    """
    own = head.place.pool_cell if head.has("pooled") and how == "mean" else 0
    computed = _doubled(1, head, own or None) if head.exact else []
    found = [level for level in computed if _cells(level, head) <= _MOST_CELLS]
    if own and not (found and _fits(found[-1], head)):
        found += _doubled(own, head, None)
    return found


def _cells(level: int, head: Head) -> int:
    """Of the matrix, in one tile."""
    queries, keys = (min(level * TILE, n) for n in head.shape)
    return queries * keys


def _doubled(first: int, head: Head, stop: int | None) -> list[int]:
    found, level = [], first
    while stop is None or level < stop:
        found.append(level)
        if _fits(level, head):
            break
        level *= 2
    return found


def _fits(level: int, head: Head) -> bool:
    return level * TILE >= max(head.shape)


class HeadMap:
    """The map of one head. Threads may share it.

    A level comes from the stored map where that is fine enough. Else it is computed: up to
    _KEPT_LEVEL tokens a pixel tile by tile; a coarser tile is four of the next finer level, down to
    that one, whose sums are kept. So no part of the matrix is swept twice for coarse levels, a
    step in or out costs nothing, and what was done for a tile that was given up is not lost.
    """

    def __init__(self, prompt: PromptView, head: Head, cache: Cache, name: Hashable) -> None:
        self.head, self.sight = head, Sight(prompt.held(head.place.label), head.head)
        self._replay = Replay(self.sight.held, head.head) if head.exact else None
        self._visible: _Array | None = None
        self._levels = {how: levels_of(head, how) for how in _HOWS}
        self._own = head.place.pool_cell if head.has("pooled") else 0  # tokens a stored cell
        self._cache, self._name = cache, name
        self._lock, self._stored_lock = Lock(), Lock()  # what is stored waits for no replay

    def size(self, level: int) -> tuple[int, int]:
        """(rows, keys) in pixels."""
        queries, keys = self.head.shape
        return -(-queries // level), -(-keys // level)

    def tile(
        self,
        level: int,
        y: int,
        x: int,
        how: How = "mean",
        go_on: Callable[[], None] = lambda: None,
    ) -> Codes:
        """(TILE, TILE): rows from y·TILE·level and keys from x·TILE·level on. `go_on` is called
        now and then, and may raise."""
        self._check(level, y, x, how)
        return self._cache.get(
            self._key(level, y, x, how),
            lambda: self._make(level, y, x, how, go_on),
            lambda made: made.codes.nbytes,
        )

    def ready_tile(self, level: int, y: int, x: int, how: How = "mean") -> Codes | None:
        """The tile, where nothing has to be computed from q and k; else None."""
        self._check(level, y, x, how)
        if self._is_stored(level, how):
            return self.tile(level, y, x, how)
        return self._cache.kept(self._key(level, y, x, how))

    def _key(self, level: int, y: int, x: int, how: How) -> Hashable:
        return self._name, self.head.label, level, y, x, how

    def _check(self, level: int, y: int, x: int, how: How) -> None:
        label, levels = self.head.label, self._levels[how]
        if how == "max" and self._replay is None:
            raise UnavailableError(f"{label}: {self.head.why_not}, so there is no map of maxima")
        if level not in levels:
            have = ", ".join(map(str, levels)) or "none: no map was kept"
            raise InputError(f"{label} has no map of {level} tokens a pixel; there are {have}")
        down, across = (-(-n // TILE) for n in self.size(level))
        if not (0 <= y < down and 0 <= x < across):
            raise InputError(
                f"tile {y}, {x} does not exist; at {level} tokens a pixel {label} has "
                f"{down} × {across}"
            )

    def _make(self, level: int, y: int, x: int, how: How, go_on: Callable[[], None]) -> Codes:
        if self._replay is None or self._is_stored(level, how):
            return self._cut(level, y, x)
        return self._sums(self._replay, level, (y, x), how, go_on).codes(how)

    def _is_stored(self, level: int, how: How) -> bool:
        """Whether the level is the stored map's, or several of its cells are a pixel."""
        return how == "mean" and self._own > 0 and level % self._own == 0

    # ── stored ───────────────────────────────────────────────────────────────────────────────

    def _cut(self, level: int, y: int, x: int) -> Codes:
        whole = self._cache.get(
            (self._name, self.head.label, level),
            lambda: self._stored(level),
            lambda made: made.codes.nbytes,
        )
        codes = np.full((TILE, TILE), HIDDEN, np.uint8)
        part = whole.codes[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE]
        codes[: part.shape[0], : part.shape[1]] = part
        return Codes(codes, whole.nan)

    def _stored(self, level: int) -> Codes:
        with self._stored_lock:
            weights = np.asarray(self.head.pooled(level), np.float64)
        even = self._cache.get(
            (self._name, mask_kind(self.sight), "even", level),
            lambda: uniform_cells(self.sight, level),
            lambda made: made.nbytes,
        )
        return codes_of(weights, even)

    # ── computed ─────────────────────────────────────────────────────────────────────────────

    def _sums(
        self, replay: Replay, level: int, at: tuple[int, int], how: How, go_on: Callable[[], None]
    ) -> Sums:
        """Of one tile."""
        (y, x), side = at, TILE * level
        if level > _KEPT_LEVEL:
            down, across = (-(-2 * n // side) for n in self.head.shape)  # tiles of half the level
            quarters = {
                (v, u): self._sums(replay, level // 2, (2 * y + v, 2 * x + u), how, go_on)
                for v in range(min(2, down - 2 * y))
                for u in range(min(2, across - 2 * x))
            }
            return join(quarters, how)
        pixels = Pixels(level, y * side, x * side, how)
        if level < _KEPT_LEVEL:
            return self._computed(replay, pixels, go_on)
        return self._cache.get(
            ("sums", self._key(level, y, x, how)),
            lambda: self._computed(replay, pixels, go_on),
            lambda made: made.nbytes,
        )

    def _computed(self, replay: Replay, pixels: Pixels, go_on: Callable[[], None]) -> Sums:
        side, recorded = TILE * pixels.level, self.head.recorded
        first, last = max(pixels.top, recorded.start), min(pixels.top + side, recorded.stop)
        for start in range(first // BLOCK_ROWS * BLOCK_ROWS, last, BLOCK_ROWS):
            band = np.arange(max(start, first), min(start + BLOCK_ROWS, last))
            for _, block in replay.blocks(band):
                go_on()
                self._fold(replay, block, pixels)
        return pixels.sums()

    def _fold(self, replay: Replay, block: Block, pixels: Pixels) -> None:
        left, right = pixels.left, min(pixels.left + TILE * pixels.level, self.head.shape[1])
        known: tuple[RowState, _Array] | None = None  # not asked for where nothing may be seen
        for tile in block.tiles(left, right):
            known = known or self._rows(replay, block.rows)
            state, visible = known
            low, high = max(left - tile.start, 0), min(right, tile.stop) - tile.start
            scores = tile.scores[:, low:high]
            pixels.fold(block.rows, tile.start + low, (scores, state.weights(scores)), visible)

    def _rows(self, replay: Replay, rows: _Array) -> tuple[RowState, _Array]:
        """What weights need of their rows, and how many keys each may see."""
        with self._lock:  # a replay fills in what it computes of rows
            return replay.state(rows), self._counts()[rows - self.head.recorded.start]

    def _counts(self) -> _Array:
        """(rows,): how many keys each recorded row may see."""
        if self._visible is None:
            self._visible = self.sight.visible()
        return self._visible
