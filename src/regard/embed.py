"""The earlier address of `regard.nn.TokenEmbedding` and of its waves."""

from __future__ import annotations

from regard.nn.embedding import TokenEmbedding as TokenEmbedding
from regard.nn.positions import sinusoidal as sinusoidal
