"""A mistake with a name: its step, its words, and the fields of the recipe it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

STEPS: Final[dict[str, float]] = {  # in order, with the points of each
    "inputs": 1, "projections": 2, "heads": 2, "scores": 2, "scaling": 2, "mask": 2, "softmax": 3,
    "weighted sum": 2, "merge": 2, "output projection": 1, "dropout": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A step, a short name, what happened, what would be right, and how to compute it."""

    step: str
    kind: str
    text: str
    fix: str
    variants: tuple[dict[str, Any], ...]

    @property
    def place(self) -> int:
        """Where its step comes in the order of the definition."""
        return list(STEPS).index(self.step)


def mistake(step: str, kind: str, text: str, fix: str, **fields: Any) -> Mistake:
    """One variant per value where a field is given a list."""
    variants: list[dict[str, Any]] = [{}]
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        variants = [old | {name: one} for old in variants for one in values]
    return Mistake(step, kind, text, fix, tuple(variants))
