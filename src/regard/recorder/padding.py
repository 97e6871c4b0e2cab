"""Which tokens of a padded batch are real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.arrays import host, is_bool
from regard.mask import Mask, Padding
from regard.mask.base import Both

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
    for one in _paddings(mask):
        alone = one.select(entry)
        assert isinstance(alone, Padding)
        for at, (flags, count) in enumerate(((alone.queries, queries), (alone.keys, keys))):
            if flags is not None:
                real, before = _flags(flags, count), found[at]
                found[at] = real if before is None else before & real
    return Real(*found)


def without_padding(mask: Mask | None, rows: range, keys: range) -> Mask | None:
    """One entry's mask less the padding that lies outside these rows and keys."""
    if isinstance(mask, Both):
        left, right = (without_padding(m, rows, keys) for m in (mask.left, mask.right))
        return right if left is None else left if right is None else Both(left, right)
    if not isinstance(mask, Padding):
        return mask
    inside = ((mask.queries, rows), (mask.keys, keys))
    real = (f is None or _flags(f, at.stop)[at.start :].all() for f, at in inside)
    return None if all(real) else mask


def real_tokens(given: Any) -> Tensor | None:
    """(B, ≥ L) booleans from what a model is given as its attention_mask: a tensor (B, S), or the
    masks that `generate` has made of one already."""
    if isinstance(given, dict):
        found = (real_tokens(one) for one in given.values())
        return next((one for one in found if one is not None), None)
    if isinstance(given, Tensor):
        return given.detach() != 0 if given.ndim == 2 else None
    return getattr(given, "counted", None)


def _paddings(mask: Mask | None) -> Iterator[Padding]:
    if isinstance(mask, Both):
        yield from _paddings(mask.left)
        yield from _paddings(mask.right)
    elif isinstance(mask, Padding):
        yield mask


def _flags(given: Any, count: int) -> _Flags:
    """(count,): flags as they are, a length as flags."""
    if is_bool(given):
        return np.asarray(host(given)).reshape(-1)
    return np.arange(count) < int(given)
