"""What a recording of one head must say, from its whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["agrees", "eager", "means", "recorded", "same_numbers"]


def recorded(model: Any, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """The recording of one call."""
    import regard

    with torch.no_grad(), regard.record(model, **(options or {})) as rec:
        model(*args, **kwargs)
    return rec.recording


def eager(model: Any, **inputs: Any) -> Any:
    """What the model answers with transformers' own attention, weights included."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        answer = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return answer


def agrees(head: Any, weights: Any, ids: Any = None, atol: float = 1e-5) -> None:
    """Row numbers, sums, the map and the marks of tokens, binned as the plan has it; and cells
    where the recording keeps q and k."""
    whole, place, stored = np.asarray(weights, np.float64), head.place, head.stored
    assert head.shape == whole.shape
    first, last = place.rows
    p, near = whole[first:last], {"atol": atol, "rtol": 1e-4}
    if head.exact:
        np.testing.assert_allclose(head.rows(range(first, last)), p, **near)
    every = np.concatenate([p, 1 - p.sum(-1, keepdims=True)], 1)  # the last is a sink's
    entropy = -(every * np.log(np.where(every > 0, every, 1))).sum(-1)
    rows = {"entropy": entropy, "peak": p.max(-1), "first": p[:, 0]}
    rows["concentration"] = (p**2).sum(-1)
    i, j = np.arange(first, last)[:, None], np.arange(whole.shape[1])[None]
    if ids is not None:
        names = np.asarray(ids)
        after = np.concatenate([[-1], names[:-1]])
        rows["duplicate"] = (p * ((names[i] == names[j]) & (j < i))).sum(-1)
        rows["prefix"] = (p * ((names[i] == after[j]) & (j < i))).sum(-1)
        assert head.query_tokens is not None and len(head.query_tokens) == len(names)
    for name, truth in rows.items():
        binned = means(truth, place.row_bin)
        np.testing.assert_allclose(stored[name].values, binned, err_msg=name, **near)
    keys, heaviest = stored["top_keys"].values, stored["top_weights"].values
    some = p[:: place.top_every]
    picked = np.take_along_axis(some, np.maximum(keys, 0), 1)
    np.testing.assert_allclose(np.where(keys < 0, 0, picked), heaviest, **near)
    np.testing.assert_allclose(heaviest[:, 0], some.max(-1), **near)
    received = np.add.reduceat(p.sum(0), range(0, whole.shape[1], place.key_bin))
    np.testing.assert_allclose(stored["received"].values, received, atol=10 * atol)
    edges = stored["offsets"].edges
    profile, _ = np.histogram((i - j).ravel(), edges, weights=p.ravel())
    np.testing.assert_allclose(stored["offsets"].values, profile, atol=10 * atol)
    assert profile.sum() > p.sum() - 10 * atol
    kept = np.zeros_like(whole)
    kept[first:last] = p
    np.testing.assert_allclose(stored["pooled"].values, _pooled(kept, place.pool_cell), **near)


def means(numbers: NDArray[Any], size: int) -> NDArray[Any]:
    """Of each bin along the last axis, a ragged one at last."""
    starts = range(0, numbers.shape[-1], size)
    return np.stack([numbers[..., at : at + size].mean(-1) for at in starts], -1)


def _pooled(matrix: NDArray[Any], cell: int) -> NDArray[Any]:
    rows, cols = (range(0, n, cell) for n in matrix.shape)
    return np.array([[matrix[a : a + cell, b : b + cell].mean() for b in cols] for a in rows])


def same_numbers(mine: Any, other: Any, atol: float = 3e-5) -> None:
    """Two recordings of one head agree in every cell and every stored number."""
    assert (mine.shape, mine.exact) == (other.shape, other.exact)
    if mine.exact:
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), atol=atol)
    assert set(mine.stored) == set(other.stored)
    for name in set(mine.stored) - {"offsets", "top_keys", "top_weights"}:
        one, two = (head.stored[name].values for head in (mine, other))
        np.testing.assert_allclose(one, two, atol=atol, err_msg=name)
    np.testing.assert_allclose(mine.offsets(), other.offsets(), atol=atol)
