"""transformers' cache, filled by the ranks before this one: one prompt, read over many ranks."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from regard.parallel.prefill import Before


class _RankLayer(DynamicLayer):  # type: ignore[misc]
    """For one call with this rank's tokens; it keeps nothing for a second one."""

    def __init__(self, before: Before) -> None:
        super().__init__()
        self._before = before

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The earlier ranks' keys and values, followed by these: a collective."""
        keys, values = self._before.joined((key_states, value_states))
        return keys, values

    def get_seq_length(self, *args: Any) -> int:
        """How many tokens the earlier ranks hold: where this rank's positions begin."""
        return self._before.piece.start


def cache_of_ranks(config: Any, before: Before) -> Cache:
    """`past_key_values` for a model of this configuration."""
    layers = config.get_text_config(decoder=True).num_hidden_layers
    return Cache(layers=[_RankLayer(before) for _ in range(layers)])
