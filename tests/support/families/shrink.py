"""Which model types the installed transformers knows, the class that stands for each, and a small
configuration of it: how small each field is made, by its name, and what no rule finds."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import transformers
from transformers import PreTrainedConfig
from transformers.models.auto import configuration_auto, modeling_auto

from regard.errors import UnavailableError


def _rope(*sections: int, **more: Any) -> dict[str, Any]:
    """Rotary angles shared out among time, height and width: half a head, or of what turns."""
    turn = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections)}
    return {"rope_parameters": turn | more}


_HYBRID = ["linear_attention", "full_attention"]
_MAMBA = {"mamba_n_heads": 8, "mamba_d_state": 16, "mamba_chunk_size": 8}
_TOKENIZER = {"downsampling_ratios": (2, 2), "depths": (1, 1, 1), "num_filters": 8}

CHANGES: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 640},
    "align_vision_model": {"hidden_dim": 640, "num_block_repeats": [1] * 7},
    "aria": {"projector_patch_to_query_dict": {16: 4}},
    "autoformer": {"context_length": 8, "label_length": 4},
    "bailing_hybrid": {"head_dim": 16},
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": _rope(2, 3, 3)["rope_parameters"]},
    },
    "cosmos3_edge_text": _rope(2, 3, 3),
    "d_fine": {"decoder_in_channels": [64, 64, 64]},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 64},
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "deimv2": {"decoder_in_channels": [64, 64, 64]},
    "dia": {"delay_pattern": [0, 1, 2, 3, 4, 5, 6, 7, 8]},
    "donut-swin": {"window_size": 2},
    "efficientloftr": {"hidden_size": 256},
    "efficientnet": {"hidden_dim": 2560},
    "emu3": {"vocabulary_map": {"<image>": 5}},
    "ernie4_5_vl_moe_text": _rope(3, 3, 2),
    "esm": {"pad_token_id": 0, "mask_token_id": 3},
    "falcon_h1": _MAMBA,
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 16}},
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0,
        "num_hidden_layers": 2, "activation_sparsity_pattern": [0.0, 0.0], "laurel_rank": 8,
    },
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0}},
    "glm4v_moe_text": _rope(1, 1, 2, partial_rotary_factor=0.5),
    "glm4v_text": _rope(2, 3, 3),
    "glm5_next_text": {"index_kpool": 2},
    "glm_image_text": _rope(2, 3, 3),
    "glm_ocr_text": _rope(2, 3, 3),
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]], "downsample_rate": "1/2",
        "image_grid_pinpoints": [[128, 128]]},
    "granitemoehybrid": _MAMBA | {"layer_types": _HYBRID},
    "hunyuan_vl_text": _rope(2, 2, 2, 2),
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 11, "shape_size": 10},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "lilt": {"hidden_size": 96, "channel_shrink_ratio": 4},
    "llava_next": {"image_grid_pinpoints": [[56, 56]]},
    "llava_next_video": {"image_grid_pinpoints": [[56, 56]]},
    "llava_onevision": {"image_grid_pinpoints": [[56, 56]]},
    "longcat_flash": {"qk_rope_head_dim": 8, "head_dim": 8},
    "mamba2": {"num_heads": 8, "n_groups": 2, "chunk_size": 8},
    "mllama_text_model": {"cross_attention_layers": [1]},
    "mllama_vision_model": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 192},
    "molmo2_adapter": {"vision_feature_layer": [-1, -2]},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "chunk_size": 8,
    },
    "omdet-turbo": {"backbone_config": {"embed_dim": 96}},
    "paddleocr_vl_text": _rope(2, 3, 3),
    "qwen2_5_omni_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "qwen2_5_omni_text": _rope(2, 3, 3),
    "qwen2_5_vl_text": _rope(2, 3, 3),
    "qwen2_vl_text": _rope(2, 3, 3),
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "qwen4_exp_text": {
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
        "indexer_compress_ratio": 2, "hc_lowrank": 16,
    },
    "reformer": {"axial_pos_embds_dim": (16, 48), "axial_pos_shape": (8, 16)},
    "rt_detr": {"decoder_in_channels": [64, 64, 64]},
    "rt_detr_v2": {"decoder_in_channels": [64, 64, 64]},
    "sam_vision_model": {"output_channels": 64, "num_pos_feats": 32},
    "sam_hq_vision_model": {"output_channels": 64, "num_pos_feats": 32},
    "seggpt": {"image_size": [128, 64]},
    "swin": {"window_size": 2},
    "pvt": {"image_size": 224},
    "vibevoice_acoustic_tokenizer": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_decoder": _TOKENIZER,
    "vibevoice_acoustic_tokenizer_encoder": _TOKENIZER,
    "vipllava": {"vision_feature_layers": [-1, -2, -1, -2, -1]},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 5, "attn_layer_period": 2, "attn_layer_offset": 1,
        "layers_block_type": [
            "linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid",
        ],
    },
    "zamba2": {
        "num_hidden_layers": 4, "chunk_size": 8, "adapter_rank": 8,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
}  # fmt: skip

# model types whose first class in transformers' tables is not the model that can be run
CLASSES: dict[str, str] = {
    "musicgen": "MusicgenForConditionalGeneration",
    "t5gemma2_encoder": "T5Gemma2Encoder",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}


WIDTH, _FFN, HEADS, _HEAD_DIM, _LAYERS, VOCABULARY = 64, 256, 4, 16, 2, 128

# name → the most it may be; the first pattern that matches decides. One width for everything, so
# that what must be equal across the parts of a model still is.
_MOST: tuple[tuple[str, int | None], ...] = (
    (r"type_vocab_size|additional_vocab_size", None),
    (r".*vocab_size(_per_layer_input)?|codebook_size|num_embeddings|num_embeds", VOCABULARY),
    (r"(max|first|num_logits|insert|mask|num_nextn|eval).*_layers?(_id)?", None),
    (r"(.*_)?(num_)?(key_value_heads|kv_heads)", 2),
    (r"(.*_)?(num_|n_|resampler_n_)?(attention_)?heads?", HEADS),
    (r"(.*_)?(num_|n_)?layers?|(.*_)?depth|num_(encoder|decoder)_blocks|.*_num_blocks", _LAYERS),
    (r"qk_rope_head_dim|rotary_dim", 8),
    (r"(.*_)?(head_dim|d_kv|d_head|dim_head|head_width|attention_head_size)", _HEAD_DIM),
    (r"(.*_)?(n_|num_)?(routed_|local_)?experts", 4),
    (r"(.*_)?(experts_per_tok|top_?k|moe_k)(_experts?)?|num_selects", 2),
    (r"n_group|topk_group", 1),
    (r"(.*_)?(max|num|n)_.*position.*|n_positions|n_ctx|max_seq_len|max_seq_length", 128),
    (r"sliding_window|local_attention|attention_window|attention_chunk_size", 4),
    (r"index_topk|local_window_size|window_attention_size", 4),
    (r".*num_latents|num_self_attends_per_block", 8),
    (r"mm_tokens_per_image", 4),
    (r"num_queries|num_query_tokens|two_stage_num_proposals|prompt_length", 10),
    (r"num_denoising", 0),
    (r"num_mel_bins|mel_dim|num_frequency_bins", 16),
    (r"(.*_)?(intermediate|ffn|ff|feed_?forward|mlp)_?(hidden_)?(size|dim)(_mlp)?|d_ff|dff", _FFN),
    (r"(.*_)?(hidden|width|embed|embedding|emb|feature|proj)(_size|_dim)?(_global)?", WIDTH),
    (r"upsample_groups|d_latents|(.*_)?(d_model|n_embd|n_inner|d_inner)", WIDTH),
    (r"(.*_)?(size|dim|dims|channels?|rank|units)", WIDTH),
)
_PATTERNS = tuple((re.compile(name), most) for name, most in _MOST)
# sizes in another sense than that of a tensor's width
_LEFT_ALONE = re.compile(
    r".*(kernel|patch|chunk|batch|window|merge|block|tubelet|step|stride|scale|conv_pos|pool|crop"
    r"|state|roi|(?<!upsample_)group|code_dim|sampling|shuffle|spatial|temporal|grid|in_chans"
    r"|(num|in|input|audio)_channels|query_dim|max_.*_size|min_.*_size).*"
)
# fields that are None by default in families that cannot be built so
NEEDED = {
    "head_dim": _HEAD_DIM, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "num_key_value_heads": 2, "vocab_size": VOCABULARY, "topk_method": "greedy",
    "prediction_length": 4, "moe_intermediate_size": WIDTH,
}  # fmt: skip
_TOKEN = re.compile(r".*(token_id|token_index|token_ids|_bos_id|_eos_id|_pad_id|patch_id)")


def is_token(name: str) -> bool:
    """Whether a field holds the number of a special token."""
    return _TOKEN.fullmatch(name) is not None


def shrunk(name: str, value: Any, whole: Mapping[str, Any]) -> Any:
    """A field's value, small; `whole` is the configuration it stands in, as it was."""
    if isinstance(value, bool) or value is None:
        return value
    if name == "image_size" or name == "pretrain_image_size":
        return _image(value, whole)
    if name.endswith("key_value_heads") and value == whole.get("num_attention_heads"):
        return HEADS
    if (
        name == "embed_dim"
        and isinstance(value, int)
        and isinstance(heads := whole.get("num_heads"), list | tuple)
    ):
        return 8 * heads[0]  # Swin and its kin double both from stage to stage
    if isinstance(value, int):
        return min(value, most) if (most := _most(name)) is not None else value
    if isinstance(value, list | tuple):
        return _several(name, value)
    return value


def _most(name: str) -> int | None:
    for pattern, most in _PATTERNS:
        if pattern.fullmatch(name):
            sized = most in (WIDTH, _FFN)
            return None if sized and _LEFT_ALONE.fullmatch(name) else most
    return None


def _image(value: Any, whole: Mapping[str, Any]) -> Any:
    """Four patches each way, however large a patch is."""
    patch = whole.get("patch_size", 16)
    side = 4 * patch if isinstance(patch, int) and patch >= 8 else 64
    return side if isinstance(value, int) else type(value)(side for _ in value)


def _several(name: str, values: Any) -> Any:
    """Lists of depths keep their length; lists of widths stay, since others are derived of them."""
    if name in ("depths", "num_block_repeats", "stage_num_blocks"):
        return type(values)(min(one, 2) for one in values)
    if name == "conv_dim":
        return type(values)(WIDTH // 2 for _ in values)
    return values


# The auto classes in the order in which they are asked: those that write text first, so that
# `generate` is looked at wherever there is one.
_GENERATIVE = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "CAUSAL_LM",
)
_ENCODERS = "MASKED_LM"  # among those that "write" text are encoders that could be made to


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Every table of transformers: task → (model type → name of a class, or several)."""
    ends = "_MAPPING_NAMES"
    return {
        name.removeprefix("MODEL_FOR_").removesuffix(ends): table
        for name, table in vars(modeling_auto).items()
        if name.startswith("MODEL_") and name.endswith(ends)
    }


def names() -> list[str]:
    """The model types that some auto class builds, in alphabetical order."""
    known = {name for table in _tables().values() for name in table}
    return sorted(known & set(configuration_auto.CONFIG_MAPPING_NAMES))


def config_class(name: str) -> Any:
    """The configuration class of a model type."""
    return configuration_auto.CONFIG_MAPPING[name]


def model_class(name: str) -> Any:
    """The class that stands for a model type: the one that generates, or the bare model."""
    if name in CLASSES:
        return _class(CLASSES[name])
    tables = _tables()
    writes = [task for task in _GENERATIVE if name in tables[task]]
    if writes and not (writes == ["CAUSAL_LM"] and name in tables[_ENCODERS]):
        return _class(tables[writes[0]][name])
    order = ("MODEL", *(task for task in tables if task != "MODEL"))
    return _class(next(tables[task][name] for task in order if name in tables[task]))


def _class(entry: Any) -> Any:
    """An entry names a class, or several of which the first is the whole model."""
    return getattr(transformers, entry if isinstance(entry, str) else entry[0])


if not hasattr(PreTrainedConfig, "sub_configs_defaults"):
    raise UnavailableError(
        "support.families makes configurations small by what they say of their parts, "
        f"which needs transformers 5.20 or newer; {transformers.__version__} is installed"
    )

_COMMON = {field.name for field in dataclasses.fields(PreTrainedConfig)}
_FIRST = {"pad": 0, "bos": 1, "eos": 2}  # the rest are counted from here on

_SENSES = ("vision_config", "audio_config")  # wanted even where a model can do without
_STANDS_FOR = ("image_token", "audio_token", "video_token")  # always needed


class _Tokens:
    """Numbers for special tokens, the same for the same name anywhere in a configuration."""

    def __init__(self) -> None:
        self._given = dict(_FIRST)

    def number(self, name: str) -> int:
        word = name.removesuffix("_id").removesuffix("_index").removesuffix("_token")
        return self._given.setdefault(word, len(self._given))


def tiny_config(name: str) -> Any:
    """A small configuration of a model type."""
    cls = config_class(name)
    return cls(**_fields(cls, {}, _Tokens()))


def _fields(cls: Any, given: Mapping[str, Any], tokens: _Tokens) -> dict[str, Any]:
    """What to pass to a configuration class: fields that become smaller, and its parts."""
    whole = _defaults(cls) | dict(given)
    parts = getattr(cls, "sub_configs_defaults", {})
    small: dict[str, Any] = dict(given)
    for name, value in whole.items():
        if name in parts:
            small |= _part(name, parts[name], value, tokens)
        elif is_token(name):
            small |= _token(name, value, tokens)
        elif (less := shrunk(name, value, whole)) != value:
            small[name] = less
    usual = cls(**given)
    small |= _layers(usual, whole) | _stages(given, small) | _left_open(usual, whole)
    return _merged(small, CHANGES.get(cls.model_type, {}))


def _layers(usual: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """One layer of each kind, where a family has several."""
    found: dict[str, Any] = {}
    for name in ("layer_types", "mlp_layer_types", "layers_block_type", "block_types"):
        kinds = vars(usual).get(name)
        if name in whole and isinstance(kinds, list) and len(set(kinds)) > 1:
            found[name] = list(dict.fromkeys(kinds))
    most = max(map(len, found.values()), default=0)
    found = {name: (kinds * most)[:most] for name, kinds in found.items()}
    return found | ({"num_hidden_layers": most} if most else {})


def _stages(given: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    """A backbone of which stages are asked for by number has as many layers as are asked for."""
    asked = given.get("out_indices") or given.get("out_features") or ()
    if "num_hidden_layers" not in small or len(asked) == 0:
        return {}
    numbers = list(range(1, len(asked) + 1))
    named = {"out_features": [f"stage{n}" for n in numbers]}
    found = {"out_indices": numbers} if "out_indices" in given else named
    return found | {"num_hidden_layers": len(asked)}


def _left_open(usual: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """Fields without a default that no model can be built without."""
    return {
        name: value
        for name, value in NEEDED.items()
        if name in whole and vars(usual).get(name) is None
    }


def _defaults(cls: Any) -> dict[str, Any]:
    """The fields a family has of its own, with their defaults."""
    found = {}
    for field in dataclasses.fields(cls):
        if field.name in _COMMON:
            continue
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def _token(name: str, value: Any, tokens: _Tokens) -> dict[str, Any]:
    if value is None and not name.startswith(_STANDS_FOR):
        return {}
    if isinstance(value, int) and value < 0:
        return {}
    if value is None:
        return {name: tokens.number(name)}
    if isinstance(value, int):
        return {name: tokens.number(name)}
    return {name: type(value)(tokens.number(f"{name}{n}") for n, _ in enumerate(value))}


def _part(name: str, spec: Any, value: Any, tokens: _Tokens) -> dict[str, Any]:
    """A part's own small fields, by its name."""
    if value is None and spec.optional and name not in _SENSES:
        return {}
    given = dict(value) if isinstance(value, dict) else dict(spec.init_kwargs)
    kind = given.pop("model_type", spec.model_type)
    cls = spec.config_class
    if not issubclass(cls, PreTrainedConfig):
        cls = config_class(kind)
    return {name: {"model_type": kind} | _fields(cls, given, tokens)}


def _merged(found: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes laid over fields, part by part."""
    merged = dict(found)
    for name, change in changes.items():
        inside = merged.get(name)
        if isinstance(inside, dict) and isinstance(change, dict):
            change = _merged(inside, change)
        merged[name] = change
    return merged
