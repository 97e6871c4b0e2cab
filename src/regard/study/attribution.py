"""Attribution by norms: a large weight on a value of no length moves nothing.

    ‖p_ij v_j w_o‖        Kobayashi et al. 2020

A recording keeps ‖v_j‖ of every key, so ‖p_ij v_j‖ is there for every exact head; with w_o it needs
the values themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard.errors import ShapeError, UnavailableError
from regard.recording import Head
from regard.recording.stores import Array


def value_attribution(weights: ArrayLike, value_norms: ArrayLike) -> Array:
    """‖p_ij v_j‖ = p_ij ‖v_j‖: weights (…, keys), value_norms (keys,)."""
    p, norms = np.asarray(weights, np.float64), np.asarray(value_norms, np.float64)
    if norms.ndim != 1 or p.shape[-1:] != norms.shape:
        raise ShapeError(
            f"weights {p.shape} and value_norms {norms.shape}; give (…, keys) and (keys,)"
        )
    found: Array = p * norms
    return found


def output_attribution(weights: ArrayLike, values: ArrayLike, w_o: ArrayLike) -> Array:
    """(keys,): ‖Σ over heads of p_ij v_j w_o‖, what each key adds to the row's output.

    weights (keys,) or (heads, keys); values (keys, D) or (heads, keys, D);
    w_o (D, out) or (heads, D, out). Of one head it is p_ij ‖v_j w_o‖.
    """
    p, v, w = (np.asarray(one, np.float64) for one in (weights, values, w_o))
    if p.ndim == 1:
        p, v, w = p[None], v[None], w[None]
    fits = p.ndim == 2 and v.ndim == w.ndim == 3 and len(p) == len(v) == len(w)
    if not fits or p.shape[1] != v.shape[1] or v.shape[2] != w.shape[1]:
        raise ShapeError(
            f"weights {np.shape(weights)}, values {np.shape(values)}, w_o {np.shape(w_o)}; give "
            "(heads, keys), (heads, keys, D) and (heads, D, out), or all without heads"
        )
    moved = np.einsum("hk,hkd,hdo->ko", p, v, w, optimize=True)
    found: Array = np.linalg.norm(moved, axis=-1)
    return found


def head_attribution(head: Head, row: int) -> Array:
    """(keys,): ‖p_ij v_j‖ of one row of a recorded head, by the stored ‖v_j‖."""
    stored = head.stored.get("value_norm")
    if stored is None or stored.edges is None:
        raise UnavailableError(f"{head.label}: the norms of its values were not recorded")
    norms = np.repeat(stored.values, np.diff(stored.edges))
    return value_attribution(head.rows(row), norms)
