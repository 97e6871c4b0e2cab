"""Tiny denoisers of diffusers with random weights, each with what one step of theirs is given."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    DiTTransformer2DModel,
    FluxTransformer2DModel,
    PixArtTransformer2DModel,
    SD3Transformer2DModel,
    UNet2DConditionModel,
)

WORDS = 7  # tokens of the text
_HEADS = {"num_attention_heads": 2, "attention_head_dim": 8}


def denoiser(name: str, batch: int = 1) -> tuple[Any, dict[str, Any]]:
    """By name: unet, wide_unet, dit, pixart, sd3 or flux."""
    torch.manual_seed(0)
    model, inputs = globals()[f"_{name}"](batch)
    return model.eval(), inputs


def _noise(*shape: int) -> torch.Tensor:
    return 3 * torch.randn(*shape)


def _unet(batch: int, channels: int = 4) -> tuple[Any, dict[str, Any]]:
    model = UNet2DConditionModel(
        sample_size=16, in_channels=channels, out_channels=4, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=12,
        attention_head_dim=2, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    sample = _noise(batch, channels, 16, 24)
    return model, {"sample": sample, "timestep": 10, "encoder_hidden_states": _text(batch)}


def _wide_unet(batch: int) -> tuple[Any, dict[str, Any]]:
    """Nine channels, as for painting into a picture."""
    return _unet(batch, 9)


def _text(batch: int) -> torch.Tensor:
    return _noise(batch, WORDS, 12)


def _dit(batch: int) -> tuple[Any, dict[str, Any]]:
    model = DiTTransformer2DModel(
        **_HEADS, in_channels=4, out_channels=8, num_layers=2, sample_size=16, patch_size=2,
        num_embeds_ada_norm=10,
    )  # fmt: skip
    labels = torch.ones(batch, dtype=torch.int64)
    sample = _noise(batch, 4, 16, 16)
    return model, {"hidden_states": sample, "timestep": labels * 3, "class_labels": labels}


def _pixart(batch: int) -> tuple[Any, dict[str, Any]]:
    """A DiT that looks at a text."""
    model = PixArtTransformer2DModel(
        **_HEADS, in_channels=4, out_channels=8, num_layers=2, cross_attention_dim=16,
        sample_size=16, patch_size=2, num_embeds_ada_norm=10, caption_channels=12,
    )  # fmt: skip
    return model, {
        "hidden_states": _noise(batch, 4, 16, 16), "timestep": torch.full((batch,), 3),
        "encoder_hidden_states": _text(batch),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
    }  # fmt: skip


def _sd3(batch: int) -> tuple[Any, dict[str, Any]]:
    model = SD3Transformer2DModel(
        **_HEADS, sample_size=16, patch_size=2, in_channels=16, num_layers=2,
        joint_attention_dim=12, caption_projection_dim=16, pooled_projection_dim=10,
        out_channels=16, pos_embed_max_size=16,
    )  # fmt: skip
    return model, {
        "hidden_states": _noise(batch, 16, 16, 12), "timestep": torch.full((batch,), 3.0),
        "encoder_hidden_states": _text(batch), "pooled_projections": _noise(batch, 10),
    }  # fmt: skip


def _flux(batch: int) -> tuple[Any, dict[str, Any]]:
    model = FluxTransformer2DModel(
        **_HEADS, patch_size=1, in_channels=16, num_layers=1, num_single_layers=1,
        joint_attention_dim=12, pooled_projection_dim=10, axes_dims_rope=(2, 2, 4),
    )  # fmt: skip
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")
    places = torch.stack([torch.zeros(24), rows.reshape(-1), columns.reshape(-1)], 1)
    return model, {
        "hidden_states": _noise(batch, 24, 16), "timestep": torch.full((batch,), 0.3),
        "encoder_hidden_states": _text(batch), "pooled_projections": _noise(batch, 10),
        "img_ids": places, "txt_ids": torch.zeros(WORDS, 3),
    }  # fmt: skip
