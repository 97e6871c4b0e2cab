"""Findings of `regard.check` that are true: why, and of which model types. Any other fails the run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """Why rows of some model types move with what they should not see."""

    rule: str
    title: str
    reason: str
    names: str  # of the model types, with blanks between them


KNOWN: tuple[Cause, ...] = ()


def cause_of(name: str, rule: str) -> Cause | None:
    """Why a rule is broken by a model type, where that is known."""
    return next((one for one in KNOWN if one.rule == rule and name in one.names.split()), None)
