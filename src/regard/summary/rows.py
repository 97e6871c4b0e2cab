"""Statistics of rows: how spread out they are, how large their scores, how far they look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.declare import array
from regard.errors import DTypeError, ShapeError
from regard.shapes import AttentionShape
from regard.state import MergePart
from regard.summary.base import Matrix, RowMean, RowStatistic, Step, Sums


class Entropy(RowStatistic):
    """(…, Hq, L): −Σ p log p of each row in nats, the sink counted as one more key; 0 where a row
    sees no key."""

    tag = "entropy/1"
    name, words, unit = "entropy", "how spread out a row is", "nats"
    needs = ("total", "centred")
    gradient = "entropy"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−Σ p log p over the keys, and the same term once more for the sink's share."""
        return _surprise(matrix.weights).sum(-1) + _surprise(matrix.sink)

    def close(self, sums: Sums) -> Any:
        """log l − t/l; see docs/kernels.md."""
        total = sums["total"]
        return torch.where(total == 0, 0.0, sums.log - sums["centred"] / total)

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        """Σ w (H + lse − lse of the part)."""
        return sum_of([part.weight * (part.value + part.gap) for part in parts])


def sum_of(terms: Sequence[Tensor]) -> Tensor:
    """The terms one after another, in their order."""
    total = torch.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


def _surprise(p: Tensor) -> Tensor:
    """−p log p, with 0·log 0 = 0 and no NaN in its derivative."""
    some = p != 0  # NaN stays NaN
    return torch.where(some, -p * torch.where(some, p, 1.0).log(), 0.0)


class Visible(RowStatistic):
    """(…, Hq, L): how many keys each row may see."""

    tag = "visible/1"
    name, words, unit = "visible", "how many keys a row may see", "keys"
    needs = ("visible",)
    whole = True
    gradient = "constant"
    counts_sink = False

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        return matrix.visible.sum(-1)

    def close(self, sums: Sums) -> Any:
        return sums["visible"]

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        return sum_of([part.value for part in parts])


def normalize(entropy: Tensor, visible: Tensor, sink: bool) -> Tensor:
    """Entropy ÷ log(visible keys, and the sink where there is one); 0 where only one is visible."""
    choices = visible + 1 if sink else visible
    return torch.where(choices > 1, entropy / choices.clamp(min=2).to(entropy.dtype).log(), 0.0)


class _Largest(RowStatistic):
    counts_sink = False

    def close(self, sums: Sums) -> Any:
        return sums[self.needs[0]]

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        largest: Tensor = parts[0].value
        for part in parts[1:]:
            largest = torch.maximum(largest, part.value)
        return largest

    def of_nothing(self, like: Tensor) -> Tensor:
        return torch.full_like(like, -torch.inf)


class MaxScore(_Largest):
    """(…, Hq, L): the largest scale·q·k over visible keys, before cap and bias (QK-clip's S)."""

    tag = "max-score/1"
    name, words = "max_score", "the largest score before cap and bias"
    needs = ("scaled",)

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−∞ where a row sees no key."""
        return _largest(matrix.scaled.masked_fill(~matrix.visible, -torch.inf))


class MaxLogit(_Largest):
    """(…, Hq, L): the largest final score over visible keys, the sink excluded."""

    tag = "max-logit/1"
    name, words = "max_logit", "the largest final score"
    needs = ("largest",)

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−∞ where a row sees no key."""
        return _largest(matrix.masked)


def _largest(scores: Tensor) -> Tensor:
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    return scores.amax(-1)


class Concentration(RowStatistic):
    """(…, Hq, L): Σ_j p_ij²; 1 over it is the number of keys a row effectively uses."""

    tag = "concentration/1"
    name, words = "concentration", "the sum of squared weights"
    needs = ("squares",)

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        return matrix.weights.square().sum(-1)

    def close(self, sums: Sums) -> Any:
        return sums["squares"] * (sums.weight * sums.weight)

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        return sum_of([part.weight.square() * part.value for part in parts])


class Distance(RowMean):
    """(…, Hq, L): Σ_j p_ij |i − j| with query i at its key position (the last at the last key)."""

    tag = "distance/1"
    name, words, unit = "distance", "how far back a row looks, on average", "tokens"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """The mean distance under the weights."""
        weights = matrix.weights
        i = torch.arange(shape.queries, device=weights.device) + matrix.position
        j = torch.arange(shape.keys, device=weights.device)
        return (weights * (i[:, None] - j[None, :]).abs()).sum(-1)

    def each(self, step: Step) -> Any:
        return step.distance


class Matching(RowMean):
    """(…, Hq, L): Σ p_ij over earlier keys j whose mark equals the query's.

    query_marks (…batch, L) and key_marks (…batch, S) are whole numbers. With token ids on both
    sides this is the mass on earlier copies of a token; with the ids shifted by one on the keys,
    the mass on what followed them (the prefix-matching score of an induction head). Earlier means
    before the query's own position, the last query standing at the last key.
    """

    tag = "matching/1"
    name, words = "matching", "the mass on earlier keys that carry the query's mark"
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
        return (matrix.weights * self._among(i, j, slice(None), slice(None))).sum(-1)

    def each(self, step: Step) -> Any:
        rows, cols = (slice(span.start, span.stop) for span in (step.rows, step.cols))
        return step.outside(self._among(*step.positions(), rows, cols))

    def _among(self, i: Tensor, j: Tensor, rows: slice, cols: slice) -> Tensor:
        """(…, 1, R, C): which cells of a tile count; i and j are the tokens' positions."""
        device = i.device
        queries, keys = (m.to(device) for m in (self.query_marks, self.key_marks))
        same = queries[..., None, rows, None] == keys[..., None, None, cols]
        return same & (j[None, :] < i[:, None])

    def check(self, problem: AttentionShape) -> None:
        """One mark per token."""
        counts = problem.queries, problem.keys
        for (name, marks), count in zip(self._named(), counts, strict=True):
            fits = marks.ndim >= 1 and marks.shape[-1] == count
            batch = problem.batch[len(problem.batch) - marks.ndim + 1 :]
            if not fits or any(
                m not in (1, b) for m, b in zip(marks.shape[:-1], batch, strict=False)
            ):
                raise ShapeError(
                    f"Matching({name}) has shape {tuple(marks.shape)}; give one whole number per "
                    f"token: ({count},) or {(*problem.batch, count)}"
                )

    def _named(self) -> tuple[tuple[str, Tensor], ...]:
        return ("query_marks", self.query_marks), ("key_marks", self.key_marks)
