"""A cache that keeps the keys which the prompt's attention shows to matter."""

from __future__ import annotations

from torch import Tensor

from regard.engine.attention import Attention
from regard.kv import Eviction, take
from regard.nn.cache import Cache, KeyValueCache


class EvictingCache(Cache):
    """Once the first tokens (the prompt) are read, keeps of each key head what the eviction says,
    and all later tokens. Positions go on counting what was dropped."""

    evicts = True

    def __init__(self, eviction: Eviction) -> None:
        self.eviction = eviction
        self.kept: Tensor | None = None  # (…, Hkv, n): the prompt's keys that stayed; None: all
        self._seen = 0
        self._held = KeyValueCache()

    @property
    def length(self) -> int:
        """The number of tokens so far, including those dropped."""
        return self._seen

    @property
    def asks(self) -> bool:
        """Until the prompt is read."""
        return self._seen == 0

    def extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """What is held followed by these."""
        return self._held.extended(key, value)

    def reach(self, tokens: int) -> int:
        """Held and new tokens."""
        return self._held.length + tokens

    def keep(self, key: Tensor, value: Tensor) -> None:
        """All of them."""
        self._seen += key.shape[-2] - self._held.length
        self._held.keep(key, value)

    def keep_after(self, key: Tensor, value: Tensor, attention: Attention) -> None:
        """Of the prompt what the eviction says; of later tokens all."""
        is_prompt = self.asks
        self.keep(key, value)
        self.kept = self.eviction.keep(attention, key.shape[-2]) if is_prompt else self.kept
        if is_prompt and self.kept is not None:
            self._held.keep(*take(self.kept, key, value))
