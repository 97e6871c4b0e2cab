"""What the positions of an attention stand for: words, patches of a picture, moments of a sound.

An axis is parts one behind the other; a model that reads a picture within a text has Tokens,
Grid, Tokens. A part knows how many positions it has and what each is called.

    Axis((Grid(14, 14, prefix=1),))            a ViT: the class token, then 14 × 14 patches
    Axis((Tokens(5), Grid(24, 24), Tokens(12)))    a picture within a prompt
    Axis((Frames(1500, 0.02),))                30 seconds of sound
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError

Array: TypeAlias = NDArray[Any]
_MOST: Final = 2**31  # positions that are believed
_LONGEST: Final = 1e9  # seconds


class Cell(NamedTuple):
    """Where a patch lies: frame, row and column of its grid."""

    frame: int
    row: int
    column: int


@dataclass(frozen=True)
class Tokens:
    """Tokens of a text."""

    kind: ClassVar = "text"
    count: int

    def __post_init__(self) -> None:
        _check(self)

    def name(self, at: int) -> str:
        """Tokens have texts of their own."""
        return f"token {at}"


@dataclass(frozen=True)
class Grid:
    """height × width patches, row by row, of `frames` pictures; before them `prefix` tokens that
    are no patch: class, registers.

    merge    patches come in blocks of merge × merge, each block row by row (Qwen2-VL's order)
    tile     blocks come in tiles of so many a side, each row by row; 0: all in one (Qwen2.5-VL)
    windows  (rows, columns) of windows that are attended by themselves: the grid is one of them,
             and which one a head stands for is its number // heads of the module (Swin)
    shift    by how many patches windows are moved down and right, cyclically
    apart    windows are not parts of one picture but pictures of their own, from `picture` on
    picture  which of the prompt's pictures it lies on; −1 for none
    whole    (rows, columns) of patches on the picture, where windows reach beyond its last ones;
             (0, 0): they end with it
    """

    kind: ClassVar = "grid"
    height: int
    width: int
    frames: int = 1
    prefix: int = 0
    merge: int = 1
    tile: int = 0
    windows: tuple[int, int] = (1, 1)
    shift: int = 0
    apart: bool = False
    picture: int = 0
    names: tuple[str, ...] = ()  # of the prefix
    whole: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", tuple(self.windows))
        object.__setattr__(self, "whole", tuple(self.whole))
        object.__setattr__(self, "names", tuple(self.names))
        _check(self)
        if self.height % self.merge or self.width % self.merge:
            raise InputError(
                f"Grid: {self.height} × {self.width} patches do not divide into blocks of "
                f"{self.merge} × {self.merge}"
            )
        if len(self.names) > self.prefix:
            raise InputError(f"Grid: {len(self.names)} names for a prefix of {self.prefix}")
        if not all(isinstance(one, str) for one in self.names):
            raise InputError("Grid: names of the prefix that are no texts")
        if len(self.windows) != 2 or not all(
            type(n) is int and 0 < n < _MOST for n in self.windows
        ):
            raise InputError("Grid: windows are two whole numbers of 1 or more: rows and columns")
        if len(self.whole) != 2 or not all(
            type(n) is int and 0 <= n <= most
            for n, most in zip(self.whole, self.padded, strict=True)
        ):
            raise InputError(
                f"Grid: whole is two whole numbers, rows and columns, of at most {self.padded}"
            )
        if type(self.picture) is not int or not -1 <= self.picture < _MOST:
            raise InputError("Grid: picture is a whole number of 0 or more, or -1 for none")

    @property
    def patches(self) -> int:
        """All of them, in every frame."""
        return self.frames * self.height * self.width

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of all windows together."""
        down, across = (1, 1) if self.apart else self.windows
        return self.height * down, self.width * across

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of patches on the picture."""
        high, wide = self.padded
        return self.whole[0] or high, self.whole[1] or wide

    @property
    def count(self) -> int:
        """Positions."""
        return self.prefix + self.patches

    def cell(self, at: int) -> Cell | None:
        """Where the at-th position lies; None for one of the prefix."""
        if at < self.prefix:
            return None
        frame, at = divmod(at - self.prefix, self.height * self.width)
        if self.merge == 1 and not self.tile:
            return Cell(frame, *divmod(at, self.width))
        return Cell(frame, *self._cells[at])

    @cached_property
    def _cells(self) -> list[tuple[int, int]]:
        """(row, column) of every patch of a frame, in the order of positions."""
        high, wide, m = self.height // self.merge, self.width // self.merge, self.merge
        tile = self.tile or max(high, wide)
        blocks = (
            (row, column)
            for up in range(0, high, tile)
            for left in range(0, wide, tile)
            for row in range(up, min(up + tile, high))
            for column in range(left, min(left + tile, wide))
        )
        return [(r * m + y, c * m + x) for r, c in blocks for y in range(m) for x in range(m)]

    @cached_property
    def places(self) -> Array:
        """(patches, 3): frame, row and column of each patch, in the order of positions."""
        within = np.asarray(self._cells).reshape(-1, 2)
        frames = np.repeat(np.arange(self.frames), len(within))
        return np.column_stack([frames, np.tile(within, (self.frames, 1))])

    def lay(self, numbers: Array) -> Array:
        """(frames, height, width, …) from (count, …) numbers, one a position; the prefix is left
        out."""
        patches = np.asarray(numbers)[self.prefix : self.count]
        laid = np.empty((self.frames, self.height, self.width, *patches.shape[1:]), patches.dtype)
        laid[tuple(self.places.T)] = patches
        return laid

    def centres(self, window: int = 0) -> Array:
        """(patches, 2): where the middle of each patch lies, as shares of the picture's height and
        width; of a grid that is one of `windows`, in the picture that they make up together, where
        1 or more is beyond its end."""
        first = np.zeros(2, np.int64)
        if not self.apart:
            own = np.array([self.height, self.width])
            first = np.array(divmod(window, self.windows[1])) * own + self.shift
        return ((self.places[:, 1:] + first) % self.padded + 0.5) / self.size

    def at(self, frame: int, row: int, column: int) -> int:
        """The position of a patch."""
        (found,) = np.flatnonzero((self.places == (frame, row, column)).all(1)).tolist()
        return self.prefix + int(found)

    def name(self, at: int) -> str:
        """The patch's row and column from 0, its frame where there are several."""
        cell = self.cell(at)
        if cell is None:
            return self.names[at] if at < len(self.names) else f"extra {at}"
        where = f"({cell.row}, {cell.column})"
        return where if self.frames == 1 else f"frame {cell.frame} {where}"


@dataclass(frozen=True)
class Frames:
    """Moments of a sound, `seconds` each, the first at `start`."""

    kind: ClassVar = "frames"
    count: int
    seconds: float
    start: float = 0.0

    def __post_init__(self) -> None:
        _check(self)
        if not (0 < self.seconds < _LONGEST and 0 <= self.start < _LONGEST):
            raise InputError(f"Frames: of {self.seconds!r:.20} seconds from {self.start!r:.20} on")

    def name(self, at: int) -> str:
        """When it begins."""
        return f"{self.start + at * self.seconds:.2f} s"


@dataclass(frozen=True)
class Other:
    """Positions without a place: object queries, latents; `what` says so in a word."""

    kind: ClassVar = "other"
    count: int
    what: str = "position"

    def __post_init__(self) -> None:
        _check(self)
        if not isinstance(self.what, str):
            raise InputError("Other: what is no text")

    def name(self, at: int) -> str:
        """Its number."""
        return f"{self.what} {at}"


@dataclass(frozen=True)
class Box:
    """A rectangle of a picture: top ≤ y < bottom and left ≤ x < right.

    of   how many units the picture has (down, across): (1, 1) for shares of its height and width,
         (14, 14) for patches of a 14 × 14 grid

    A patch of a grid lies in it if its middle does, whatever the grid's size.
    """

    top: float
    left: float
    bottom: float
    right: float
    of: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(self.of))
        down, across = self.of
        if not (0 <= self.top < self.bottom <= down and 0 <= self.left < self.right <= across):
            raise InputError(
                f"{self}: give 0 ≤ top < bottom ≤ {down} and 0 ≤ left < right ≤ {across}, or say "
                "with of=(14, 14) how many patches they are counted in"
            )

    def covers(self, centres: Array) -> NDArray[np.bool_]:
        """(n,): which of the points (n, 2), shares of height and width, lie in it."""
        y, x = (centres * self.of).T
        found: NDArray[np.bool_] = (y >= self.top) & (y < self.bottom)
        return found & (x >= self.left) & (x < self.right)

    def __str__(self) -> str:
        units = "" if self.of == (1, 1) else f" of {self.of[0]} × {self.of[1]}"
        return f"rows {self.top}–{self.bottom}, columns {self.left}–{self.right}{units}"


@dataclass(frozen=True)
class Patches:
    """Single patches (row, column) of a picture that has `of` (down, across) of them."""

    cells: tuple[tuple[int, int], ...]
    of: tuple[int, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple((int(r), int(c)) for r, c in self.cells))
        object.__setattr__(self, "of", tuple(self.of))
        wrong = [
            cell
            for cell in self.cells
            if not all(0 <= n < m for n, m in zip(cell, self.of, strict=True))
        ]
        if wrong or not self.cells:
            raise InputError(
                f"patches {wrong or list(self.cells)}; give (row, column) from 0 on, of "
                f"{self.of[0]} × {self.of[1]}"
            )

    def covers(self, centres: Array) -> NDArray[np.bool_]:
        """(n,): which of the points (n, 2), shares of height and width, lie in one of them."""
        marks = np.zeros(self.of, np.bool_)
        marks[tuple(np.array(self.cells).T)] = True
        y, x = np.floor(centres * self.of).astype(np.int64).T
        found: NDArray[np.bool_] = (y < self.of[0]) & (x < self.of[1])
        found[found] = marks[y[found], x[found]]
        return found

    def __str__(self) -> str:
        some = ", ".join(map(str, self.cells[:4])) + (" …" if len(self.cells) > 4 else "")
        return f"patches {some} of {self.of[0]} × {self.of[1]}"


Region: TypeAlias = Box | Patches
Part: TypeAlias = Tokens | Grid | Frames | Other
_KINDS: Final[dict[str, type[Part]]] = {one.kind: one for one in (Tokens, Grid, Frames, Other)}


@dataclass(frozen=True)
class Axis:
    """The positions of queries or keys."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    def __len__(self) -> int:
        return sum(part.count for part in self.parts)

    @classmethod
    def of(cls, given: Part | Sequence[Part] | Axis) -> Axis:
        """A part, several, or an axis."""
        if isinstance(given, Axis):
            return given
        parts = (given,) if isinstance(given, Tokens | Grid | Frames | Other) else tuple(given)
        for one in parts:
            if not isinstance(one, Tokens | Grid | Frames | Other):
                raise InputError(
                    f"an axis of {type(one).__name__}; give Grid, Tokens, Frames or Other of "
                    "regard.axes"
                )
        return cls(parts)

    def starts(self) -> Iterator[tuple[int, Part]]:
        """Each part with its first position."""
        at = 0
        for part in self.parts:
            yield at, part
            at += part.count

    def grids(self) -> list[tuple[int, Grid]]:
        """The grids, with their first positions."""
        return [(at, part) for at, part in self.starts() if isinstance(part, Grid)]

    def find(self, position: int) -> tuple[int, Part]:
        """The part a position lies in, and its first position."""
        for at, part in self.starts():
            if at <= position < at + part.count:
                return at, part
        raise InputError(f"position {position} of {len(self)}")

    def name(self, position: int) -> str:
        """What a position is called."""
        at, part = self.find(position)
        return part.name(position - at)

    @property
    def is_text(self) -> bool:
        """Whether all of it is text."""
        return all(isinstance(part, Tokens) for part in self.parts)

    @cached_property
    def names(self) -> list[str]:
        """What every position is called."""
        return [part.name(at) for part in self.parts for at in range(part.count)]

    def to_json(self) -> list[dict[str, Any]]:
        """As a recording's note has it."""
        return [{"kind": part.kind, **_said(part)} for part in self.parts]

    @classmethod
    def from_json(cls, value: Any) -> Axis:
        """Read back; FileError where it cannot be. A kind that is not known has positions alone."""
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise FileError("an axis that is no list of parts")
        return cls(tuple(_read(one) for one in value))


def _said(part: Part) -> dict[str, Any]:
    """Fields that differ from their defaults."""
    values = {one.name: (getattr(part, one.name), one.default) for one in fields(part)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _read(value: dict[str, Any]) -> Part:
    told = value.get("kind")
    kind = _KINDS.get(told) if isinstance(told, str) else None
    if kind is None:
        count = value.get("count")
        return Other(count if type(count) is int and 0 <= count < _MOST else 0, "position")
    known = {one.name for one in fields(kind)}
    try:
        return kind(**{name: _plain(one) for name, one in value.items() if name in known})
    except (InputError, TypeError, ValueError, RecursionError) as error:
        raise FileError(f"a {kind.kind} that cannot be: {error}") from None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_COUNTS: Final = ("count", "prefix", "shift", "tile")  # may be 0
_SIDES: Final = ("height", "width", "frames", "merge")  # at least 1


def _check(part: Part) -> None:
    """Whole numbers that can be."""
    for one in fields(part):
        value, least = getattr(part, one.name), 0 if one.name in _COUNTS else 1
        if one.name in (*_COUNTS, *_SIDES) and not (type(value) is int and least <= value < _MOST):
            raise InputError(
                f"{type(part).__name__}: {one.name} is {value!r:.20}; give a whole number of "
                f"{least} or more"
            )
    if part.count >= _MOST:
        raise InputError(f"{type(part).__name__}: {part.count} positions are too many")
