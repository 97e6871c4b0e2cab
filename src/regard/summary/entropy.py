"""How spread out a row is: −Σ p log p in nats, the sink counted as one more key."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import AttentionShape
from regard.state import MergeRule
from regard.summary.base import Matrix, Summary

__all__ = ["Entropy", "Visible", "normalize"]


class Entropy(Summary):
    """(…, Hq, L): entropy of each row in nats; 0 where a row sees no key."""

    tag = "entropy/1"

    merge_rule = MergeRule.ENTROPY

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−Σ p log p over the keys, and the same term once more for the sink's share."""
        return _surprise(matrix.weights).sum(-1) + _surprise(matrix.sink)


def _surprise(p: Tensor) -> Tensor:
    """−p log p, with 0·log 0 = 0 and no NaN in its derivative."""
    some = p != 0  # NaN stays NaN
    return torch.where(some, -p * torch.where(some, p, 1.0).log(), 0.0)


class Visible(Summary):
    """(…, Hq, L): how many keys each row may see."""

    tag = "visible/1"

    merge_rule = MergeRule.SUM

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Counts the visible cells of a row."""
        return matrix.visible.sum(-1)


def normalize(entropy: Tensor, visible: Tensor, sink: bool) -> Tensor:
    """Entropy ÷ log(visible keys, and the sink where there is one); 0 where only one is visible."""
    choices = visible + 1 if sink else visible
    return torch.where(choices > 1, entropy / choices.clamp(min=2).to(entropy.dtype).log(), 0.0)
