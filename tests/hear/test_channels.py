"""Attention between channels is no attention between positions, and is named instead of shown."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.errors import InputError, RegardWarning


class Mixes(nn.Module):
    """Over positions; or over channels as XCiT does it, by torch's function or by `attend`."""

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads, self.kind, self.qkv = heads, kind, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C), or a picture (B, C, h, w)."""
        rows = x.flatten(2).mT if x.ndim == 4 else x
        q, k, v = self.qkv(rows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.kind == "positions":
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        q, k = (F.normalize(t.mT, dim=-1) for t in (q, k))
        if self.kind == "torch":
            mixed = F.scaled_dot_product_attention(q, k, v.mT, scale=1.0)
        else:
            mixed = regard.attend(q, k, v.mT, scale=1.0).output
        return mixed.mT.transpose(1, 2).flatten(2)


class Stacked(nn.Module):
    """Blocks of some kinds."""

    def __init__(self, width: int, heads: int, kinds: list[str]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mixes(width, heads, kind) for kind in kinds)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C), or a picture for the first block."""
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("kind", ["torch", "attend"])
@pytest.mark.parametrize("seed", range(8))
def test_channels_are_named_and_positions_shown(seed: int, kind: str) -> None:
    dice = random.Random(seed)
    heads, deep = dice.choice((1, 2, 4)), dice.choice((4, 8, 16))
    tokens = deep if seed < 2 else dice.randint(2, 20)  # as many tokens as channels a head
    x = torch.randn(dice.choice((1, 3)), tokens, heads * deep)
    if seed % 3 == 2:
        x = torch.randn(len(x), heads * deep, 1, tokens)
    model = Stacked(heads * deep, heads, [kind, "positions", kind])
    said = rf"blocks.* \(Mixes\), 2 of them: it attends between {deep} channels a head"
    with torch.no_grad(), pytest.warns(RegardWarning, match=said), regard.record(model) as rec:
        model(x)
    assert {head.place.name for head in rec.recording} == {"blocks.1"}
    assert {head.shape for head in rec.recording} == {(tokens, tokens)}


def test_a_model_of_channels_alone_is_refused() -> None:
    model = Stacked(8, 2, ["torch"])
    says = "it attends between 4 channels a head, not positions"
    with torch.no_grad(), pytest.raises(InputError, match=says), regard.record(model):
        model(torch.randn(1, 6, 8))


def test_florence_s_tower_attends_both_ways() -> None:
    from transformers import Florence2VisionConfig
    from transformers.models.florence2.modeling_florence2 import Florence2VisionBackbone

    config = Florence2VisionConfig(
        depths=[1, 1], patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1],
        embed_dim=[16, 32], num_heads=[2, 4], num_groups=[2, 4], window_size=4,
        patch_prenorm=[False, True], projection_dim=16,
    )  # fmt: skip
    model = Florence2VisionBackbone(config).eval()
    named = r"Florence2VisionChannelAttention\), 2 of them: it attends between 8 channels"
    with torch.no_grad(), pytest.warns(RegardWarning, match=named), regard.record(model) as rec:
        model(torch.randn(1, 3, 64, 64))
    assert {head.place.name.split(".")[-1] for head in rec.recording} == {"window_attn"}
