"""What a class got wrong first, without names: counts and shares by step and by cause.

Nothing of a submission is in it: no file name, no number, no word. What fewer than three
submissions share is joined, so that nobody is found by a rare mistake.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.learn.grading.report import SO_FAR, Outcome, counted_as
from regard.learn.text import StyledLine, cells, prose

FEWEST = 3  # submissions that a step or a cause needs to be listed by itself
_VERDICTS = (
    "right", SO_FAR, "wrong", "not all read", "nothing filled in", "nothing to check", "unreadable",
)  # fmt: skip
_SHORT = {  # a kind of cause → its name in the table
    "not-scaled": "no scale", "scaled-by-width": "√embed", "scaled-by-tokens": "√tokens",
    "softmax-over-columns": "softmax axis", "masked-late": "mask after softmax",
    "scores-transposed": "queries and keys swapped", "arithmetic": "arithmetic slip",
    "rounding": "rounding slip", "sign": "wrong sign",
}  # fmt: skip
_REMARK = (
    "Anonymous: no names and no numbers of a submission. What fewer than "
    f"{FEWEST} submissions share is joined as other."
)


@dataclass(frozen=True)
class Row:
    """One line of a table: how many submissions, and their share of those it is counted among."""

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class Statistics:
    """The most frequent first mistakes of many submissions, the most frequent first."""

    submissions: int
    verdicts: tuple[Row, ...]
    steps: tuple[Row, ...]
    causes: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        tables = {"verdicts": self.verdicts, "first_mistakes_by_step": self.steps,
                  "first_mistakes_by_cause": self.causes}  # fmt: skip
        listed = {
            name: [{"name": row.name, "count": row.count, "share": round(row.share, 4)}
                   for row in rows]
            for name, rows in tables.items()
        }  # fmt: skip
        return {"submissions": self.submissions, "joined_below": FEWEST, **listed}

    def as_csv(self) -> str:
        """table, name, count, share."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("table", "name", "count", "share"))
        for table, rows in (("verdict", self.verdicts), ("step", self.steps),
                            ("cause", self.causes)):  # fmt: skip
            writer.writerows((table, row.name, row.count, f"{row.share:.4f}") for row in rows)
        return text.getvalue()

    def lines(self) -> list[StyledLine]:
        """Three tables and the remark on what is left out."""
        wrong = sum(row.count for row in self.steps)
        names = [row.name for table in (self.verdicts, self.steps, self.causes) for row in table]
        width = max(map(cells, names), default=0)
        plural = "" if self.submissions == 1 else "s"
        out: list[StyledLine] = [[(f"{self.submissions} submission{plural}", "bold")]]
        out += _table(self.verdicts, width)
        for title, rows in (("by step", self.steps), ("by cause", self.causes)):
            if rows:
                out += [[], [(f"First mistakes {title}, of {wrong} wrong", "bold")]]
                out += _table(rows, width)
        return [*out, [], *prose(_REMARK)]


def statistics(outcomes: Sequence[Outcome]) -> Statistics:
    """Count verdicts, first wrong steps, and causes."""
    verdicts = Counter(counted_as(one) for one in outcomes)
    order = [name for name in _VERDICTS if verdicts[name]]
    mistakes = [one.first_mistake for one in outcomes if one.first_mistake]
    return Statistics(
        len(outcomes),
        tuple(Row(name, verdicts[name], verdicts[name] / len(outcomes)) for name in order),
        _rows((step for step, _ in mistakes), "other steps"),
        _rows((f"{step}: {_words(kind)}" for step, kind in mistakes), "other causes"),
    )


def _words(kind: str) -> str:
    return _SHORT.get(kind, kind.replace("-", " "))


def _rows(names: Iterable[str], rest: str) -> tuple[Row, ...]:
    """The most frequent first, then by name; the rare ones as one row at the end."""
    counts = Counter(names)
    total = sum(counts.values())
    frequent = [(name, n) for name, n in counts.items() if n >= FEWEST]
    frequent.sort(key=lambda item: (-item[1], item[0]))
    rare = total - sum(n for _, n in frequent)
    joined = [(f"{rest} ({rare})", rare)] if rare else []
    return tuple(Row(name, n, n / total) for name, n in [*frequent, *joined])


def _table(rows: Iterable[Row], width: int) -> list[StyledLine]:
    return [
        [
            (f"  {row.name:<{width}}  ", ""),
            (f"{row.count:>4}", "bold"),
            (f"  {row.share:>4.0%}", "dim"),
        ]
        for row in rows
    ]
