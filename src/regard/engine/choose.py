"""Which implementation serves a call: each one answers with the reasons why it cannot.

An implementation is a module-level object with a name, `reasons(problem)` and the two sweeps.
Only this page knows them, and imports one when it is asked about.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from regard.engine.problem import Answers, Call, Place, Problem, What
from regard.errors import InputError, UnavailableError
from regard.summary import Summary

__all__ = ["CANDIDATES", "Implementation", "choose", "survey"]

CANDIDATES = ("dense",)  # in order of preference


class Implementation(Protocol):
    """What an implementation offers."""

    name: str

    def unavailable(self) -> list[str]:
        """Why it cannot run on this machine at all; empty where it can."""
        ...

    def reasons(self, problem: Problem) -> list[str]:
        """Why it cannot serve this problem; empty where it can."""
        ...

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """The output, the lse and the summaries."""
        ...

    def measure(
        self, call: Call, lse: Tensor, summaries: tuple[Summary, ...]
    ) -> dict[Summary, Any]:
        """The summaries, asked afterwards."""
        ...

    def block(self, call: Call, lse: Tensor, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores of some heads."""
        ...

    def apply(self, call: Call, lse: Tensor, x: Tensor) -> Tensor:
        """A @ x for x (*batch, Hq, S, M)."""
        ...

    def apply_transposed(self, call: Call, lse: Tensor, y: Tensor) -> Tensor:
        """Aᵀ @ y for y (*batch, Hq, L, M)."""
        ...


def _load(name: str) -> Implementation:
    if name == "dense":
        from regard.engine.dense import DENSE

        return DENSE
    raise InputError(f"implementation={name!r} does not exist; give one of {', '.join(CANDIDATES)}")


def choose(problem: Problem, implementation: str | None) -> Implementation:
    """The named implementation or the first that can; UnavailableError lists every reason."""
    refused: dict[str, list[str]] = {}
    for name in CANDIDATES if implementation is None else (implementation,):
        candidate = _load(name)
        reasons = candidate.unavailable() or candidate.reasons(problem)
        if not reasons:
            return candidate
        refused[name] = reasons
    wanted = "no implementation" if implementation is None else f"implementation={implementation!r}"
    raise UnavailableError(f"{wanted} can serve this call:", refused)


def survey() -> dict[str, list[str]]:
    """Every implementation with the reasons why it cannot run on this machine at all."""
    return {name: _load(name).unavailable() for name in CANDIDATES}
