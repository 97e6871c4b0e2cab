"""A model that reads one text and writes another, looking back at it while it writes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.mask import Padding
from regard.nn.cache import StackCache
from regard.nn.config import Seq2SeqConfig
from regard.nn.decoder import Decoder
from regard.nn.encoder import Encoder
from regard.nn.generation import choose_token, write_on
from regard.nn.inputs import read_padding


class Seq2Seq(nn.Module):
    """source (…, tokens), target (…, tokens) → logits of the token after each of the target's."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.encoder())
        self.decoder = Decoder(config, cross=True)
        self.head: nn.Linear | None = None
        if not config.tied:
            self.head = nn.Linear(config.dim, config.vocabulary, bias=False)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        encoder_outputs: Tensor | None = None,
        cache: StackCache | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """(…, target tokens, vocabulary).

        source_mask, target_mask  (…, tokens), as tokenizers give them: 0 where padding
        encoder_outputs           what `encoder` gave for the source, where it is known already
        cache                     the target so far (see `new_cache`); `target` goes on there
        last_only                 logits of the last token alone: (…, 1, vocabulary)
        """
        context = encoder_outputs
        if context is None:
            context = self.encoder(source, attention_mask=source_mask)
        real = read_padding(source_mask, source)
        x = self.decoder(
            target, context, attention_mask=target_mask, cache=cache,
            context_mask=None if real is None else Padding(real),
        )  # fmt: skip
        return self.read_out(x[..., -1:, :] if last_only else x)

    def read_out(self, x: Tensor) -> Tensor:
        """(…, dim) → logits (…, vocabulary)."""
        return F.linear(x, self.decoder.embed.table if self.head is None else self.head.weight)

    def new_cache(self, tokens: int | None = None) -> StackCache:
        """An empty cache of the target, of fixed room where `tokens` is given."""
        return self.decoder.new_cache(tokens)

    def generate(
        self,
        source: Tensor,
        *,
        start: int,
        tokens: int = 64,
        stop: int | Iterable[int] = (),
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
        source_mask: Tensor | None = None,
    ) -> Tensor:
        """source (batch, tokens) → (batch, ≤ 1 + tokens): `start`, then what is written; the
        choices are those of `regard.nn.generate`."""
        choose = choose_token(temperature, top_k, top_p, generator)
        first = source.new_full((source.shape[0], 1), start)
        with torch.inference_mode():
            context = self.encoder(source, attention_mask=source_mask)
            cache = self.new_cache(1 + tokens)

            def step(new: Tensor) -> Tensor:
                logits: Tensor = self(
                    source, new, source_mask=source_mask, encoder_outputs=context, cache=cache,
                    last_only=True,
                )  # fmt: skip
                return logits[:, -1]

            written = write_on(step, first, tokens, stop, choose)
        return torch.cat([first, written], dim=-1)
