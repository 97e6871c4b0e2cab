"""The largest score of a row, before and after cap and bias."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import AttentionShape
from regard.state import MergeRule
from regard.summary.base import Matrix, Summary

__all__ = ["MaxLogit", "MaxScore"]


class MaxScore(Summary):
    """(…, Hq, L): the largest scale·q·k over visible keys, before cap and bias (QK-clip's S)."""

    tag = "max-score/1"

    merge_rule = MergeRule.MAX

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−∞ where a row sees no key."""
        return _largest(matrix.scaled.masked_fill(~matrix.visible, -torch.inf))


class MaxLogit(Summary):
    """(…, Hq, L): the largest final score over visible keys, the sink excluded."""

    tag = "max-logit/1"

    merge_rule = MergeRule.MAX

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−∞ where a row sees no key."""
        return _largest(matrix.masked)


def _largest(scores: Tensor) -> Tensor:
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    return scores.amax(-1)
