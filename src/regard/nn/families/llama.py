"""The Llama family: pre-norm RMSNorm, SwiGLU, rotary positions, grouped heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import UnavailableError
from regard.nn.config import LanguageModelConfig
from regard.nn.families.rope import read_rope

KINDS = ("llama", "mistral", "qwen2", "qwen3")

NAMES = (
    (r"^model\.embed_tokens\.", "decoder.embed.tokens.word."),
    (r"^model\.layers\.", "decoder.blocks."),
    (r"^model\.norm\.", "decoder.norm."),
    (r"^lm_head\.", "head."),
    (r"\.self_attn\.([qkvo])_proj\.", r".attention.w_\1."),
    (r"\.self_attn\.([qk])_norm\.", r".attention.norm_\1."),
    (r"\.input_layernorm\.", ".norm_attention."),
    (r"\.post_attention_layernorm\.", ".norm_feed_forward."),
    (r"\.mlp\.gate_proj\.", ".feed_forward.w_gate."),
    (r"\.mlp\.up_proj\.", ".feed_forward.w_in."),
    (r"\.mlp\.down_proj\.", ".feed_forward.w_out."),
)
LEFT_OUT = r"rotary_emb\.inv_freq$"


def configure(given: Mapping[str, Any]) -> LanguageModelConfig:
    """Our configuration from theirs."""
    if given.get("hidden_act", "silu") != "silu":
        raise UnavailableError(f"hidden_act={given['hidden_act']!r}; this family's gate is a silu")
    base, scaling = read_rope(given)
    kind = given["model_type"]
    return LanguageModelConfig(
        vocabulary=given["vocab_size"],
        layers=given["num_hidden_layers"],
        dim=given["hidden_size"],
        heads=given["num_attention_heads"],
        kv_heads=given.get("num_key_value_heads"),
        head_dim=given.get("head_dim"),
        hidden=given["intermediate_size"],
        norm_eps=given.get("rms_norm_eps", 1e-6),
        attention_bias=kind == "qwen2" or given.get("attention_bias", False),
        feed_forward_bias=given.get("mlp_bias", False),
        qk_norm=kind == "qwen3",
        longest=given.get("max_position_embeddings", 2048),
        rotary_base=base,
        rotary_scaling=scaling,
        window=_window(given),
        tied=given.get("tie_word_embeddings", False),
    )


def prepare(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Qwen2 has biases for q, k and v, none for the output: there, a bias of 0 does nothing."""
    for name, bias in list(tensors.items()):
        if name.endswith(".self_attn.q_proj.bias"):
            output = name.replace(".q_proj.", ".o_proj.")
            weight = tensors[output.removesuffix("bias") + "weight"]
            tensors.setdefault(output, torch.zeros(weight.shape[0], dtype=bias.dtype))
    return tensors


def _window(given: Mapping[str, Any]) -> int | None:
    """Mistral slides in every layer; Qwen only where it says so, and then not in all of them."""
    window: int | None = given.get("sliding_window")
    if window is None or not given.get("use_sliding_window", True):
        return None
    kinds = set(given.get("layer_types") or ())
    if kinds == {"full_attention"}:
        return None
    if len(kinds) > 1 or (not kinds and "max_window_layers" in given):
        raise UnavailableError("some layers slide and others do not; here all layers are alike")
    return window
