"""Modules of timm and diffusers that write their softmax out are heard by their other way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard

X = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """As timm writes it: `fused_attn` decides."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.fused_attn = nn.Linear(32, 96), False

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        if self.fused_attn:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = (q * 8**-0.5 @ k.mT).softmax(-1) @ v
        return out.transpose(1, 2).flatten(2)


class Talking(Attention):
    """One that has no other way."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def test_fused_only_while_it_is_recorded() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), Attention())
    with torch.no_grad():
        plain = model(X)
        with regard.record(model) as rec:
            torch.testing.assert_close(model(X), plain)
    assert rec.stacks == {"": (2, 4)} and rec.unheard == ()
    assert not any(layer.fused_attn for layer in model)


def test_without_another_way_it_is_named() -> None:
    model = nn.Sequential(Attention(), Talking())
    with torch.no_grad(), pytest.warns(regard.errors.RegardWarning), regard.record(model) as rec:
        model(X)
    assert rec.stacks == {"": (1, 4)} and rec.unheard == ("* (Talking)",)


def unet() -> Any:
    import diffusers

    torch.manual_seed(0)
    return diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=8,
        block_out_channels=(32, 64), cross_attention_dim=32, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).eval()  # fmt: skip


@pytest.mark.parametrize("kind", ["AttnProcessor", "AttnProcessor2_0", "SlicedAttnProcessor"])
@torch.no_grad()
def test_processors_of_diffusers(kind: str) -> None:
    model = unet()
    from diffusers.models import attention_processor

    options = (1,) if "Sliced" in kind else ()
    model.set_attn_processor(getattr(attention_processor, kind)(*options))
    given = torch.randn(2, 4, 8, 8), 1, torch.randn(2, 7, 32)
    plain = model(*given).sample
    with regard.record(model) as rec:
        torch.testing.assert_close(model(*given).sample, plain, atol=1e-5, rtol=1e-4)
    found = rec.recording
    assert found.unheard == () and len(found.prompts) == 2
    shapes = {head.shape for head in found.prompts[0]}
    assert shapes == {(64, 64), (64, 7), (16, 16), (16, 7)}
    assert {type(one).__name__ for one in model.attn_processors.values()} == {kind}
