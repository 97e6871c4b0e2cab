"""How spread out a row is: −Σ p log p in nats, the sink counted as one more key."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.shapes import AttentionShape
from regard.state import MergeRule
from regard.summary.base import Matrix, Summary

__all__ = ["Entropy", "Visible", "normalize"]


@dataclass(frozen=True)
class Entropy(Summary):
    """(…, Hq, L): entropy of each row in nats; 0 where a row sees no key."""

    merge_rule = MergeRule.ENTROPY

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Σ p (lse − s) over the keys, and the same term once more for the sink."""
        lse = matrix.lse.unsqueeze(-1)
        seen = matrix.weights > 0  # 0·log 0 = 0
        surprise = lse - matrix.masked.masked_fill(~seen, 0.0)
        keys = torch.where(seen, matrix.weights * surprise, 0.0).sum(-1)
        if matrix.sink is None:
            return keys
        surprise = matrix.lse - matrix.sink.to(keys.dtype)[:, None]
        return keys + torch.exp(-surprise) * surprise


@dataclass(frozen=True)
class Visible(Summary):
    """(…, Hq, L): how many keys each row may see."""

    merge_rule = MergeRule.SUM

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Counts the visible cells of a row."""
        return matrix.visible.sum(-1)


def normalize(entropy: Tensor, visible: Tensor, sink: bool) -> Tensor:
    """Entropy ÷ log(visible keys, and the sink where there is one); 0 where only one is visible."""
    choices = visible + 1 if sink else visible
    return torch.where(choices > 1, entropy / choices.clamp(min=2).log().to(entropy.dtype), 0.0)
