"""Products of Triton's interpreter in one order, whatever the tile and the processor.

The interpreter multiplies tiles by numpy's BLAS, which picks its kernel, and so the order of its
sums, by shape and processor. A GPU sums every cell of a product alike, and tests ask for the same
bits in tiles of other shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.runtime import interpreter


def fix_products() -> None:
    """Once in a process: every cell is Σ_k a_ik b_kj in the order of k, each term rounded."""
    builder: Any = interpreter.interpreter_builder
    builder.create_dot = _dot


def product(a: Any, b: Any, dtype: Any) -> Any:
    """a @ b for (M, K) and (K, N)."""
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    term = np.empty_like(total)
    columns = np.ascontiguousarray(a.T)[:, :, None]
    with np.errstate(all="ignore"):  # ∞ − ∞ and sums too large, as on a GPU
        for column, row in zip(columns, np.ascontiguousarray(b), strict=True):
            np.multiply(column, row, out=term)
            np.add(total, term, out=total)
    return total


def _dot(a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    made = product(a.data, b.data, d.data.dtype) + d.data
    return interpreter.TensorHandle(made, d.dtype.scalar)
