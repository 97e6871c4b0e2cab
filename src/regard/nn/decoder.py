"""A text, read from left to right: every token sees those before it, and perhaps another text."""

from __future__ import annotations

from torch import Tensor, nn

from regard.errors import InputError
from regard.kv import Eviction
from regard.mask import Causal, Mask, Padding, Window
from regard.nn.block import DecoderBlock
from regard.nn.cache import (
    Cache,
    EvictingCache,
    KeyValueCache,
    StackCache,
    StaticCache,
    WindowCache,
)
from regard.nn.config import StackConfig
from regard.nn.embedding import Embedding
from regard.nn.inputs import count_positions, read_padding
from regard.nn.norm import last_norm


class Decoder(nn.Module):
    """ids (…, tokens) → vectors (…, tokens, dim), each computed from its own and earlier tokens."""

    def __init__(
        self, config: StackConfig, *, window: int | None = None, cross: bool = False
    ) -> None:
        super().__init__()
        self.config, self.window, self.cross = config, window, cross
        self.embed = Embedding(config)
        rotary = self.embed.positions.rotary
        self.blocks = nn.ModuleList(
            DecoderBlock(config, cross=cross, rotary=rotary) for _ in range(config.layers)
        )
        self.norm = last_norm(config)

    def forward(
        self,
        ids: Tensor,
        context: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        cache: StackCache | None = None,
    ) -> Tensor:
        """context         (…, source tokens, dim), for a decoder with cross-attention
        attention_mask  (…, tokens), as tokenizers give it; with a cache, of its tokens as well
        cache           the tokens so far (see `new_cache`); ids continue them
        """
        start = 0 if cache is None else cache.length
        tokens = ids.shape[-1]
        if attention_mask is not None and cache is not None and cache.evicts:
            raise InputError(
                "attention_mask beside an evicting cache: its keys are no longer those of the "
                "tokens; give prompts of one length without padding"
            )
        real = read_padding(attention_mask, ids, start)
        positions = count_positions(real, tokens)
        x = self.embed(ids, start, positions)
        mask = self._mask(real, tokens, tokens if cache is None else cache.reach(tokens))
        places = self.embed.positions
        turn, bias = places.turn(x, start, positions), places.bias(x)
        for n, block in enumerate(self.blocks):
            x = block(
                x, context, mask=mask, context_mask=context_mask, bias=bias, turn=turn,
                cache=None if cache is None else cache.layers[n],
                context_cache=None if cache is None else cache.cross[n],
            )  # fmt: skip
        return self.norm(x)

    def new_cache(self, tokens: int | None = None, evict: Eviction | None = None) -> StackCache:
        """An empty cache: of fixed room for `tokens` tokens where given, growing otherwise; with a
        window, only as large as that; with `evict`, of what the prompt's attention leaves."""
        window = self.window
        if evict is not None:
            _check_evictable(window, self.embed.positions.slopes is not None)

        def make() -> Cache:
            if evict is not None:
                return EvictingCache(evict)
            if window is not None:
                return WindowCache(window)
            return KeyValueCache() if tokens is None else StaticCache(tokens)

        return StackCache(len(self.blocks), make, cross=self.cross)

    def _mask(self, real: Tensor | None, queries: int, keys: int) -> Mask:
        before: Mask = Causal() if self.window is None else Window(self.window - 1)
        if real is None:
            return before
        total = real.shape[-1]
        return before & Padding(real[..., total - keys :], real[..., total - queries :])


def _check_evictable(window: int | None, alibi: bool) -> None:
    """Masks and biases by distance count the keys that are there."""
    if window is not None or alibi:
        kind = f"a window of {window} tokens" if window is not None else "ALiBi positions"
        raise InputError(
            f"evict: this model has {kind}, whose distances eviction would change; give a model "
            "with rotary, learned or sinusoidal positions and no window"
        )
