"""Small pictures of every head of a stack, from the maps that were stored, else from q and k."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError, UnavailableError
from regard.recording import Head, PromptView
from regard.recording.visibility import Sight, seen_cells
from regard.views.uniform import HIDDEN, codes_of, even_sums, mask_kind

SIDE: Final = 32  # pixels
MOST_SIDE: Final = 64
NONE, WHOLE, SAMPLED = 0, 1, 2  # no picture; of all recorded rows; of some, spread evenly
_BUDGET: Final = 2**24  # cells that are computed for one stack: a second or two
_MOST_HEADS: Final = 2**14
_Array: TypeAlias = NDArray[Any]


class Thumbnails(NamedTuple):
    """Layers × heads pictures, queries × keys stretched to a square."""

    kinds: NDArray[np.uint8]  # (layers, heads): NONE, WHOLE, SAMPLED
    codes: NDArray[np.uint8]  # (layers, heads, side, side): as those of a tile

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.kinds.nbytes + self.codes.nbytes

    def tobytes(self) -> bytes:
        """Kinds, then codes."""
        return self.kinds.tobytes() + self.codes.tobytes()


def thumbnails_of(
    prompt: PromptView,
    stack: str,
    side: int = SIDE,
    go_on: Callable[[], None] = lambda: None,
) -> Thumbnails:
    """Of every head of a stack. `go_on` is called now and then, and may raise."""
    if not 1 <= side <= MOST_SIDE:
        raise InputError(f"side={side}; give 1 to {MOST_SIDE} pixels")
    if stack not in prompt.stacks:
        have = ", ".join(map(repr, prompt.stacks)) or "none"
        raise InputError(f"there is no stack {stack!r}; this prompt has {have}")
    layers, heads = prompt.stacks[stack]
    if layers * heads > _MOST_HEADS:
        raise UnavailableError(f"{layers} × {heads} heads are too many for one picture")
    return _Sheet(prompt, stack, side).filled(go_on)


class _Sheet:
    """Pictures on their way."""

    def __init__(self, prompt: PromptView, stack: str, side: int) -> None:
        self.prompt = prompt
        self.places = [one for one in prompt.places.values() if one.stack == stack]
        longest = max((max(one.queries, one.keys) for one in self.places), default=1)
        self.side = min(side, max(longest, 1))
        shape = prompt.stacks[stack]
        self.kinds = np.full(shape, NONE, np.uint8)
        self.codes = np.full((*shape, self.side, self.side), HIDDEN, np.uint8)
        self._even: dict[Hashable, _Array] = {}

    def filled(self, go_on: Callable[[], None]) -> Thumbnails:
        """All that can be drawn; what is damaged stays empty."""
        waiting: list[Head] = []
        for place in self.places:
            go_on()
            try:
                heads = [self.prompt[place.stack, place.layer, n] for n in place.heads]
                if heads and self._is_stored(heads[0]):
                    self._draw_stored(heads)
                else:
                    waiting += [one for one in heads if one.exact and one.recorded]
            except FileError:
                continue
        for head in waiting:
            go_on()
            try:
                self._draw_computed(head, _BUDGET // len(waiting))
            except FileError:
                continue
        return Thumbnails(self.kinds, self.codes)

    # ── stored ───────────────────────────────────────────────────────────────────────────────

    def _is_stored(self, head: Head) -> bool:
        """Whether the stored map is there, and as fine as the picture or all there is."""
        own = head.place.pool_cell
        is_fine = own * self.side <= 2 * max(head.shape)
        return head.has("pooled") and (is_fine or not head.exact)

    def _draw_stored(self, heads: list[Head]) -> None:
        place, held = heads[0].place, self.prompt.held(heads[0].place.label)
        cells = held.pooled_sums()
        if cells is None:
            return
        own = place.pool_cell
        fine = -(-max(heads[0].shape) // own)  # cells a side
        step = -(-fine // self.side)
        sums = _block_sums(cells, step)
        for slot, head in enumerate(heads):
            even = self._uniform(head, own * step)
            self._keep(head, sums[slot], even, WHOLE)

    def _uniform(self, head: Head, cell: int) -> _Array:
        """What even rows would sum to in each cell; layers with one mask have it in common."""
        sight = Sight(self.prompt.held(head.place.label), head.head)
        key = mask_kind(sight), cell
        if key not in self._even:
            self._even[key] = even_sums(sight, cell)
        return self._even[key]

    # ── computed ─────────────────────────────────────────────────────────────────────────────

    def _draw_computed(self, head: Head, budget: int) -> None:
        """Of as many rows as the budget has cells for; of none where a pixel would have no row."""
        queries, keys = head.shape
        count = min(len(head.recorded), budget // max(keys, 1))
        if count < min(self.side, len(head.recorded)):
            return
        at = (np.arange(count) * len(head.recorded)) // count
        rows = at + head.recorded.start
        sight = Sight(self.prompt.held(head.place.label), head.head)
        seen = seen_cells(sight, rows, np.arange(keys))
        each = seen / np.maximum(seen.sum(1, keepdims=True), 1)
        tall, wide = min(self.side, queries), min(self.side, keys)
        pixels = rows * tall // queries, np.arange(keys) * wide // keys
        sums, even = (_gathered(one, pixels, (tall, wide)) for one in (head.rows(rows), each))
        self._keep(head, sums, even, WHOLE if count == len(head.recorded) else SAMPLED)

    def _keep(self, head: Head, sums: _Array, even: _Array, kind: int) -> None:
        codes = codes_of(sums, even).codes
        self.kinds[head.layer, head.head] = kind
        self.codes[head.layer, head.head] = _stretched(codes, self.side)


def _block_sums(cells: _Array, step: int) -> _Array:
    """(H, R, C) mass in cells → sums over `step` × `step` of them, in float64."""
    down, across = (np.arange(0, n, step) for n in cells.shape[1:])
    tall = np.add.reduceat(cells, down, axis=1)
    return np.add.reduceat(tall, across, axis=2, dtype=np.float64)


def _gathered(cells: _Array, pixels: tuple[_Array, _Array], shape: tuple[int, int]) -> _Array:
    """(R, K) cells → sums of those that fall on each pixel; `pixels` ascend."""
    down, across = (np.flatnonzero(np.diff(one, prepend=-1)) for one in pixels)
    found = np.zeros(shape)
    sums = np.add.reduceat(np.add.reduceat(cells, down, axis=0), across, axis=1)
    found[np.ix_(pixels[0][down], pixels[1][across])] = sums
    return found


def _stretched(codes: _Array, side: int) -> _Array:
    """(R, C) codes as side × side, each repeated as often as needed."""
    down, across = (np.arange(side) * n // side for n in codes.shape)
    return codes[np.ix_(down, across)]
