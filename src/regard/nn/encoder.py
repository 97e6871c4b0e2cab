"""A text, read as a whole: every token sees every other."""

from __future__ import annotations

from torch import Tensor, nn

from regard.mask import Padding
from regard.nn.block import EncoderBlock
from regard.nn.config import EncoderConfig
from regard.nn.embedding import Embedding
from regard.nn.inputs import count_positions, read_padding
from regard.nn.norm import last_norm


class Encoder(nn.Module):
    """ids (…, tokens) → vectors (…, tokens, dim), each computed from all tokens."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config)
        rotary = self.embed.positions.rotary
        self.blocks = nn.ModuleList(
            EncoderBlock(config, rotary=rotary) for _ in range(config.layers)
        )
        self.norm = last_norm(config)

    def forward(self, ids: Tensor, *, attention_mask: Tensor | None = None) -> Tensor:
        """attention_mask (…, tokens), as tokenizers give it: 0 where a token is padding."""
        real = read_padding(attention_mask, ids)
        positions = count_positions(real, ids.shape[-1])
        x = self.embed(ids, 0, positions)
        mask = None if real is None else Padding(real, real)
        places = self.embed.positions
        turn, bias = places.turn(x, 0, positions), places.bias(x)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, turn=turn)
        return self.norm(x)
