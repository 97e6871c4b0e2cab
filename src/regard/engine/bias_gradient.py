"""Gradients of a bias's arrays, from gradients of its tiles.

Sweeps run below autograd, so a bias says how a tile's dS falls on its arrays. Where it does not
say, autograd differentiates its tile.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.mask import Extent
from regard.score import Bias


class BiasGradient:
    """A running sum over tiles, one tensor per array of the bias."""

    def __init__(self, bias: Bias | None, extent: Extent, dtype: torch.dtype) -> None:
        self.bias, self.extent = bias, extent
        arrays = [] if bias is None else bias.arrays()
        self.sums = [torch.zeros_like(array, dtype=dtype) for array in arrays]

    def add(self, i: Tensor, j: Tensor, ds: Tensor) -> None:
        """dS of rows i (R,) and keys j (C,), for every batch entry and head: (*batch, Hq, R, C)."""
        if self.bias is None or self.bias.add_gradient(self.sums, i, j, ds, self.extent):
            return
        with torch.enable_grad():
            arrays = [array.detach().requires_grad_() for array in self.bias.arrays()]
            left = iter(arrays)
            tile = self.bias.map(lambda _: next(left)).tile(i, j, self.extent)
            on_tile = ds.sum_to_size(tile.shape).to(tile.dtype)
            grads = torch.autograd.grad(tile, arrays, on_tile, allow_unused=True)
        for total, grad in zip(self.sums, grads, strict=True):
            if grad is not None:
                total += grad.to(total.dtype)
