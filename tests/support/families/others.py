"""Inputs that only few families take, by their name in `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from support.families.facts import BATCH, TOKENS, Facts
from support.families.pictures import side

_LENGTH = 100  # of a time series whose model does not say


def others(facts: Facts) -> dict[str, Any]:
    """Every input of this kind that a model takes."""
    return {name: _MAKERS[name](facts) for name in facts.takes if name in _MAKERS}


def _length(facts: Facts) -> int:
    """Of a time series: what is looked at, and the lags before it."""
    length = facts.find("context_length", default=_LENGTH)
    lags = facts.find("lags_sequence", default=(0,))
    return int(length) + max(lags)


def _series(facts: Facts) -> Tensor:
    channels = facts.find("num_input_channels")
    shape = (BATCH, _length(facts))
    return facts.normal(*shape) if channels is None else facts.normal(*shape, channels)


def _picture(facts: Facts) -> Tensor:
    return facts.normal(BATCH, 3, *side(facts))


def _ones(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.long)


_MAKERS: dict[str, Callable[[Facts], Any]] = {
    "qformer_input_ids": lambda facts: facts.ids(),
    "query_embeds": lambda facts: facts.normal(BATCH, 8, facts.find("hidden_size")),
    "visual_feats": lambda facts: facts.normal(BATCH, 7, facts.find("visual_feat_dim")),
    "visual_pos": lambda facts: facts.normal(BATCH, 7, facts.find("visual_pos_dim")),
    "past_values": _series,
    "past_values_padding": lambda facts: torch.zeros(BATCH, _length(facts)),
    "freq": lambda facts: torch.zeros(BATCH, 1, dtype=torch.long),
    "past_time_features": lambda facts: facts.normal(
        BATCH, _length(facts), facts.find("num_time_features", default=0)
    ),
    "past_observed_mask": lambda facts: torch.ones_like(_series(facts)),
    "future_time_features": lambda facts: facts.normal(
        BATCH, facts.find("prediction_length"), facts.find("num_time_features", default=0)
    ),
    "future_values": lambda facts: facts.normal(BATCH, facts.find("prediction_length")),
    "states": lambda facts: facts.normal(BATCH, TOKENS, facts.find("state_dim")),
    "actions": lambda facts: facts.normal(BATCH, TOKENS, facts.find("act_dim")),
    "rewards": lambda facts: facts.normal(BATCH, TOKENS, 1),
    "returns_to_go": lambda facts: facts.normal(BATCH, TOKENS, 1),
    "timesteps": lambda facts: torch.arange(TOKENS).expand(BATCH, -1),
    "task_inputs": lambda facts: facts.ids(facts.find("task_seq_len", default=TOKENS)),
    "prompt_pixel_values": _picture,
    "prompt_masks": _picture,
    "prompt_depth": lambda facts: facts.normal(BATCH, 1, *side(facts)),
    "classes_input_ids": lambda facts: facts.ids().repeat(2, 1),
    "classes_attention_mask": lambda facts: _ones(2 * BATCH, TOKENS),
    "tasks_input_ids": lambda facts: facts.ids(),
    "tasks_attention_mask": lambda facts: _ones(BATCH, TOKENS),
    "classes_structure": lambda facts: torch.full((BATCH,), 2),
    "image_embeds_position_mask": lambda facts: torch.cat(
        [_ones(BATCH, facts.find("latent_query_num")), torch.zeros(BATCH, TOKENS).long()], dim=1
    ),
    "high_res_pixel_values": _picture,
    "audio_mel": lambda facts: facts.normal(BATCH, 32, facts.find("input_feat_size")),
    "audio_mel_mask": lambda facts: torch.zeros(BATCH, 32, dtype=torch.bool),
    "pixel_position_ids": lambda facts: _grid(),
    "image_position_ids": lambda facts: _grid(),
    "target_sizes": lambda facts: torch.tensor([[4, 4]] * BATCH),
}


def _grid() -> Tensor:
    """(batch, 16, 2): where each of 4 × 4 patches stands."""
    across, down = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="xy")
    return torch.stack([across.flatten(), down.flatten()], dim=-1).expand(BATCH, -1, -1)


def own(facts: Facts) -> dict[str, Any]:
    """Inputs that other families take in another shape."""
    make = _OWN.get(facts.config.model_type)
    return make(facts) if make else {}


def _codes(facts: Facts) -> Tensor:
    """(batch × codebooks, tokens): a decoder of sound writes several tokens at a time."""
    books = facts.config.decoder.num_codebooks
    return facts.ids().repeat_interleave(books, dim=0)


def _tiles(facts: Facts) -> dict[str, Any]:
    """Images cut into tiles, and the tiles that each token sees (Llama 3.2)."""
    tiles = facts.config.vision_config.max_num_tiles
    return {
        "pixel_values": facts.normal(BATCH, 1, tiles, 3, *side(facts)),
        "aspect_ratio_ids": _ones(BATCH, 1),
        "aspect_ratio_mask": _ones(BATCH, 1, tiles),
        "cross_attention_mask": _ones(BATCH, TOKENS, 1, tiles),
    }


_OWN: dict[str, Callable[[Facts], dict[str, Any]]] = {
    "dia": lambda facts: {"decoder_input_ids": facts.ids()[..., None].expand(-1, -1, 9)},
    "idefics": lambda facts: {
        "pixel_values": facts.normal(BATCH, 1, 3, *side(facts)),
        "image_attention_mask": _ones(BATCH, TOKENS, 1),
    },
    "mllama": _tiles,
    "musicgen": lambda facts: {"decoder_input_ids": _codes(facts)},
    "musicgen_melody": lambda facts: {"decoder_input_ids": _codes(facts)},
    "seggpt": lambda facts: {
        name: facts.normal(BATCH, 3, side(facts)[1], side(facts)[1])
        for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")
    },
}
