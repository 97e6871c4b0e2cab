"""Statistics of rows: how spread out they are, how large their scores, how far they look."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from regard.arrays import cast, filled, here, is_bool, is_integer, library, numbers, where
from regard.declare import array
from regard.errors import DTypeError, ShapeError
from regard.running import Step, Sums
from regard.shapes import AttentionShape
from regard.summary.base import Matrix, MergePart, RowMean, RowStatistic

if TYPE_CHECKING:
    from torch import Tensor


class Entropy(RowStatistic):
    """(…, Hq, L): −Σ p log p of each row in nats, the sink counted as one more key; 0 where a row
    sees no key."""

    tag = "entropy/1"
    name, words, unit = "entropy", "how spread out a row is", "nats"
    needs = ("total", "centred")
    takes_numpy = True
    gradient = "entropy"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−Σ p log p over the keys, and the same term once more for the sink's share."""
        return _surprise(matrix.weights).sum(-1) + _surprise(matrix.sink)

    def close(self, sums: Sums) -> Any:
        """log l − t/l; see docs/kernels.md."""
        total = sums["total"]
        return where(total == 0, 0.0, sums.log - sums["centred"] / where(total == 0, 1.0, total))

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        """Σ w (H + lse − lse of the part)."""
        return sum_of([part.weight * (part.value + part.gap) for part in parts])


def sum_of(terms: Sequence[Tensor]) -> Tensor:
    """The terms one after another, in their order."""
    total: Tensor = filled(terms[0], terms[0].shape, 0)
    for term in terms:
        total = total + term
    return total


def _surprise(p: Tensor) -> Tensor:
    """−p log p, with 0·log 0 = 0 and no NaN in its derivative."""
    some = p != 0  # NaN stays NaN
    return where(some, -p * where(some, p, 1.0).log(), 0.0)


class Visible(RowStatistic):
    """(…, Hq, L): how many keys each row may see."""

    tag = "visible/1"
    name, words, unit = "visible", "how many keys a row may see", "keys"
    needs = ("visible",)
    takes_numpy = True
    whole = True
    gradient = "constant"
    counts_sink = False

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        return matrix.visible.sum(-1)

    def close(self, sums: Sums) -> Any:
        return sums["visible"]

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        return sum_of([part.value for part in parts])


def normalize(entropy: Any, visible: Any, sink: Any) -> Any:
    """Entropy ÷ log(visible keys, and the sink where there is one); 0 where only one is visible.
    `sink`: whether there is one, for all rows or for each."""
    choices = visible + sink
    several = choices > 1
    log = library(choices).log(cast(where(several, choices, 2), entropy))
    return where(several, entropy / log, 0.0)


class _Largest(RowStatistic):
    takes_numpy = True
    joins = "max"
    counts_sink = False

    def close(self, sums: Sums) -> Any:
        return sums[self.needs[0]]

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        largest: Tensor = parts[0].value
        for part in parts[1:]:
            largest = library(largest).maximum(largest, part.value)
        return largest

    def of_nothing(self, like: Tensor) -> Tensor:
        return filled(like, like.shape, -inf)


class MaxScore(_Largest):
    """(…, Hq, L): the largest scale·q·k over visible keys, before cap and bias (QK-clip's S)."""

    tag = "max-score/1"
    name, words = "max_score", "the largest score before cap and bias"
    needs = ("scaled",)

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """−∞ where a row sees no key."""
        return _largest(matrix.scaled.masked_fill(~matrix.visible, -inf))


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
        return scores.new_full(scores.shape[:-1], -inf)
    return scores.amax(-1)


class Concentration(RowStatistic):
    """(…, Hq, L): Σ_j p_ij²; 1 over it is the number of keys a row effectively uses."""

    tag = "concentration/1"
    name, words = "concentration", "the sum of squared weights"
    needs = ("squares",)
    takes_numpy = True

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
    takes_numpy = True

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """The mean distance under the weights."""
        weights = matrix.weights
        i = numbers(0, shape.queries, weights) + matrix.position
        j = numbers(0, shape.keys, weights)
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
    takes_numpy = True
    query_marks: Tensor = array("queries")
    key_marks: Tensor = array("keys")

    def __post_init__(self) -> None:
        for name, marks in self._named():
            if not hasattr(marks, "dtype") or not (is_integer(marks) or is_bool(marks)):
                kind = getattr(marks, "dtype", type(marks).__name__)
                raise DTypeError(f"Matching({name}) is {kind}; give a tensor of whole numbers")

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Sum of the weights where marks agree and the key comes first."""
        i, j = (numbers(0, n, matrix.weights) for n in (shape.queries, shape.keys))
        return (matrix.weights * self._among(i, j, matrix.position)).sum(-1)

    def each(self, step: Step) -> Any:
        return step.outside(self._among(step.i, step.j, step.position))

    def _among(self, i: Any, j: Any, position: Any) -> Any:
        """(…, 1, R, C): which cells of queries i and keys j count."""
        queries, keys = (here(m, i) for m in (self.query_marks, self.key_marks))
        same = queries[..., i][..., None, :, None] == keys[..., j][..., None, None, :]
        return same & (j[None, :] < (i + position)[:, None])

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
