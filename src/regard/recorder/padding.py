"""Which tokens of a padded batch are real."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.arrays import host, is_bool
from regard.mask import Mask, Padding

_Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Real:
    """What a mask says of one batch entry's tokens; None: nothing, so that all are real."""

    queries: _Flags | None
    keys: _Flags | None


def margin(flags: _Flags) -> range:
    """From the first real token to the last; holes inside are left to the mask."""
    real = np.flatnonzero(flags)
    return range(int(real[0]), int(real[-1]) + 1) if len(real) else range(0)


def real_in(mask: Mask | None, entry: tuple[int, ...], queries: int, keys: int) -> Real:
    """The padding that is one of a mask's conditions."""
    found: list[_Flags | None] = [None, None]
    for one in () if mask is None else mask.conditions():
        alone = one.select(entry).as_padding()
        if alone is None:
            continue
        for at, (flags, count) in enumerate(((alone.queries, queries), (alone.keys, keys))):
            if flags is not None:
                real, before = _flags(flags, count), found[at]
                found[at] = real if before is None else before & real
    return Real(*found)


def without_padding(mask: Mask | None, rows: range, keys: range) -> Mask | None:
    """One entry's mask less the padding that lies outside these rows and keys."""
    held = () if mask is None else mask.conditions()
    kept = [one for one in held if not _is_outside(one.as_padding(), rows, keys)]
    return mask if len(kept) == len(held) else reduce(and_, kept) if kept else None


def _is_outside(padding: Padding | None, rows: range, keys: range) -> bool:
    if padding is None:
        return False
    inside = ((padding.queries, rows), (padding.keys, keys))
    return all(f is None or _flags(f, at.stop)[at.start :].all() for f, at in inside)


def real_tokens(given: Any) -> Tensor | None:
    """(B, ≥ L) booleans from what a model is given as its attention_mask: a tensor (B, S), or the
    masks that `generate` has made of one already."""
    if isinstance(given, dict):
        found = (real_tokens(one) for one in given.values())
        return next((one for one in found if one is not None), None)
    if isinstance(given, Tensor):
        return given.detach() != 0 if given.ndim == 2 else None
    return getattr(given, "counted", None)


def _flags(given: Any, count: int) -> _Flags:
    """(count,): flags as they are, a length as flags."""
    if is_bool(given):
        return np.asarray(host(given)).reshape(-1)
    return np.arange(count) < int(given)
