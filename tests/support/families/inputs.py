"""What a model takes: tensors made by what its configuration says, found from the signature of its
`forward`, and accepted by the model."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from support.families.compare import Inputs, outputs
from support.families.shrink import WIDTH

BATCH, TOKENS = 2, 11
_TEXT_FROM = 64  # tokens below are special ones


def parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it, the outer ones first."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        if isinstance(part := getattr(config, name, None), PreTrainedConfig):
            yield from parts(part)


@dataclass
class Facts:
    """A model, seen from outside; every tensor comes from one seed."""

    model: Any
    dice: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))

    @property
    def config(self) -> Any:
        """The whole model's."""
        return self.model.config

    @property
    def takes(self) -> dict[str, bool]:
        """The names that `forward` takes → whether it must be given them."""
        known = inspect.signature(self.model.forward).parameters.values()
        return {
            one.name: one.default is one.empty
            for one in known
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        }

    def find(self, *names: str, default: Any = None) -> Any:
        """The first of these fields that any part of the configuration has."""
        for name in names:
            for part in parts(self.config):
                if (value := getattr(part, name, None)) is not None:
                    return value
        return default

    def with_fields(self, *names: str) -> Any:
        """The innermost part of the configuration that has one of these fields."""
        found = [p for p in parts(self.config) if any(hasattr(p, name) for name in names)]
        return found[-1] if found else self.config

    @property
    def vocabulary(self) -> int:
        """The smallest of all parts' vocabularies: a token of it is one everywhere."""
        sizes = [getattr(part, "vocab_size", None) for part in parts(self.config)]
        return min((size for size in sizes if isinstance(size, int) and size > 16), default=128)

    def ids(self, tokens: int = TOKENS, vocabulary: int | None = None) -> Tensor:
        """(batch, tokens): ordinary tokens, no special one among them."""
        top = vocabulary or self.vocabulary
        low = min(_TEXT_FROM, top // 2)
        return torch.randint(low, top, (BATCH, tokens), generator=self.dice)

    def normal(self, *shape: int) -> Tensor:
        """Numbers around 0, such as those that images and spectra are scaled to."""
        return torch.randn(*shape, generator=self.dice)


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


SHORTER = 3  # tokens that the first entry has less than the others, where there is padding

_PLACES = {
    kind: (f"{kind}_token_id", f"{kind}_token_index") for kind in ("image", "audio", "video")
}


def words(facts: Facts, places: Mapping[str, int]) -> Inputs:
    """What a text model takes; `places` says how many tokens stand for each other input."""
    takes = facts.takes
    if "input_ids" not in takes:
        return _decoder(facts)
    ids = facts.ids()
    for kind, count in places.items():
        token = facts.find(*_PLACES[kind])
        ids = torch.cat([torch.full((BATCH, count), token), ids], dim=1)
    end = facts.find("eos_token_id")
    if isinstance(end, int) and not facts.model.can_generate():
        ids[:, -1] = end  # where CLIP and its kin read
    found: Inputs = {"input_ids": ids}
    if "attention_mask" in takes:
        found["attention_mask"] = torch.ones_like(ids)
    if "mm_token_type_ids" in takes:
        found["mm_token_type_ids"] = _kinds(facts, ids)
    if "bbox" in takes:
        found["bbox"] = torch.tensor([1, 2, 30, 40]).repeat(*ids.shape, 1)
    return found | _decoder(facts)


def _decoder(facts: Facts) -> Inputs:
    takes = facts.takes
    return {"decoder_input_ids": facts.ids()} if "decoder_input_ids" in takes else {}


def _kinds(facts: Facts, ids: Tensor) -> Tensor:
    """0 for text, 1 for images, 2 for videos, 3 for sound."""
    kinds = torch.zeros_like(ids)
    for number, kind in enumerate(("image", "video", "audio"), 1):
        token = facts.find(*_PLACES[kind])
        if isinstance(token, int):
            kinds[ids == token] = number
    return kinds


def padded(inputs: Inputs, side: str, pad: int) -> Inputs | None:
    """The same with a shorter first entry; None where there is no text mask to say so."""
    mask = inputs.get("attention_mask")
    ids = inputs.get("input_ids")
    if mask is None or ids is None or mask.shape != ids.shape:
        return None
    tokens = ids.shape[1]
    kept = [*range(tokens - TOKENS), *range(tokens - TOKENS + SHORTER, tokens)]  # places stay
    first = ids[0, kept]
    real, rest = torch.ones_like(first), torch.zeros(SHORTER, dtype=mask.dtype)
    blank = torch.full((SHORTER,), pad)
    if side == "left":
        row, seen = torch.cat([blank, first]), torch.cat([rest, real])
    else:
        row, seen = torch.cat([first, blank]), torch.cat([real, rest])
    found = inputs | {"input_ids": torch.stack([row, *ids[1:]])}
    found["attention_mask"] = torch.stack([seen, *mask[1:]])
    kinds = inputs.get("mm_token_type_ids")
    if kinds is not None:
        moved = kinds[0, kept]
        none = torch.zeros(SHORTER, dtype=kinds.dtype)
        row = torch.cat([none, moved] if side == "left" else [moved, none])
        found["mm_token_type_ids"] = torch.stack([row, *kinds[1:]])
    return found


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


class NoInputsError(Exception):
    """No inputs were found that the model takes."""


def accepted(model: Any, extra: Inputs | None = None) -> Inputs:
    """Inputs that the model runs on; where there are none, NoInputsError says what it said."""
    said: list[str] = []
    for inputs in _candidates(Facts(model)):
        try:
            return _tried(model, inputs | (extra or {}))
        except Exception as error:  # noqa: BLE001 - a refusal is the answer that is asked for
            said.append(_line(error))
    raise NoInputsError(" | ".join(dict.fromkeys(said)) or "nothing to pass")


def _candidates(facts: Facts) -> Iterator[Inputs]:
    """Every way to fill what `forward` takes, those with most modalities first."""
    pictures = [*images(facts), {}]
    noise = [*sounds(facts), {}]
    for seen, heard in itertools.product(pictures, noise):
        yield _with_words(facts, seen | heard)


def _with_words(facts: Facts, other: Inputs) -> Inputs:
    return others(facts) | other | words(facts, {}) | own(facts)


def _tried(model: Any, inputs: Inputs) -> Inputs:
    """The inputs as the model takes them: places are made for features that need them."""
    places: dict[str, int] = {}
    for _ in range(6):
        try:
            return _sound(model, inputs)
        except ValueError as error:
            places |= _places(model, inputs, error)
            inputs = inputs | words(Facts(model), places)
    raise NoInputsError("places do not fit")


def _sound(model: Any, inputs: Inputs) -> Inputs:
    """The inputs, where what comes of them is numbers: NaN equals nothing and so proves nothing."""
    lost = [name for name, value in outputs(model, inputs).items() if not value.isfinite().any()]
    if lost:
        raise NoInputsError(f"{', '.join(lost)}: not finite")
    return inputs


_MISFIT = re.compile(r"(?i)(image|video|audio).*tokens.*?(\d+).*?features.*?(\d+)", re.DOTALL)


def _places(model: Any, inputs: Inputs, error: Exception) -> dict[str, int]:
    """How many tokens an entry needs for features that an error counts: one by one, number by
    number, or by what they come from."""
    found = _MISFIT.search(str(error))
    if found is None:
        raise error
    kind, tokens, features = found[1].lower(), int(found[2]), int(found[3])
    if tokens == 0 or tokens != features:
        count = features
    elif features % (BATCH * WIDTH) == 0:
        count = features // WIDTH
    else:
        count = _counted(model, inputs, kind)
    return {kind: count // BATCH}


def _counted(model: Any, inputs: Inputs, kind: str) -> int:
    """How many tokens a model makes of all its images or sounds."""
    inner = getattr(model, "model", model)
    asked = getattr(inner, f"get_{kind}_features")
    takes = inspect.signature(asked).parameters
    with torch.no_grad():
        found = asked(**{name: value for name, value in inputs.items() if name in takes})
    return _rows(getattr(found, "pooler_output", found))


def _rows(features: Any) -> int:
    if isinstance(features, Tensor):
        return features.shape[:-1].numel()
    return sum(_rows(one) for one in features)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
