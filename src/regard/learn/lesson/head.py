"""One head of the lesson: its projections, and every step of `regard.attention` with them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from regard import attention
from regard.arrays import Array
from regard.attention import Steps, project
from regard.mask import Mask

# as JSON names them, in the order they are computed; "context" is the head's own output
_SHOWN = (
    "w_q", "w_k", "w_v", "queries", "keys", "values", "scores", "scaled", "masked", "weights",
    "context",
)  # fmt: skip


@dataclass(frozen=True)
class Head(Steps):
    """One head, every intermediate by name."""

    w_q: Array  # (width, d_k)
    w_k: Array  # (width, d_k)
    w_v: Array  # (width, d_v)
    biases: tuple[Array | None, ...] = (None, None, None)  # of q, k, v, added after x @ w
    plain: tuple[Array, Array] | None = None  # q and k before they were normalised and turned

    def as_dict(self) -> dict[str, Any]:
        """The same, as nested lists, for JSON; a hidden cell (−∞) is None there."""
        return {name: _listed(getattr(self, name)) for name in _SHOWN}


def _listed(matrix: Array) -> list[list[float | None]]:
    return [[None if cell == -inf else cell for cell in row] for row in matrix.tolist()]


def attend(
    x: Array, w_q: Array, w_k: Array, w_v: Array, *, mask: Mask | None = None, scaled: bool = True
) -> Head:
    """All steps for one head of x (tokens, width); `scaled=False` does not divide by √d_k."""
    steps = attention.attend(
        *(project(x, w) for w in (w_q, w_k, w_v)), allowed=mask, factor=None if scaled else 1.0
    )
    return Head(**vars(steps), w_q=w_q, w_k=w_k, w_v=w_v)
