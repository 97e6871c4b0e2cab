"""Pictures, films, waves and spectra in the shapes that models take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from support.families.facts import BATCH, Facts, Inputs

FRAMES = 2


def images(facts: Facts) -> Iterator[Inputs]:
    """What may be passed as images, the likeliest first."""
    takes = facts.takes
    if "image_grid_thw" in takes or "grid_thw" in takes or "image_grid_hw" in takes:
        yield from _patches(facts)
    if "flattened_patches" in takes:
        yield {"flattened_patches": _flattened(facts)}
    name = "pixel_values" if "pixel_values" in takes else "pixel_values_videos"
    if name not in takes:
        return
    high, wide = side(facts)
    shape = (_channels(facts), high, wide)
    still = {name: facts.normal(BATCH, *shape)}
    if "pixel_attention_mask" in takes and "spatial_shapes" in takes:
        yield _naflex(facts)
    sizes = torch.tensor([[high, wide]] * BATCH)
    frames = facts.find("num_frames", "frames_per_clip", default=FRAMES)
    film = {name: facts.normal(BATCH, frames, *shape)}
    crops = {name: facts.normal(BATCH, FRAMES, *shape)}
    if "image_sizes" in takes:
        yield still | {"image_sizes": sizes}
        yield crops | {"image_sizes": sizes}
    yield from (film, still) if name.endswith("videos") else (still, film)
    yield crops
    yield {name: facts.normal(BATCH, 1, *shape)}
    yield {name: facts.normal(BATCH, 16, shape[0] * _patch(facts) ** 2)}


def _patches(facts: Facts) -> Iterator[Inputs]:
    """Patches in one row, with the grid each image has of them (Qwen2-VL and its kin)."""
    takes = facts.takes
    grid = torch.tensor([[1, 4, 4]] * BATCH)
    name = "pixel_values" if "pixel_values" in takes else "hidden_states"
    name_of_grid = next(n for n in ("image_grid_thw", "grid_thw", "image_grid_hw") if n in takes)
    found: Inputs = {name_of_grid: grid[:, 1:] if name_of_grid == "image_grid_hw" else grid}
    for merge in ("image_merge_sizes", "merge_sizes"):
        if merge in takes:
            found[merge] = torch.full((BATCH,), 2)
    channels, patch = _channels(facts), _patch(facts)
    frames = facts.find("temporal_patch_size", "patch_temporal", default=1)
    yield found | {name: facts.normal(BATCH * 16, channels * frames * patch**2)}
    yield found | {name: facts.normal(BATCH * 16, channels, patch, patch)}


def _flattened(facts: Facts) -> Tensor:
    """(batch, patches, 2 + numbers): row and column of each patch before its pixels."""
    width = facts.find("patch_embed_hidden_size", default=_channels(facts) * _patch(facts) ** 2)
    place = torch.arange(1, 13, dtype=torch.float).reshape(1, 12, 1).expand(BATCH, -1, 2)
    return torch.cat([place, facts.normal(BATCH, 12, width)], dim=-1)


def _naflex(facts: Facts) -> Inputs:
    """Patches of images of any proportions (SigLIP 2): 4 × 4 of them."""
    return {
        "pixel_values": facts.normal(BATCH, 16, _channels(facts) * _patch(facts) ** 2),
        "pixel_attention_mask": torch.ones(BATCH, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4]] * BATCH),
    }


def side(facts: Facts) -> tuple[int, int]:
    """How high and how wide an image is."""
    vision = facts.with_fields("image_size", "patch_size")
    size: Any = getattr(vision, "image_size", None) or facts.find("image_size")
    if size is None or (isinstance(size, int) and size < 0):
        patch = _patch(facts)
        size = 4 * patch if patch >= 8 else 64
    if isinstance(size, dict):
        size = (size["height"], size["width"])
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _patch(facts: Facts) -> int:
    vision = facts.with_fields("patch_size")
    size = getattr(vision, "patch_size", None) or 8
    return size if isinstance(size, int) else int(size[-1])


def _channels(facts: Facts) -> int:
    vision = facts.with_fields("num_channels", "in_channels", "in_chans", "patch_size")
    for name in ("num_channels", "in_channels", "in_chans"):
        if isinstance(found := getattr(vision, name, None), int):
            return found
    return 3


_USUAL = 128  # bins of a spectrum, for a model that does not say


def sounds(facts: Facts) -> Iterator[Inputs]:
    """What may be passed as sound, the likeliest first."""
    takes = facts.takes
    if "input_features" in takes:
        yield from _spectra(facts)
    if "input_values" in takes:
        yield from _waves(facts)


def _spectra(facts: Facts) -> Iterator[Inputs]:
    bins = facts.find(
        "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim",
        "n_mels", "input_feat_size", "input_size", "num_frequency_bins", "hidden_size", default=16,
    )  # fmt: skip
    positions = facts.find("max_source_positions", default=16)
    masks = [n for n in ("input_features_mask", "feature_attention_mask") if n in facts.takes]
    for length in (2 * int(positions), 32, 64, 88, 200):
        marks = {name: torch.ones(BATCH, length, dtype=torch.long) for name in masks}
        yield {"input_features": facts.normal(BATCH, bins, length)} | marks
        yield {"input_features": facts.normal(BATCH, length, bins)} | marks
        yield {"input_features": facts.normal(BATCH, length, _USUAL)} | marks
        yield {"input_features": facts.normal(BATCH, 1, length, bins)} | marks


def _waves(facts: Facts) -> Iterator[Inputs]:
    for length in (1600, 4000, 16000):
        yield {"input_values": facts.normal(BATCH, length)}
        yield {"input_values": facts.normal(BATCH, 1, length)}
    bins = facts.find("num_mel_bins", default=16)
    length = facts.find("max_length", default=64)
    yield {"input_values": facts.normal(BATCH, int(length), bins)}
