"""Made-up numbers that are the same on every machine and in every run.

The raw words of PCG64 are promised never to change between numpy versions, the distributions of
`Generator` are not; so the uniform numbers are made from the raw words here.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Sequence

import numpy as np

from regard.learn.steps import Array

__all__ = ["draws", "seed_of"]


def draws(
    seed: Sequence[int], shape: tuple[int, ...], *, spread: float = 1.0, decimals: int = 2
) -> Array:
    """Numbers of mean 0 and deviation `spread`, rounded so that they can be worked by hand."""
    words = np.random.PCG64(list(seed)).random_raw(math.prod(shape))
    unit = (np.asarray(words) >> np.uint64(11)) * 2.0**-53  # 53 bits: uniform on [0, 1)
    # A uniform number on ±√3 has variance 1. Adding zero turns −0 into 0.
    return np.round((2.0 * unit - 1.0) * math.sqrt(3.0) * spread, decimals).reshape(shape) + 0.0


def seed_of(word: str) -> int:
    """The seed of a word: the same whatever its case and however its accents are encoded."""
    plain = unicodedata.normalize("NFC", word.lower())
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:8], "big")
