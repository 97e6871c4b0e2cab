"""Gradients of a bias's arrays, from gradients of its tiles, in closed form.

Sweeps run below autograd, so each kind of bias says here how a tile's dS falls on its array.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.mask import Extent
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias

__all__ = ["BiasGradient"]


class BiasGradient:
    """A running sum over tiles, one tensor per array of the bias."""

    def __init__(self, bias: Bias | None, extent: Extent, dtype: torch.dtype) -> None:
        self.bias, self.extent = bias, extent
        arrays = [] if bias is None else bias.arrays()
        self.sums = [torch.zeros_like(array, dtype=dtype) for array in arrays]

    def add(self, i: Tensor, j: Tensor, ds: Tensor) -> None:
        """dS of rows i (R,) and keys j (C,), for every batch entry and head: (*batch, Hq, R, C)."""
        if self.bias is not None:
            _add(self.bias, self.extent, i, j, ds, self.sums[0])


def _add(bias: Bias, extent: Extent, i: Tensor, j: Tensor, ds: Tensor, total: Tensor) -> None:
    if isinstance(bias, PartBias):
        here = bias.whole(extent)
        _add(bias.bias, here, i + bias.query_start, j + bias.key_start, ds, total)
    elif isinstance(bias, BiasTable):
        _add_table(i, j, ds, total)
    elif isinstance(bias, ALiBi):
        away = ((i + extent.shift(bias.align))[:, None] - j).abs()
        total -= _per_head(ds * away).sum((-2, -1))
    elif isinstance(bias, RelativeBias):
        ahead = j - (i + extent.shift(bias.align))[:, None]
        near = ahead.clamp(-bias.max_distance, bias.max_distance) + bias.max_distance
        bucket = torch.as_tensor(bias.buckets(), device=ds.device)[near].reshape(-1)  # (R·C,)
        total.index_add_(0, bucket, _per_head(ds).flatten(1).T)


def _per_head(ds: Tensor) -> Tensor:
    """(*batch, H, R, C) → (H, R, C)."""
    return ds.flatten(0, -4).sum(0) if ds.ndim > 3 else ds


def _add_table(i: Tensor, j: Tensor, ds: Tensor, total: Tensor) -> None:
    """Summed over the axes along which the table was spread, then added at its rows and keys."""
    extra = ds.ndim - total.ndim
    ds = ds.sum(tuple(range(extra))) if extra else ds
    for axis in range(total.ndim - 2):
        if total.shape[axis] == 1:
            ds = ds.sum(axis, keepdim=True)
    if total.shape[-2] == 1:
        ds, i = ds.sum(-2, keepdim=True), i.new_zeros(1)
    if total.shape[-1] == 1:
        ds, j = ds.sum(-1, keepdim=True), j.new_zeros(1)
    # rows and keys may repeat, so accumulate
    rows_first = total.movedim((-2, -1), (0, 1))
    rows_first.index_put_((i[:, None], j[None, :]), ds.movedim((-2, -1), (0, 1)), accumulate=True)
