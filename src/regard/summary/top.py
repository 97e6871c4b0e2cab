"""The keys a row looks at most."""

from __future__ import annotations

import torch

from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.state import MergeRule, TopKeys
from regard.summary.base import Matrix, Summary

__all__ = ["Peak", "Top"]


class Top(Summary):
    """(…, Hq, L, k): the k heaviest keys of each row; equal scores go to the lower key."""

    tag = "top/1"

    merge_rule = MergeRule.TOP

    k: int

    def __post_init__(self) -> None:
        if type(self.k) is not int or self.k < 1:
            raise InputError(f"Top(k={self.k!r}); give a whole number ≥ 1")

    def define(self, matrix: Matrix, shape: AttentionShape) -> TopKeys:
        """By a stable sort of the final scores."""
        kept = min(self.k, shape.keys)
        scores, keys = matrix.masked.sort(dim=-1, descending=True, stable=True)
        scores, keys = scores[..., :kept], keys[..., :kept]
        weights = matrix.weights.gather(-1, keys)
        keys = keys.masked_fill(scores == -torch.inf, -1)
        missing = (0, self.k - kept)
        return TopKeys(
            torch.nn.functional.pad(weights, missing),
            torch.nn.functional.pad(keys, missing, value=-1),
        )


class Peak(Summary):
    """(…, Hq, L): the heaviest key of each row and its weight."""

    tag = "peak/1"

    def define(self, matrix: Matrix, shape: AttentionShape) -> TopKeys:
        """Top(1) without its last axis."""
        best = Top(1).define(matrix, shape)
        return TopKeys(best.weights.squeeze(-1), best.keys.squeeze(-1))
