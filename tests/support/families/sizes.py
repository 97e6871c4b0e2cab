"""How small each field of a configuration is made, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
