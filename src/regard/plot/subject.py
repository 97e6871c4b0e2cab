"""What a picture needs to know of a head: no more, so that pictures depend on no recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray

How: TypeAlias = Literal["mean", "max"]
_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class About:
    """Where a picture comes from."""

    model: str
    text: Sequence[str] = ()  # the prompt's tokens
    title: str = ""  # of the prompt, where its tokens are not known
    prompt: int = 0


class Sight(Protocol):
    """Who may see whom, by the masks alone."""

    @property
    def is_complete(self) -> bool:
        """Whether a mask is known for every recorded row."""
        ...

    def cells(self) -> int:
        """How many cells have to be looked at one by one for an answer; 0 where intervals tell."""
        ...

    def among(self, marks: _Array) -> _Array:
        """(rows,): Σ marks (keys,) over the keys that each recorded row may see."""
        ...


class Place(Protocol):
    """The module that the head belongs to."""

    @property
    def pool_cell(self) -> int:
        """Tokens a cell of the map that was kept; 0 without one."""
        ...


class Kept(Protocol):
    """Something that was measured while recording."""

    @property
    def values(self) -> _Array:
        """(n, …): the numbers."""
        ...

    @property
    def edges(self) -> _Array | None:
        """(n + 1,): the rows where each begins."""
        ...


class Head(Protocol):
    """One head, as `regard.recording.Head` answers for it."""

    @property
    def label(self) -> str:
        """`L5H1`."""
        ...

    @property
    def place(self) -> Place:
        """Where it stands."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        ...

    @property
    def recorded(self) -> range:
        """The rows that are known."""
        ...

    @property
    def exact(self) -> bool:
        """Whether every weight can be had."""
        ...

    @property
    def why_not(self) -> str:
        """Why not; "" where it can."""
        ...

    @property
    def query_tokens(self) -> list[str] | None:
        """The texts of the rows."""
        ...

    @property
    def key_tokens(self) -> list[str] | None:
        """The texts of the keys."""
        ...

    @property
    def stored(self) -> Mapping[str, Kept]:
        """What was measured while recording."""
        ...

    @property
    def scores(self) -> Any:
        """Final scores, indexed like the weights; −∞ where masked."""
        ...

    def pooled(self, cell: int | None = None, how: How = "mean") -> _Array:
        """(⌈queries/cell⌉, ⌈keys/cell⌉)."""
        ...

    def has(self, what: str) -> bool:
        """Whether it was measured while recording."""
        ...

    def __getitem__(self, index: Any) -> Any:
        """Weights."""
        ...
