"""The keys a row looks at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, cast

from regard.arrays import filled, library, padded, where
from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.summary.base import (
    Matrix,
    Measured,
    MergePart,
    Summary,
    TopKeys,
    TopScored,
    TopScores,
)

if TYPE_CHECKING:
    from torch import Tensor


class Top(Summary):
    """(…, Hq, L, k): the k heaviest keys of each row; equal scores go to the lower key."""

    tag = "top/1"
    name, words = "top", "the keys a row looks at most"
    gradient = "weights"
    counts_sink = False

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
        keys = keys.masked_fill(scores == -inf, -1)
        # keys count from 1 while what is missing is filled in with 0
        return TopKeys(padded(weights, (self.k,)), padded(keys + 1, (self.k,)) - 1)

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        size = (*shape.batch, shape.query_heads, shape.queries, self.k)
        return [(size, False), (size, True), (size, False)]

    def packed(self, tensors: Sequence[Tensor]) -> TopScored:
        return TopScored(*tensors)

    def serving(self, other: Summary) -> Summary | None:
        return Top(max(self.k, other.k)) if isinstance(other, Top) else None

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> TopKeys | None:
        for other, value in known.items():
            if isinstance(other, Top) and other.k >= self.k:
                best = cast("TopScored | TopKeys", value)  # known over ranks without scores
                return TopKeys(best.weights[..., : self.k], best.keys[..., : self.k])
        return None

    def for_merging(
        self, value: TopKeys, known: Measured | None, scores: Callable[[], Tensor], key_start: int
    ) -> TopScores:
        """Scores, which weights of different parts are not, and keys counted in the whole."""
        keys = value.keys
        if isinstance(known, TopScored):
            found = known.scores
        else:  # the definition keeps none: read them at the keys
            every = scores()
            none = filled(every, (*every.shape[:-1], 1), -inf)
            every = library(every).concat([every, none], -1)
            found = every.gather(-1, keys.masked_fill(keys < 0, every.shape[-1] - 1))
        return TopScores(found, where(keys < 0, keys, keys + key_start))

    def merge(self, parts: Sequence[MergePart]) -> TopScores:
        """The best of all; among equal scores the lower key. Sorting by key first, then stably by
        score, makes the result independent of the order of the parts."""
        xp = library(parts[0].value.keys)
        scores = xp.concat([part.value.scores for part in parts], -1)
        keys = xp.concat([part.value.keys for part in parts], -1)
        order = keys.sort(dim=-1, stable=True).indices
        scores, keys = scores.gather(-1, order), keys.gather(-1, order)
        ranked = scores.sort(dim=-1, descending=True, stable=True)
        return TopScores(
            ranked.values[..., : self.k], keys.gather(-1, ranked.indices)[..., : self.k]
        )

    def of_nothing(self, like: TopScores) -> TopScores:
        scores, keys = like
        return TopScores(filled(scores, scores.shape, -inf), filled(keys, keys.shape, -1))


class Peak(Summary):
    """(…, Hq, L): the heaviest key of each row and its weight."""

    tag = "peak/1"
    name, words = "peak", "the key a row looks at most"
    gradient = "weights"
    counts_sink = False

    def define(self, matrix: Matrix, shape: AttentionShape) -> TopKeys:
        """Top(1) without its last axis."""
        best = Top(1).define(matrix, shape)
        return TopKeys(best.weights.squeeze(-1), best.keys.squeeze(-1))

    def source(self) -> Summary:
        return Top(1)

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> TopKeys | None:
        best = Top(1).answer(known, shape)
        return None if best is None else TopKeys(best.weights.squeeze(-1), best.keys.squeeze(-1))
