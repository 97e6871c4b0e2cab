"""A cache that the ranks before this one fill: one prompt, read over many ranks."""

from __future__ import annotations

from torch import Tensor

from regard.nn.cache import Cache, StackCache
from regard.parallel.prefill import Before


class RankCache(Cache):
    """For one call with this rank's tokens; it keeps nothing for a second one."""

    def __init__(self, before: Before) -> None:
        self._before = before

    @property
    def length(self) -> int:
        """How many tokens the earlier ranks hold."""
        return self._before.piece.start

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Theirs, followed by these: a collective."""
        keys, values = self._before.joined((key, value))
        return keys, values

    def keep(self, key: Tensor, value: Tensor) -> None:
        """Nothing comes after the prompt."""


def stack_of_ranks(layers: int, before: Before) -> StackCache:
    """For all layers of a model."""
    return StackCache(layers, lambda: RankCache(before))
