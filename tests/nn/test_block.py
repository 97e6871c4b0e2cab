"""A block is attention and a feed-forward layer, each with its residual and its norm."""

from __future__ import annotations

import pytest
import torch

import regard
from nn.small import learnt
from regard.errors import InputError, ShapeError
from regard.nn import BlockConfig, DecoderBlock, EncoderBlock, KeyValueCache, Rotary

SIZES = {"dim": 8, "heads": 2}


def vectors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_pre_norm_by_hand(norm):
    block = learnt(EncoderBlock(BlockConfig(**SIZES, norm=norm)))
    x = vectors(2, 5, 8)
    y = x + block.attention(block.norm_attention(x))
    torch.testing.assert_close(block(x), y + block.feed_forward(block.norm_feed_forward(y)))


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_post_norm_by_hand(norm):
    block = learnt(EncoderBlock(BlockConfig(**SIZES, norm=norm, norm_first=False)))
    x = vectors(2, 5, 8)
    y = block.norm_attention(x + block.attention(x))
    torch.testing.assert_close(block(x), block.norm_feed_forward(y + block.feed_forward(y)))


def test_a_decoder_block_looks_at_another_sequence():
    block = learnt(DecoderBlock(BlockConfig(**SIZES), cross=True))
    x, context = vectors(2, 5, 8), vectors(2, 3, 8)
    y = x + block.attention(block.norm_attention(x), mask=regard.Causal())
    y = y + block.cross_attention(block.norm_cross(y), context)
    wanted = y + block.feed_forward(block.norm_feed_forward(y))
    torch.testing.assert_close(block(x, context, mask=regard.Causal()), wanted)


def test_steps_are_the_whole():
    block = learnt(DecoderBlock(BlockConfig(**SIZES, kv_heads=1, qk_norm=True), rotary=Rotary(4)))
    x, cache = vectors(2, 6, 8), KeyValueCache()
    parts = [block(one, mask=regard.Causal(), cache=cache) for one in x.split(2, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), block(x, mask=regard.Causal()))


def test_the_projections_read_like_the_notes():
    names = {name for name, _ in DecoderBlock(BlockConfig(**SIZES)).named_parameters()}
    assert {f"attention.w_{c}.weight" for c in "qkvo"} <= names
    assert {"feed_forward.w_gate.weight", "feed_forward.w_in.weight"} <= names


def test_dropout_is_for_training_alone():
    torch.manual_seed(0)
    block, x = EncoderBlock(BlockConfig(**SIZES, dropout=0.5)), torch.randn(4, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_mistakes():
    with pytest.raises(ShapeError, match=r"heads=4, kv_heads=3.*may be 1, 2, 4"):
        BlockConfig(dim=8, heads=4, kv_heads=3)
    with pytest.raises(ShapeError, match="dim=10 is not divisible by heads=4; give head_dim"):
        BlockConfig(dim=10, heads=4)
    with pytest.raises(InputError, match="dim=0; give a whole number"):
        BlockConfig(dim=0, heads=1)
    with pytest.raises(InputError, match="feed_forward='moe'"):
        BlockConfig(dim=8, heads=2, feed_forward="moe")
    with pytest.raises(InputError, match="norm='batch'; give one of 'rms', 'layer'"):
        EncoderBlock(BlockConfig(**SIZES, norm="batch"))
    with pytest.raises(InputError, match="give it as context"):
        DecoderBlock(BlockConfig(**SIZES), cross=True)(torch.zeros(2, 8))
    with pytest.raises(InputError, match="cross=True"):
        DecoderBlock(BlockConfig(**SIZES))(torch.zeros(2, 8), torch.zeros(2, 8))
    with pytest.raises(ShapeError, match=r"takes \(…, tokens, 8\)"):
        EncoderBlock(BlockConfig(**SIZES))(torch.zeros(2, 9))
