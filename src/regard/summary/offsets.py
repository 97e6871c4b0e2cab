"""The mass by distance: sums of diagonals, where a one-token stripe stands out."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import AttentionShape
from regard.summary.base import Matrix, Summary

__all__ = ["Offsets"]


class Offsets(Summary):
    """(…, Hq, L + S − 1): the sum of each diagonal. Entry e holds Σ p_ij over j − i = e − (L − 1).

    In a square causal matrix, entry L − 1 is the mass on oneself, L − 2 on the token before.
    """

    tag = "offsets/1"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """One sum for each diagonal."""
        count = max(shape.queries + shape.keys - 1, 0)
        sums = matrix.weights.new_zeros((*matrix.weights.shape[:-2], count))
        i = torch.arange(shape.queries, device=sums.device)
        j = torch.arange(shape.keys, device=sums.device)
        at = (j[None, :] - i[:, None] + shape.queries - 1).reshape(-1)
        return sums.index_add(-1, at, matrix.weights.flatten(-2))
