"""What a recording of one head must say, from its whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["agrees", "eager"]


def eager(model: Any, **inputs: Any) -> Any:
    """What the model answers with transformers' own attention, weights included."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return found


def agrees(head: Any, weights: Any, ids: Any = None, atol: float = 1e-5) -> None:
    """Cells, row numbers, sums, the map and the marks of tokens of an unbinned recording."""
    whole = np.asarray(weights, np.float64)
    assert head.shape == whole.shape
    first, last = head.place.rows
    p, stored = whole[first:last], head.stored
    assert head.exact, head.why_not
    near = {"atol": atol, "rtol": 1e-4}
    np.testing.assert_allclose(head.rows(range(first, last)), p, **near)
    np.testing.assert_allclose(stored["peak"].values, p.max(-1), **near)
    np.testing.assert_allclose(stored["concentration"].values, (p**2).sum(-1), **near)
    np.testing.assert_allclose(stored["first"].values, p[:, 0], **near)
    np.testing.assert_allclose(stored["received"].values, p.sum(0), atol=10 * atol)
    keys, found = stored["top_keys"].values, stored["top_weights"].values
    picked = np.take_along_axis(p, np.maximum(keys, 0), 1)
    np.testing.assert_allclose(np.where(keys < 0, 0, picked), found, **near)
    i, j = np.arange(first, last)[:, None], np.arange(whole.shape[1])[None]
    edges, profile = stored["offsets"].edges, stored["offsets"].values
    bins = np.searchsorted(edges, (i - j).ravel(), side="right") - 1
    inside = (bins >= 0) & (bins < len(profile))
    by_bin = np.bincount(bins[inside], p.ravel()[inside], len(profile))
    np.testing.assert_allclose(profile, by_bin, atol=10 * atol)
    assert p.ravel()[~inside].sum() < atol
    kept = np.where((np.arange(len(whole)) >= first) & (np.arange(len(whole)) < last), whole.T, 0).T
    np.testing.assert_allclose(stored["pooled"].values, _pooled(kept, head.place.pool_cell), **near)
    if ids is not None:
        names = np.asarray(ids)
        copies = (names[i] == names[j]) & (j < i)
        after = (names[i] == np.concatenate([[-1], names[:-1]])[j]) & (j < i)
        np.testing.assert_allclose(stored["duplicate"].values, (p * copies).sum(-1), **near)
        np.testing.assert_allclose(stored["prefix"].values, (p * after).sum(-1), **near)
        assert len(head.query_tokens) == len(names)


def _pooled(matrix: NDArray[Any], cell: int) -> NDArray[Any]:
    rows, cols = (range(0, n, cell) for n in matrix.shape)
    return np.array([[matrix[a : a + cell, b : b + cell].mean() for b in cols] for a in rows])
