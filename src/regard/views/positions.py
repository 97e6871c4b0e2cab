"""What positions stand for, in words and as coordinates: the columns of tables and the facts of an
axis that terminal and plots tell.

A patch has a frame, a row and a column, counted on the whole picture: of a window of patches (Swin)
those of the picture that the window is a part of. A moment of a sound has its seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.axes import Axis, Frames, Grid, Other, Part, Tokens
from regard.colour.scale import Scale
from regard.errors import InputError
from regard.recording import Head, PromptView
from regard.tidy import Chunk, TableColumn, TidyTable
from regard.views.encoding import as_json
from regard.views.picture import Overlay, Place, window_of
from regard.views.row import heaviest, token_at
from regard.views.text import CAVEAT, count
from regard.views.uniform import Look

if TYPE_CHECKING:
    from regard.views.parts import Selection

_Array: TypeAlias = NDArray[Any]

_SIDES: Final = {"query": "query_axis", "key": "key_axis"}
_PATCH: Final = re.compile(r"\(([0-9]+), ([0-9]+)\)")
NOWHERE: Final = -1  # the frame, row and column of what is no patch


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def axis_words(axis: Axis, times: str = "×") -> str:
    """`class + 14 × 14 patches`, `5 tokens + 24 × 24 patches + 12 tokens`."""
    return " + ".join(_part_words(part, times) for part in axis.parts if part.count)


def _part_words(part: Part, times: str) -> str:
    if isinstance(part, Tokens):
        return count(part.count, "token")
    if isinstance(part, Frames):
        return f"{count(part.count, 'moment')} of {part.seconds:g} s"
    if isinstance(part, Other):
        many = part.what[:-1] + "ies" if part.what.endswith("y") else f"{part.what}s"
        return f"{part.count:,} {part.what if part.count == 1 else many}"
    patches = f"{part.height} {times} {part.width} patches"
    said = patches if part.frames == 1 else f"{part.frames} frames of {patches}"
    if not part.prefix:
        return said
    before = part.names[0] if part.prefix == 1 and part.names else count(part.prefix, "extra token")
    return f"{before} + {said}"


def window_words(head: Head) -> str:
    """Which window of the picture a head stands for; "" where it sees all of it."""
    axis = head.key_axis if head.key_axis.grids() else head.query_axis
    for start, grid in axis.grids():
        every = grid.windows[0] * grid.windows[1]
        if every > 1:
            place = Place(start, grid, window_of(head, axis))
            own = head.head % max(head.place.total_heads // every, 1)
            if grid.apart:
                return f"head {own} on picture {place.picture}"
            top, left = place.corner
            return f"head {own} in window {place.window} of {every}, from patch ({top}, {left}) on"
    return ""


def narrow_names(names: list[str] | None, axis: Axis) -> list[str] | None:
    """The names above narrow columns: a patch as `3,5`."""
    if names is None or axis.is_text:
        return names
    return [_PATCH.sub(r"\1,\2", name) for name in names]


def kind_word(axis: Axis) -> str:
    """What a column of its positions' names is called."""
    kinds = {part.kind for part in axis.parts if part.count}
    return {"text": "token", "grid": "patch", "frames": "time"}.get(
        kinds.pop() if len(kinds) == 1 else "", "what"
    )


# ── found, and told ──────────────────────────────────────────────────────────────────────────


def find_patch(head: Head, side: str, text: str) -> int:
    """The position of patch `R,C`, or `F,R,C` in a film; rows and columns as names have them."""
    axis = getattr(head, _SIDES[side])
    numbers = [one.strip() for one in text.split(",")]
    if len(numbers) not in (2, 3) or not all(one.isdecimal() and len(one) < 10 for one in numbers):
        raise InputError(f"{text!r} names no patch; give its row and column, such as 3,5")
    frame, row, column = map(int, ["0", *numbers][-3:])
    grids = axis.grids()
    if not grids:
        whose = "queries" if side == "query" else "keys"
        raise InputError(f"{text!r}: the {whose} of {head.label} are no patches; give a number")
    for start, grid in grids:
        if frame < grid.frames and row < grid.height and column < grid.width:
            return int(start + grid.at(frame, row, column))
    raise InputError(f"there is no patch {text}; {head.label} has {axis_words(axis)}")


def patch_scale(overlays: Sequence[Overlay], look: Look) -> Scale:
    """By which patches are coloured; by weight, from those of patches alone: what lies on a class
    token or a text does not make them all dark."""
    every = [grid.weights.reshape(-1) for over in overlays for grid in over.grids]
    weights = np.concatenate(every).astype(np.float64)
    return look.scale(weights, max(over.head.shape[1] for over in overlays))


def column_answer(prompt: PromptView, over: Overlay, most: int) -> dict[str, Any]:
    """Who looks at a key, for JSON."""
    head, key = over.head, over.at or 0
    weights = np.nan_to_num(over.weights.astype(np.float64), posinf=0.0)
    return {
        "head": head.label, "prompt": prompt.number, "key": key,
        "token": token_at(head.key_names, key),
        "seen_by": int(np.count_nonzero(~np.isnan(over.weights))),
        "received": as_json(float(weights.sum())),
        "top": [
            {"row": row, "token": token_at(head.query_names, row),
             "weight": as_json(float(weights[row]))}
            for row in heaviest(weights, most).tolist()
        ],
        "caveat": CAVEAT, "exact": head.exact, "why_not": head.why_not or None,
    }  # fmt: skip


# ── coordinates ──────────────────────────────────────────────────────────────────────────────


class Coordinates(NamedTuple):
    """Of every position of an axis."""

    picture: _Array  # (positions,) int64: −1 where it lies on none
    frame: _Array  # (positions,) int64: −1 where it is no patch, and so below
    row: _Array
    column: _Array
    seconds: _Array  # (positions,): NaN where it has no time


def coordinates(prompt: PromptView, axis: Axis, window: int = 0) -> Coordinates:
    """Where every position lies."""
    whole = np.full((4, len(axis)), NOWHERE, np.int64)
    seconds = np.full(len(axis), np.nan)
    for start, part in axis.starts():
        if isinstance(part, Grid):
            own = slice(start + part.prefix, start + part.count)
            whole[:, own] = _on_picture(Place(start, part, window))
            seconds[own] = _seen_at(prompt, whole[0, own])
        elif isinstance(part, Frames):
            seconds[start : start + part.count] = part.start + part.seconds * np.arange(part.count)
    return Coordinates(whole[0], whole[1], whole[2], whole[3], seconds)


def _on_picture(place: Place) -> _Array:
    """(4, patches): picture, frame, row and column; of padding beyond the picture's end, none."""
    frame, row, column = place.grid.places.T
    (down, across), (top, left) = place.grid.padded, place.corner
    step = np.zeros_like(frame) if place.grid.apart else frame
    picture = np.where(place.picture < 0, NOWHERE, place.picture + step)
    row, column = (row + top) % down, (column + left) % across
    (high, wide) = place.size
    inside = (row < high) & (column < wide)
    return np.where(inside, np.stack([picture, frame, row, column]), NOWHERE)


def _seen_at(prompt: PromptView, pictures: _Array) -> _Array:
    """When the frames of a film are seen."""
    known = [np.nan if one.seconds is None else float(one.seconds) for one in prompt.pictures]
    times = np.array([*known, np.nan])
    return np.asarray(times[np.where((pictures >= 0) & (pictures < len(known)), pictures, -1)])


# ── columns of tables ────────────────────────────────────────────────────────────────────────


class CoordinateColumns:
    """The coordinates of queries, of keys or of both, in a table: no columns where all is text."""

    def __init__(self, of: Selection, *sides: str) -> None:
        heads = [part.head for part in of.parts()]
        axes = {side: [getattr(head, _SIDES[side]) for head in heads] for side in sides}
        self._grids = [s for s in sides if any(axis.grids() for axis in axes[s])]
        self._timed = [s for s in sides if any(_is_timed(axis) for axis in axes[s])]
        self._timed += [s for s in self._grids if s not in self._timed and _is_film(of)]
        self._known: tuple[Any, Coordinates] | None = None

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """Behind the others."""
        found = []
        for side in _SIDES:
            if side in self._grids:
                found += [
                    TableColumn(f"{side}_frame", "whole", f"of the {side}'s picture; −1: no patch"),
                    TableColumn(f"{side}_row", "whole", "of patches, on the whole picture"),
                    TableColumn(f"{side}_column", "whole", "of patches, on the whole picture"),
                ]
            if side in self._timed:
                found.append(TableColumn(f"{side}_seconds", "number", "when it is heard or seen"))
        return tuple(found)

    def of(self, prompt: PromptView, head: Head, **positions: _Array) -> Chunk:
        """The columns at these positions, by side."""
        made: dict[str, Any] = {}
        for side, at in positions.items():
            if side not in self._grids and side not in self._timed:
                continue
            axis = getattr(head, _SIDES[side])
            where = self._where(prompt, axis, window_of(head, axis))
            if side in self._grids:
                for name in ("frame", "row", "column"):
                    made[f"{side}_{name}"] = getattr(where, name)[at]
            if side in self._timed:
                made[f"{side}_seconds"] = where.seconds[at]
        return made

    def _where(self, prompt: PromptView, axis: Axis, window: int) -> Coordinates:
        """The last one is kept: neighbours in a table have the same."""
        key = prompt.number, axis, window
        if self._known is None or self._known[0] != key:
            self._known = key, coordinates(prompt, axis, window)
        return self._known[1]


def _is_timed(axis: Axis) -> bool:
    return any(isinstance(part, Frames) for part in axis.parts)


def _is_film(of: Selection) -> bool:
    return any(one.seconds is not None for prompt in of.prompts for one in prompt.pictures)


# ── a table of positions ─────────────────────────────────────────────────────────────────────

_POSITIONS: Final = (
    TableColumn("prompt", "whole", "index of the text"),
    TableColumn("place", "text", "the attention module: L5, cross.L5"),
    TableColumn("side", "text", "query or key"),
    TableColumn("window", "whole", "of windows that are attended by themselves; else 0"),
    TableColumn("position", "whole", "as rows and keys are counted"),
    TableColumn("kind", "text", "text, grid, frames or other"),
    TableColumn("name", "text", "the token, or what the position is called"),
    TableColumn("picture", "whole", "the number of the picture it lies on; −1 for none"),
    TableColumn("frame", "whole", "of a film; −1 where it is no patch"),
    TableColumn("row", "whole", "of patches, on the whole picture; −1 where it is no patch"),
    TableColumn("column", "whole", "likewise"),
    TableColumn("seconds", "number", "when it is heard or seen"),
)


def positions_table(of: Selection, about: dict[str, str]) -> TidyTable:
    """One line a position of the queries and of the keys of each place."""

    def chunks() -> Iterator[Chunk]:
        for prompt, head in _first_heads(of):
            for side in _SIDES:
                axis = getattr(head, _SIDES[side])
                names = (head.query_names if side == "query" else head.key_names) or [""] * len(
                    axis
                )
                for window in range(_windows(axis)):
                    yield _lines(prompt, head, (side, window), axis, names)

    lengths = [
        len(axis) * _windows(axis)
        for _, head in _first_heads(of)
        for axis in (head.query_axis, head.key_axis)
    ]
    return TidyTable("positions", _POSITIONS, chunks, about, sum(lengths), is_counted=True)


def _first_heads(of: Selection) -> Iterator[tuple[PromptView, Head]]:
    """A head of each place: positions are those of its module."""
    known = set()
    for part in of.parts():
        name = part.prompt.number, part.head.place.label
        if name not in known:
            known.add(name)
            yield part.prompt, part.head


def _windows(axis: Axis) -> int:
    return max((grid.windows[0] * grid.windows[1] for _, grid in axis.grids()), default=1)


def _lines(
    prompt: PromptView, head: Head, which: tuple[str, int], axis: Axis, names: list[str]
) -> Chunk:
    side, window = which
    size = len(axis)
    where = coordinates(prompt, axis, window)
    kinds = [part.kind for part in axis.parts for _ in range(part.count)]
    return {
        "prompt": np.full(size, prompt.number), "place": [head.place.label] * size,
        "side": [side] * size, "window": np.full(size, window), "position": np.arange(size),
        "kind": kinds, "name": [whole_text(name) for name in (*names, *[""] * size)[:size]],
        **where._asdict(),
    }  # fmt: skip


def whole_text(text: str) -> str:
    """Half of a character, which is no text, becomes a mark."""
    return text.encode("utf-8", "replace").decode()
