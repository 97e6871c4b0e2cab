"""The keys a row looks at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.state import MergePart, TopKeys, TopScores
from regard.summary.base import Matrix, Measured, Summary, TopScored


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
        keys = keys.masked_fill(scores == -torch.inf, -1)
        missing = (0, self.k - kept)
        return TopKeys(
            torch.nn.functional.pad(weights, missing),
            torch.nn.functional.pad(keys, missing, value=-1),
        )

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
                best = cast(TopScored | TopKeys, value)  # known over ranks without scores
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
            every = torch.nn.functional.pad(scores(), (0, 1), value=-torch.inf)
            found = every.gather(-1, keys.masked_fill(keys < 0, every.shape[-1] - 1))
        return TopScores(found, torch.where(keys < 0, keys, keys + key_start))

    def merge(self, parts: Sequence[MergePart]) -> TopScores:
        """The best of all; among equal scores the lower key. Sorting by key first, then stably by
        score, makes the result independent of the order of the parts."""
        scores = torch.cat([part.value.scores for part in parts], -1)
        keys = torch.cat([part.value.keys for part in parts], -1)
        order = keys.sort(dim=-1, stable=True).indices
        scores, keys = scores.gather(-1, order), keys.gather(-1, order)
        ranked = scores.sort(dim=-1, descending=True, stable=True)
        return TopScores(
            ranked.values[..., : self.k], keys.gather(-1, ranked.indices)[..., : self.k]
        )

    def of_nothing(self, like: TopScores) -> TopScores:
        return TopScores(torch.full_like(like.scores, -torch.inf), torch.full_like(like.keys, -1))


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
