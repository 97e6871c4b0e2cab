"""The earlier address of the embedding layer."""

from __future__ import annotations

from regard import embed, nn
from regard.nn.positions import sinusoidal


def test_there_is_one_embedding_under_both_addresses():
    assert embed.TokenEmbedding is nn.TokenEmbedding
    assert embed.sinusoidal is sinusoidal
