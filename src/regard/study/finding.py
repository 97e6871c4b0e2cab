"""What is said about a head: findings with their numbers and the rows that show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from regard.errors import InputError

CAUSAL: Final = 0.1  # nats: so much of the copied token's log-probability is lost, at least


@dataclass(frozen=True)
class SeenAt:
    """A row, and how far it shows a pattern."""

    row: int
    last: int  # the same row; or the last of a bin, where rows were kept in bins
    token: str | None
    value: float
    known: bool  # the value is exact; else it is at least so much
    key: int | None = None  # the heaviest key: of the pattern, in a counter-example of the row
    key_token: str | None = None
    weight: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "row": self.row, "last": self.last, "token": self.token,
            "value": as_number(self.value), "exact": self.known, "key": self.key,
            "key_token": self.key_token, "weight": as_number(self.weight),
        }  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One pattern, looked for in one head.

    score        raw: mass in [0, 1], or what the pattern's line of the table says; NaN: not known
    chance       what an even spread over the visible keys would give; NaN where that has no meaning
    conditional  the same of the mass that is not on sinks; read it second
    why_not      why the label is not given; "" where it is
    """

    pattern: str
    score: float
    chance: float
    threshold: float
    conditional: float
    why_not: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[SeenAt, ...] = ()  # those that show it best
    counter: SeenAt | None = None  # one that does not
    compared: float = math.nan  # what is compared with the layer's other heads
    causal: float | None = None  # log-probability that a copied token loses by its knock-out
    n_rows: int = 0  # rows it was judged by: those that could have done otherwise
    p_value: float = math.nan  # of such a score by chance, at most
    test: str = ""  # which test says so
    undecided: bool = False  # whether the label is not known, for the reason `why_not`
    is_shape: bool = False  # of rows, wherever they look
    by_tokens: float = 0.0  # the probability that tokens are preferred so far by chance
    is_exact: bool = False  # to rounding, which no weights are by chance

    @property
    def holds(self) -> bool:
        """Whether the label is given."""
        return not self.why_not

    @property
    def name(self) -> str:
        """The label. Prefix-matching is called induction only beside causal evidence."""
        is_causal = self.causal is not None and self.causal >= CAUSAL
        if self.pattern == "prefix-matching" and self.holds and is_causal:
            return "induction"
        return self.pattern

    @property
    def known(self) -> bool:
        """Whether there is a score."""
        return not math.isnan(self.score)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is null."""
        numbers = {n: as_number(getattr(self, n)) for n in ("score", "chance", "threshold")}
        return {
            "pattern": self.name, **numbers, "conditional": as_number(self.conditional),
            "holds": self.holds, "why_not": self.why_not, "known": not self.undecided,
            "n_rows": self.n_rows, "p_value": as_number(self.p_value), "test": self.test,
            "detail": dict(self.detail),
            "causal": as_number(self.causal), "rows": [one.as_dict() for one in self.rows],
            "counter": None if self.counter is None else self.counter.as_dict(),
        }  # fmt: skip


@dataclass(frozen=True)
class HeadStudy:
    """Everything that was looked for in one head. `study["previous"]` is one finding."""

    label: str
    stack: str
    layer: int
    head: int
    sink: float  # mean mass on sinks
    non_sink: float  # mean mass on all other keys
    findings: tuple[Finding, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The patterns that hold; none of them is an answer too: unclear."""
        return tuple(one.name for one in self.findings if one.holds)

    @property
    def not_known(self) -> dict[str, str]:
        """By pattern, why this recording does not tell whether the label holds."""
        return {one.pattern: one.why_not for one in self.findings if one.undecided}

    def __getitem__(self, pattern: str) -> Finding:
        """By the pattern's name."""
        for one in self.findings:
            if pattern in (one.pattern, one.name):
                return one
        known = ", ".join(one.pattern for one in self.findings)
        raise InputError(f"no pattern {pattern!r}; there are {known}")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        given = ", ".join(f"{one.name} {one.score:.2f}" for one in self.findings if one.holds)
        return f"{self.label}: {given or 'unclear'}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the rows."""
        return {
            "label": self.label, "stack": self.stack, "layer": self.layer, "head": self.head,
            "labels": list(self.labels) or ["unclear"],
            "not_known": self.not_known,
            "sink": as_number(self.sink), "non_sink": as_number(self.non_sink),
            "scores": {one.name: as_number(one.score) for one in self.findings},
        }  # fmt: skip


def as_number(value: float | None) -> float | None:
    """As JSON has it."""
    return None if value is None or not math.isfinite(value) else float(value)
