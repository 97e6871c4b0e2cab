"""Numbers known only to their last printed place, as bands, and the steps of attention on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.arrays import Array
from regard.attention import softmax
from regard.learn.grading.submission import Printed

ALLOWED = 1.5  # units: one in the last place away from the correctly rounded number, or cut
_ROUNDING = 1e-9  # what float arithmetic may add


def _snapped(values: Array) -> Array:
    """Whole where float arithmetic just missed it."""
    near = np.round(values)
    return np.where(np.abs(values - near) < 1e-7, near, values)


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Band:
    """Numbers somewhere between `low` and `high`; `value` follows the printed ones exactly."""

    value: Array
    low: Array
    high: Array

    @classmethod
    def around(cls, value: Array, slack: Array | float = 0.0) -> Band:
        """value ± slack."""
        return cls(value, value - slack, value + slack)

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns)."""
        return self.value.shape

    @property
    def T(self) -> Band:  # noqa: N802, numpy's name
        """The transpose."""
        return Band(self.value.T, self.low.T, self.high.T)

    def __matmul__(self, other: Band) -> Band:
        mine, yours = (self.low + self.high) / 2, (other.low + other.high) / 2
        my_slack, your_slack = (self.high - self.low) / 2, (other.high - other.low) / 2
        slack = np.abs(mine) @ your_slack + my_slack @ (np.abs(yours) + your_slack)
        return Band(self.value @ other.value, mine @ yours - slack, mine @ yours + slack)

    def __mul__(self, factor: Array | float) -> Band:
        """Times a factor of 0 or more, or one per cell."""
        return Band(self.value * factor, self.low * factor, self.high * factor)

    def softmax(self, axis: int = -1) -> Band:
        """A weight is lowest where its own score is lowest and all others are highest."""
        if axis == 0:
            return self.T.softmax().T
        top = self.high.max(axis=-1, keepdims=True)
        low, high = np.exp(self.low - top), np.exp(self.high - top)
        others_low = low.sum(axis=-1, keepdims=True) - low
        others_high = high.sum(axis=-1, keepdims=True) - high
        return Band(softmax(self.value), low / (low + others_high), high / (high + others_low))

    def softmax_over_all(self) -> Band:
        """One softmax over all cells, rows and columns together."""
        flat = (part.reshape(1, -1) for part in (self.value, self.low, self.high))
        over = Band(*flat).softmax()
        return Band(*(part.reshape(self.shape) for part in (over.value, over.low, over.high)))

    def rounded(self, decimals: int, *, cut: bool) -> Band:
        """Written with so many decimals, rounded or cut; a half may be rounded either way."""
        size = 10.0**decimals
        value, low, high = (_snapped(part * size) for part in (self.value, self.low, self.high))
        if cut:
            return Band(np.trunc(value) / size, np.trunc(low) / size, np.trunc(high) / size)
        return Band(
            np.floor(_snapped(value + 0.5)) / size,
            np.ceil(_snapped(low - 0.5)) / size,
            np.floor(_snapped(high + 0.5)) / size,
        )

    def softmax_of_rounded(self, decimals: int, *, cut: bool) -> Band:
        """The softmax by way of exponentials that were rounded or cut first."""
        e = Band(np.exp(self.value), np.exp(self.low), np.exp(self.high))
        e = e.rounded(decimals, cut=cut)
        low, high = (part.sum(axis=-1, keepdims=True) - part for part in (e.low, e.high))
        total = e.value.sum(axis=-1, keepdims=True)
        return Band(e.value / total, e.low / (e.low + high), e.high / (e.high + low))

    def allows(self, printed: Printed) -> NDArray[np.bool_]:
        """Where a printed cell is close enough to the band; blank and unknown cells are not."""
        slack = ALLOWED * printed.units + _ROUNDING * np.maximum(1.0, np.abs(self.value))
        return (printed.values >= self.low - slack) & (printed.values <= self.high + slack)
