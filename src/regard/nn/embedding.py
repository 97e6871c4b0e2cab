"""What goes into the first block: a token's vector and where it stands."""

from __future__ import annotations

from torch import Tensor, nn

from regard.embed import TokenEmbedding
from regard.nn.config import StackConfig
from regard.nn.norm import make_norm
from regard.nn.positions import Positions


class Embedding(nn.Module):
    """ids (…, tokens) → (…, tokens, dim): a learned row per token, with its position."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.tokens = TokenEmbedding(config.vocabulary, config.dim, positions=False)
        nn.init.normal_(self.tokens.word.weight, std=config.dim**-0.5)
        self.positions = Positions(config)
        self.norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.norm = make_norm(config.norm, config.dim, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def table(self) -> Tensor:
        """(vocabulary, dim): the tokens' rows."""
        return self.tokens.word.weight

    def forward(self, ids: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """positions (…, tokens) where they do not count from `start`."""
        placed = self.positions(self.tokens(ids), start, positions)
        found: Tensor = self.dropout(self.norm(placed))
        return found
