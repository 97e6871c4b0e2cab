"""A vector for each place in the sentence, as sines and cosines of falling frequency."""

from __future__ import annotations

import numpy as np

from regard.learn.steps import Array

__all__ = ["sinusoids"]


def sinusoids(tokens: int, width: int) -> Array:
    """(tokens, width): sin(p / 10000^(2i/width)) in even columns, the cosine in odd ones.

    Counted from p = 0, as in "Attention Is All You Need".
    """
    place = np.arange(tokens)[:, None]
    pair = np.arange(width)[None, :] // 2
    angle = place / 10000.0 ** (2.0 * pair / width)
    return np.where(np.arange(width) % 2 == 0, np.sin(angle), np.cos(angle))
