"""The mass on keys that carry the same mark as the query: copies of a token, what followed one."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.declare import array
from regard.errors import DTypeError, ShapeError
from regard.shapes import AttentionShape
from regard.state import MergeRule
from regard.summary.base import Matrix, Summary

__all__ = ["Matching"]


class Matching(Summary):
    """(…, Hq, L): Σ p_ij over earlier keys j whose mark equals the query's.

    query_marks (…batch, L) and key_marks (…batch, S) are whole numbers. With token ids on both
    sides this is the mass on earlier copies of a token; with the ids shifted by one on the keys,
    the mass on what followed them (the prefix-matching score of an induction head). Earlier means
    before the query's own position, the last query standing at the last key.
    """

    merge_rule = MergeRule.MEAN

    tag = "matching/1"
    query_marks: Tensor = array("queries")
    key_marks: Tensor = array("keys")

    def __post_init__(self) -> None:
        for name, marks in self._named():
            if not isinstance(marks, Tensor) or marks.is_floating_point() or marks.is_complex():
                kind = getattr(marks, "dtype", type(marks).__name__)
                raise DTypeError(f"Matching({name}) is {kind}; give a tensor of whole numbers")

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Sum of the weights where marks agree and the key comes first."""
        device = matrix.weights.device
        i = torch.arange(shape.queries, device=device) + matrix.position
        j = torch.arange(shape.keys, device=device)
        return (matrix.weights * self.among(i, j, slice(None), slice(None))).sum(-1)

    def among(self, i: Tensor, j: Tensor, rows: slice, cols: slice) -> Tensor:
        """(…, 1, R, C): which cells of a tile count; i and j are the tokens' positions."""
        device = i.device
        queries, keys = (m.to(device) for m in (self.query_marks, self.key_marks))
        same = queries[..., None, rows, None] == keys[..., None, None, cols]
        return same & (j[None, :] < i[:, None])

    def check(self, shape: AttentionShape) -> None:
        """One mark per token."""
        for (name, marks), count in zip(self._named(), (shape.queries, shape.keys), strict=True):
            fits = marks.ndim >= 1 and marks.shape[-1] == count
            batch = shape.batch[len(shape.batch) - marks.ndim + 1 :]
            if not fits or any(
                m not in (1, b) for m, b in zip(marks.shape[:-1], batch, strict=False)
            ):
                raise ShapeError(
                    f"Matching({name}) has shape {tuple(marks.shape)}; give one whole number per "
                    f"token: ({count},) or {(*shape.batch, count)}"
                )

    def _named(self) -> tuple[tuple[str, Tensor], ...]:
        return ("query_marks", self.query_marks), ("key_marks", self.key_marks)
