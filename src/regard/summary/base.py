"""What every summary is: a frozen value with a definition on the dense matrix."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from torch import Tensor

from regard.declare import Declared
from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.state import MergeRule

__all__ = ["Matrix", "Summary", "as_summaries"]


class Matrix(Protocol):
    """The dense intermediates a definition may speak of (`regard.engine.dense.Steps`)."""

    @property
    def position(self) -> int:
        """Query i stands at key i + position."""
        ...

    @property
    def scaled(self) -> Tensor:
        """scale·q·k, (…, Hq, L, S)."""
        ...

    @property
    def visible(self) -> Tensor:
        """Which cells may be seen."""
        ...

    @property
    def masked(self) -> Tensor:
        """The final scores, −∞ where hidden."""
        ...

    @property
    def weights(self) -> Tensor:
        """After the softmax."""
        ...

    @property
    def lse(self) -> Tensor:
        """(…, Hq, L)."""
        ...

    @property
    def sink(self) -> Tensor:
        """The sink's share of each row, (…, Hq, L)."""
        ...


class Summary(Declared):
    """Something measured on an attention matrix. Equal parameters make equal summaries."""

    family = "statistic"
    merge_rule: ClassVar[MergeRule | None] = None  # over disjoint sets of keys; None: not at all

    @abstractmethod
    def define(self, matrix: Matrix, shape: AttentionShape) -> Any:
        """What it means, on the dense matrix: the oracle of every faster way."""


def as_summaries(given: Any) -> tuple[Summary, ...]:
    """One summary or several, as a tuple; InputError where something else is among them."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    summaries = tuple(given) if several else (given,)
    for summary in summaries:
        if not isinstance(summary, Summary):
            raise InputError(f"{summary!r} is not a summary; give e.g. regard.Entropy()")
    return summaries
