"""A model that continues text."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.kv import Eviction
from regard.nn.cache import StackCache
from regard.nn.config import LanguageModelConfig
from regard.nn.decoder import Decoder
from regard.nn.generation import generate


class LanguageModel(nn.Module):
    """ids (…, tokens) → logits of the token after each (…, tokens, vocabulary)."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = Decoder(config, window=config.window)
        self.head: nn.Linear | None = None
        if not config.tied:
            self.head = nn.Linear(config.dim, config.vocabulary, bias=False)

    def forward(
        self,
        ids: Tensor,
        *,
        attention_mask: Tensor | None = None,
        cache: StackCache | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """attention_mask  (…, tokens), as tokenizers give it; with a cache, of its tokens as well
        cache           the tokens so far (see `new_cache`); ids continue them
        last_only       logits of the last token alone: (…, 1, vocabulary)
        """
        x = self.decoder(ids, attention_mask=attention_mask, cache=cache)
        return self.read_out(x[..., -1:, :] if last_only else x)

    def read_out(self, x: Tensor) -> Tensor:
        """(…, dim) → logits (…, vocabulary)."""
        return F.linear(x, self.decoder.embed.table if self.head is None else self.head.weight)

    def new_cache(self, tokens: int | None = None, evict: Eviction | None = None) -> StackCache:
        """An empty cache, of fixed room where `tokens` is given; with `evict`, of what the
        prompt's attention leaves."""
        return self.decoder.new_cache(tokens, evict)

    def generate(self, ids: Tensor, **options: Any) -> Tensor:
        """Continue the text; see `regard.nn.generate`."""
        return generate(self, ids, **options)
