"""A score, a budget and what always stays, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from regard.errors import InputError
from regard.kv.scores import Receiving, h2o, kvzip, observed, snapkv, tova
from regard.kv.selection import allowed, select

METHODS: Final[dict[str, Callable[[Any], Any]]] = {
    "h2o": h2o, "kvzip": kvzip, "observed": observed, "snapkv": snapkv, "tova": tova,
}  # fmt: skip


@dataclass(frozen=True)
class Eviction:
    """Which keys leave a cache.

    by       a name in `METHODS`, or a function from an attention to scores (…, Hkv, S)
    budget   how many keys stay: a whole number, or a share as a float up to 1.0
    sinks    the first keys, always among them
    recent   the last keys, always among them
    """

    by: str | Callable[[Any], Any] = "snapkv"
    budget: int | float = 0.5
    sinks: int = 4
    recent: int = 64

    def __post_init__(self) -> None:
        if isinstance(self.by, str) and self.by not in METHODS:
            names = ", ".join(METHODS)
            raise InputError(f"Eviction(by={self.by!r}); give one of {names}, or a function")
        if not isinstance(self.by, str) and not callable(self.by):
            raise InputError(
                f"Eviction(by={self.by!r}); give a name, or a function of an attention"
            )
        allowed(self.budget, 2**62, self.sinks, self.recent)

    @property
    def name(self) -> str:
        """Of the method."""
        return self.by if isinstance(self.by, str) else getattr(self.by, "__name__", "a function")

    def keep(self, a: Receiving, keys: int) -> Any:
        """(…, Hkv, n): what stays of so many keys, ascending; None where all do."""
        always = self.sinks + self.recent
        if keys <= always or allowed(self.budget, keys, self.sinks, self.recent) >= keys:
            return None
        by = METHODS[self.by] if isinstance(self.by, str) else self.by
        return select(by(a), self.budget, self.sinks, self.recent)
