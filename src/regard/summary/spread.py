"""How far a row looks, and how many keys it really uses."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import AttentionShape
from regard.state import MergeRule
from regard.summary.base import Matrix, Summary

__all__ = ["Concentration", "Distance"]


class Distance(Summary):
    """(…, Hq, L): Σ_j p_ij |i − j| with query i at its key position (the last at the last key)."""

    tag = "distance/1"

    merge_rule = MergeRule.MEAN

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """The mean distance under the weights."""
        weights = matrix.weights
        i = torch.arange(shape.queries, device=weights.device) + matrix.position
        j = torch.arange(shape.keys, device=weights.device)
        return (weights * (i[:, None] - j[None, :]).abs()).sum(-1)


class Concentration(Summary):
    """(…, Hq, L): Σ_j p_ij²; 1 over it is the number of keys a row effectively uses."""

    tag = "concentration/1"

    merge_rule = MergeRule.SQUARES

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Sum of squared weights."""
        return matrix.weights.square().sum(-1)
