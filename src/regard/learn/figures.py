"""Numbers as text: at most four decimals, no more than the group needs, and one way to write −∞."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["HIDDEN", "bracketed", "column", "factor", "figure", "figures", "short_indices"]

HIDDEN = "·"
_DECIMALS = 4
_HUGE = 1e4  # beyond it four decimals only make lines long
_SHOWN = 8  # entries of a vector before its middle is left out


def figures(values: ArrayLike) -> list[str]:
    """One text per number, all with the same decimals: none where all are whole, at most four."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if finite.size and np.abs(finite).max() >= _HUGE:
        return [HIDDEN if n == -np.inf else f"{n:.4g}" for n in numbers]
    places = _places(finite)
    # Adding zero turns −0 into 0.
    return [HIDDEN if n == -np.inf else f"{np.round(n, places) + 0.0:.{places}f}" for n in numbers]


def _places(finite: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    full = np.round(finite, _DECIMALS)
    return next(n for n in range(_DECIMALS + 1) if (np.round(finite, n) == full).all())


def figure(value: float) -> str:
    """One number alone."""
    return figures([value])[0]


def column(values: ArrayLike) -> list[str]:
    """The same as `figures`, right-aligned to one width."""
    texts = figures(values)
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def factor(text: str) -> str:
    """A number inside a product: in brackets where it is negative."""
    return f"({text})" if text.startswith("-") else text


def bracketed(texts: Sequence[str], most: int = _SHOWN) -> str:
    """[1 0 1 0]; the middle of a long vector is left out."""
    kept = short_indices(len(texts), most)
    shown = [texts[i] for i in kept]
    if len(kept) < len(texts):
        shown.insert(len(kept) - 1, "…")
    return f"[{' '.join(shown)}]"


def short_indices(count: int, most: int = _SHOWN) -> list[int]:
    """All indices up to `most`; beyond that the first few and the last one."""
    return list(range(count)) if count <= most else [*range(most - 3), count - 1]
