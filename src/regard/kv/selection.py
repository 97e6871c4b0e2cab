"""The keys that stay, and what is lost with the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any, Final

import numpy as np

from regard.arrays import library, numbers, where
from regard.errors import InputError, ShapeError
from regard.kv.scores import Receiving, h2o, kvzip, observed, snapkv, tova


def select(scores: Any, budget: int | float, sinks: int = 4, recent: int = 64) -> Any:
    """(…, Hkv, n): the keys to keep of each key head, ascending; equal scores go to the lower key.

    scores   (…, Hkv, S), larger = more worth keeping
    budget   how many keys stay: a whole number, or a share of them as a float up to 1.0
    sinks    the first keys, always among them
    recent   the last keys, always among them
    """
    keys = scores.shape[-1]
    count = allowed(budget, keys, sinks, recent)
    j = numbers(0, keys, scores)
    always = (j < sinks) | (j >= keys - recent)
    ranked = where(always, float("inf"), scores)
    if isinstance(ranked, np.ndarray):
        return np.sort(np.argsort(-ranked, axis=-1, kind="stable")[..., :count], axis=-1)
    order = ranked.sort(dim=-1, descending=True, stable=True).indices
    return order[..., :count].sort(dim=-1).values


def allowed(budget: int | float, keys: int, sinks: int, recent: int) -> int:
    """How many of so many keys a budget keeps; InputError where those that always stay are more."""
    for name, given in (("sinks", sinks), ("recent", recent)):
        if type(given) is not int or given < 0:
            raise InputError(f"{name}={given!r}; give a whole number ≥ 0")
    if isinstance(budget, float):
        if not 0 < budget <= 1:
            raise InputError(f"budget={budget}; give a share above 0.0, at most 1.0, or a number")
        count = int(budget * keys)
    elif isinstance(budget, bool) or not hasattr(budget, "__index__") or index(budget) < 1:
        raise InputError(f"budget={budget!r}; give a number of keys ≥ 1, or a share up to 1.0")
    else:
        count = min(index(budget), keys)
    if count < min(sinks + recent, keys) or not count:
        raise InputError(
            f"budget={budget} keeps {count} keys, fewer than sinks={sinks} and recent={recent}, "
            "which always stay; give a larger budget, or fewer of these"
        )
    return count


def take(keep: Any, *tensors: Any) -> tuple[Any, ...]:
    """(…, Hkv, n, D) of each (…, Hkv, S, D): keys, values and what else belongs to them."""
    for tensor in tensors:
        if tensor.shape[:-2] != keep.shape[:-1]:
            raise ShapeError(
                f"keep has shape {tuple(keep.shape)}, a tensor {tuple(tensor.shape)}; give "
                "(…, Hkv, S, D) with the same batch and key heads"
            )
    along = keep[..., None]
    if isinstance(keep, np.ndarray):
        return tuple(np.take_along_axis(tensor, along, -2) for tensor in tensors)
    return tuple(library(keep).take_along_dim(tensor, along, -2) for tensor in tensors)


def lost_mass(a: Receiving, keep: Any, queries: Any = None) -> Any:
    """(…, Hq): the share of the attention of these queries that fell on keys that go, per head."""
    mass = a.received(queries)
    *lead, heads, keys = mass.shape
    shared = mass.reshape(*lead, keep.shape[-2], heads // keep.shape[-2], keys)
    gone = 1 - flags(keep, keys, mass)[..., None, :]  # (…, Hkv, 1, S)
    total = shared.sum(-1)
    lost = (shared * gone).sum(-1) / where(total > 0, total, 1.0)
    return lost.reshape(*lead, heads)


def flags(keep: Any, keys: int, alike: Any) -> Any:
    """(…, Hkv, S): 1 where a key is kept, else 0, in the dtype of another array."""
    shape = (*keep.shape[:-1], keys)
    if isinstance(keep, np.ndarray):
        made = np.zeros(shape, alike.dtype)
        np.put_along_axis(made, keep, 1, -1)
        return made
    return alike.new_zeros(shape).scatter(-1, keep, 1.0)


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
