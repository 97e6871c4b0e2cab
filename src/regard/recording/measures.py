"""What a recording knows of every head: one table. Names of tensors and totals, the statistics of
a head, what may be asked again, exported and planned for are derived from it.

A statistic that is not in it may still be in a file (`schema.statistics_in`): its note says how
its rows join, and which of them it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from regard.declare import encode
from regard.summary import Concentration, Entropy, MaxScore, RowStatistic

Span = Literal["one", "entropy", "spread"]

_JOINS: Final[Mapping[str, Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Kind:
    """A statistic: of every row and, from these, of the head; or of the head alone."""

    name: str
    words: str = ""  # of the head's number; "" where a head has none
    of: str = "rows"  # "rows": a tensor, and a total; "head": a total at most; else a tensor
    _: KW_ONLY
    joins: str = "sum"  # rows become one number: "sum", "max", "min"; others are not known here
    counts: str = "rows"  # a sum is divided by so many: a total, or see CONTENTS.md
    unit: str = ""
    title: str = ""  # a short name for readers; "": its name
    span: Span = "one"  # how far the head's number ranges: see `surprise`
    text: str = ""  # the statistic, as `regard.declare` writes it
    shown: int = 99  # its place among the numbers of a head
    has_total: bool = True
    is_binned: bool = True
    by_layer: bool = False  # shown over the mean of the layer's heads
    telling: bool = False  # says something by itself; others are parts or complements
    summary: RowStatistic | None = None  # what the engine measures for it
    again: Callable[[Any], NDArray[Any]] | None = None  # of a head whose q and k were kept

    def join(self, a: Any, b: Any) -> Any:
        """Two sets of rows as one; NaN where nobody knows how."""
        way = _JOINS.get(self.joins)
        return np.full_like(a, np.nan) if way is None else way(a, b)

    def over(self, numbers: NDArray[Any]) -> float:
        """The numbers of some rows as one."""
        way = _JOINS.get(self.joins)
        return np.nan if way is None else float(way.reduce(numbers, initial=self.nothing))

    @property
    def shown_title(self) -> str:
        """By which readers know it."""
        return self.title or self.name.replace("_", " ")

    @property
    def is_sum(self) -> bool:
        """Whether it is shown as a mean."""
        return self.joins == "sum"

    @property
    def nothing(self) -> float:
        """What no row at all comes to."""
        return {"max": -np.inf, "min": np.inf}.get(self.joins, 0.0)


def default_join(name: str) -> Literal["sum", "max"]:
    """How rows join where neither a file (version 1) nor a class says so."""
    return "max" if name.startswith("max_") else "sum"


def join_of(statistic: RowStatistic) -> str:
    """How the rows of a declared statistic join."""
    return statistic.joins or default_join(statistic.name)


def _measured(statistic: RowStatistic, words: str, shown: int, **more: Any) -> Kind:
    """A statistic of rows that the engine measures, and q and k give back."""
    return Kind(
        statistic.name, words, joins=join_of(statistic), unit=statistic.unit, shown=shown,
        text=encode(statistic), summary=statistic,
        again=lambda head: head.summarize(statistic)[statistic], **more,
    )  # fmt: skip


def _told(name: str, words: str, shown: int, **more: Any) -> Kind:
    """A number of heads alone."""
    return Kind(name, words, of="head", shown=shown, **more)


KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (
    Kind("lse", has_total=False, is_binned=False, unit="nats", again=lambda head: head.lse),
    _measured(Entropy(), "mean entropy of a row, in nats", 9, span="entropy", telling=True),
    _measured(MaxScore(), "largest scale·q·k", 14, span="spread", telling=True,
              title="largest score"),
    Kind("peak", "mean weight of a row's heaviest key", shown=11, title="heaviest key",
         again=lambda head: head.peak().weights),
    _measured(Concentration(), "mean Σ p² of a row", 13),
    Kind("first", "mass on key 0", shown=2, telling=True, title="on the first token"),
    Kind("duplicate", "mass on earlier copies of the token, over rows that have one", shown=5,
         counts="copied_rows", telling=True, title="on earlier copies"),
    Kind("prefix", "mass on what followed earlier copies, over rows that have one", shown=6,
         counts="followed_rows", telling=True, title="after earlier copies"),
    Kind("output_norm", "mean ‖o‖, over the mean of the layer", shown=15, by_layer=True,
         telling=True),
    _told("normalized_entropy", "mean entropy as a share of the largest possible", 10,
          counts="normalized_rows", title="evenness"),
    _told("sharp", "share of rows with a weight above 0.99", 12, telling=True,
          title="rows on one key"),
    _told("sink", "mass on sinks: keys that get over 0.3 of each row that sees them", 0,
          has_total=False, title="on sinks"),
    _told("non_sink", "mass on keys that are no sinks", 1, has_total=False, title="off sinks"),
    _told("previous", "mass on the token before", 3, has_total=False, telling=True,
          title="on the token before"),
    _told("self", "mass on oneself", 4, has_total=False, telling=True, title="on itself"),
    _told("delimiter", "mass on punctuation and line breaks", 7, has_total=False, telling=True,
          title="on punctuation"),
    _told("delimiter_chance", "what delimiters would get from an even spread", 8,
          has_total=False, title="punctuation, by chance"),
)}  # fmt: skip

# One number a row, (heads, ⌈rows/row_bin⌉): tensors of a place.
ROW_NUMBERS: Final = tuple(name for name, kind in KINDS.items() if kind.of == "rows")
# Sums over the rows that see any key (`rows`), and over those that see several.
COUNTS: Final = ("rows", "normalized_rows")
TOTALS: Final = (*COUNTS, *(name for name, kind in KINDS.items() if kind.has_total))
KEPT_AS: Final = {kind.text: name for name, kind in KINDS.items() if kind.text}


def shown_kinds(more: Mapping[str, Kind]) -> dict[str, Kind]:
    """The numbers of a head, in the order they are shown; `more` are those of one recording."""
    every = (KINDS | dict(more)).values()
    named = [kind for kind in every if kind.words and kind.of in ("rows", "head")]
    return {kind.name: kind for kind in sorted(named, key=lambda kind: kind.shown)}
