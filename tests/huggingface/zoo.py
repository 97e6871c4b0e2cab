"""Tiny models with random weights, one for each way in which families attend, built from their
configuration classes; `make test-families` has every model type.

To look at another family add a line to FAMILIES: how it is used, and its configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from installed import needs

VOCABULARY, BATCH, TOKENS = 40, 2, 11

# how a family is used → the class that builds it
BUILDERS = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModel",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "vision": "AutoModel",
    "dual": "AutoModel",
    "audio": "AutoModelForSpeechSeq2Seq",
}


@dataclass(frozen=True)
class Family:
    """How a family is used, and what makes a small one."""

    kind: str
    config: str
    options: dict[str, Any]
    since: str  # the first transformers in which it exists and dispatches its attention

    def configuration(self) -> Any:
        """Its configuration, small."""
        return getattr(transformers, self.config)(**self.options)


def _family(kind: str, config: str, since: str = "5.0", **options: Any) -> Family:
    return Family(kind, config, options, since)


_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GROUPED = _TEXT | {
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER = _TEXT | {"pad_token_id": 0}
_BART = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
_IMAGE = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 16, "patch_size": 4,
}  # fmt: skip
_CLIP_TEXT = _TEXT | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

FAMILIES: dict[str, Family] = {
    "llama": _family("decoder", "LlamaConfig", **_GROUPED),
    "mistral": _family("decoder", "MistralConfig", **_GROUPED, sliding_window=4),
    "gemma2": _family(
        "decoder", "Gemma2Config", **_GROUPED, head_dim=8, sliding_window=4,
        attn_logit_softcapping=2.0, query_pre_attn_scalar=8,
    ),
    "gemma3": _family(
        "decoder", "Gemma3TextConfig", **_GROUPED, head_dim=8, sliding_window=4,
        layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8,
    ),
    "gpt_oss": _family(
        "decoder", "GptOssConfig", **_GROUPED, head_dim=8, sliding_window=4, num_local_experts=2,
        num_experts_per_tok=1,
    ),
    "gpt2": _family(
        "decoder", "GPT2Config", vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4,
        n_positions=64, bos_token_id=1, eos_token_id=2,
    ),
    "deepseek_v3": _family(
        "decoder", "DeepseekV3Config",
        **(_GROUPED | {"num_key_value_heads": 4}), kv_lora_rank=8, q_lora_rank=8,
        qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, n_routed_experts=4, n_group=2,
        topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, moe_intermediate_size=16,
    ),
    "glm_moe_dsa": _family(
        "decoder", "GlmMoeDsaConfig", "5.2",
        **(_GROUPED | {"num_key_value_heads": 4}), kv_lora_rank=8, q_lora_rank=8,
        qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, n_routed_experts=4, n_group=1,
        topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, moe_intermediate_size=16,
        index_topk=4, index_n_heads=2, index_head_dim=8,
    ),
    "bert": _family("encoder", "BertConfig", **_ENCODER),
    "t5": _family(
        "seq2seq", "T5Config", "5.15", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48,
        num_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=16, decoder_start_token_id=0,
    ),
    "bart": _family("seq2seq", "BartConfig", **_BART),
    "vit": _family("vision", "ViTConfig", **_IMAGE),
    "swin": _family(
        "vision", "SwinConfig", "5.9", image_size=16, patch_size=2, embed_dim=16, depths=[2, 2],
        num_heads=[2, 4], window_size=4,
    ),
    "clip": _family(
        "dual", "CLIPConfig", text_config=_CLIP_TEXT, vision_config=_IMAGE, projection_dim=16,
    ),
    "siglip": _family("dual", "SiglipConfig", text_config=_CLIP_TEXT, vision_config=_IMAGE),
    "whisper": _family(
        "audio", "WhisperConfig", **_BART, num_mel_bins=8, max_source_positions=10,
        max_target_positions=64, suppress_tokens=None, begin_suppress_tokens=None,
    ),
}  # fmt: skip

# Families with attention classes of their own: they ignore `attn_implementation`.
BLIND: dict[str, Family] = {
    "bloom": _family("decoder", "BloomConfig", vocab_size=VOCABULARY, hidden_size=32, n_layer=1,
                     n_head=4),
    "falcon": _family("decoder", "FalconConfig", vocab_size=VOCABULARY, hidden_size=32,
                      num_hidden_layers=1, num_attention_heads=4),
    "gptj": _family("decoder", "GPTJConfig", vocab_size=VOCABULARY, n_embd=32, n_layer=1,
                    n_head=4, rotary_dim=4, n_positions=64),
    "deberta-v2": _family("encoder", "DebertaV2Config", **(_ENCODER | {"num_hidden_layers": 1})),
}  # fmt: skip


def build(family: Family, implementation: str = "eager") -> Any:
    """A model of the family whose weights are large enough for attention to be sharp."""
    needs("transformers", family.since, f"{family.config} is there and dispatches")
    torch.manual_seed(0)
    config = family.configuration()
    builder = getattr(transformers, BUILDERS[family.kind])
    model = builder.from_config(config, attn_implementation=implementation)
    return enliven(model).eval()


@cache
def model_of(name: str) -> Any:
    """The family's model, on eager; tests leave it as they found it."""
    return build(FAMILIES[name])


def enliven(model: nn.Module) -> nn.Module:
    """Replace an initialisation made for training, under which every row is nearly uniform."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, 1.6 * parameter[0].numel() ** -0.5)
            elif name.endswith(("bias", "sinks")):
                parameter.normal_(0, 0.3)
    return model


def inputs_of(kind: str, padding: str = "none") -> dict[str, Tensor]:
    """What a forward pass takes; padding stands on no side, the left or the right."""
    dice = torch.Generator().manual_seed(1)

    def ids(tokens: int) -> Tensor:
        return torch.randint(4, VOCABULARY, (BATCH, tokens), generator=dice)

    mask = padding_mask(padding)
    text = {"input_ids": ids(TOKENS), "attention_mask": mask}
    if kind in ("decoder", "encoder"):
        return text
    if kind == "seq2seq":
        # as many tokens on both sides, so that a mask of one taken for the other's shows
        return text | {"decoder_input_ids": ids(TOKENS)}
    pixels = torch.randn(BATCH, 3, 16, 16, generator=dice)
    if kind == "vision":
        return {"pixel_values": pixels}
    if kind == "dual":
        last = TOKENS - 1 - mask.flip(-1).argmax(-1, keepdim=True)  # real, where CLIP looks for it
        ended = text["input_ids"].scatter(1, last, 2)
        return text | {"input_ids": ended, "pixel_values": pixels}
    return {
        "input_features": torch.randn(BATCH, 8, 20, generator=dice),
        "decoder_input_ids": ids(TOKENS),
    }


def padding_mask(side: str) -> Tensor:
    """(batch, tokens): the first entry has three tokens less than the others."""
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    if side != "none":
        mask[0, slice(None, 3) if side == "left" else slice(-3, None)] = 0
    return mask


def attentions(outputs: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Everything a model says about its attention: (name, one layer's)."""
    for name, value in outputs.items():
        if name.endswith("attentions") and value is not None:
            yield from ((f"{before}{name}[{n}]", layer) for n, layer in enumerate(value))
        elif hasattr(value, "items"):
            yield from attentions(value, f"{before}{name}.")


def answer_of(outputs: Any) -> Tensor:
    """What the model computed in the end."""
    names = ("logits", "logits_per_text", "last_hidden_state")
    return next(outputs[name] for name in names if name in outputs)
