"""Eight tiny models with weights of a fixed seed, one of each way to mix positions; every call of
`make` builds another copy, so that a fault can be planted in it.

    llama       rotary attention, grouped heads       bert        attention to both sides
    gpt2        learned positions                     bart        a decoder beside an encoder
    gemma3      sliding and full layers               falcon_h1   a state space beside attention
    qwen3_moe   experts                               recurrent   GRU and convolution in plain torch
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor, nn

__all__ = ["ARCHITECTURES", "Architecture", "Recurrent", "ids", "make", "padded"]

_SIZES = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "attn_implementation": "eager", "initializer_range": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """Where faults are planted in a model, and what it takes."""

    mixer: str  # the module that a fault is planted in
    is_causal: bool = True
    has_cache: bool = True
    has_packs: bool = True  # told by position_ids or cu_seqlens


ARCHITECTURES = {
    "llama": Architecture("model.layers.1.self_attn"),
    "gpt2": Architecture("transformer.h.1.attn"),
    "gemma3": Architecture("model.layers.1.self_attn"),
    "qwen3_moe": Architecture("model.layers.0.self_attn"),
    "falcon_h1": Architecture("model.layers.1.self_attn", has_packs=False),
    "bert": Architecture(
        "encoder.layer.1.attention.self", is_causal=False, has_cache=False, has_packs=False
    ),
    "bart": Architecture("model.decoder.layers.1.self_attn", has_packs=False),
    "recurrent": Architecture("conv", has_cache=False, has_packs=False),
}


class Recurrent(nn.Module):
    """A language model of a GRU and a convolution that looks two tokens back."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.gru = nn.GRU(32, 32, batch_first=True)
        self.conv = Convolution()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        if attention_mask is not None:
            x = x * attention_mask[..., None]
        x = self.gru(x)[0]
        if attention_mask is not None:
            x = x * attention_mask[..., None]
        logits: Tensor = self.head(x + self.conv(x))
        return logits


class Convolution(nn.Module):
    """Of each position and the two before it."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Conv1d(32, 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = nn.functional.pad(x.transpose(1, 2), (2, 0))
        mixed: Tensor = self.kernel(rows).transpose(1, 2)
        return mixed


def _built(name: str) -> nn.Module:
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES))
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, attn_implementation="eager", initializer_range=0.2,
        ))  # fmt: skip
    if name == "gemma3":
        return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
            **_SIZES, sliding_window=7, layer_types=["full_attention", "sliding_attention"],
            query_pre_attn_scalar=8,
        ))  # fmt: skip
    if name == "qwen3_moe":
        return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
            **_SIZES, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        ))  # fmt: skip
    if name == "falcon_h1":
        return transformers.FalconH1ForCausalLM(transformers.FalconH1Config(
            **_SIZES, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1,
            mamba_d_state=8, mamba_chunk_size=8,
        ))  # fmt: skip
    if name == "bert":
        return transformers.BertModel(transformers.BertConfig(**_SIZES))
    if name == "bart":
        return transformers.BartForConditionalGeneration(transformers.BartConfig(
            vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=2, pad_token_id=0,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
            decoder_ffn_dim=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=2, forced_eos_token_id=2, attn_implementation="eager",
            init_std=0.2,
        ))  # fmt: skip
    return Recurrent()


@cache
def _kept(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return _built(name).eval()


def make(name: str) -> Any:
    """One of ARCHITECTURES, in eval mode."""
    return copy.deepcopy(_kept(name))


def ids(count: int = 2, length: int = 20, seed: int = 1) -> Tensor:
    """(count, length) of words, none special."""
    dice = torch.Generator().manual_seed(seed)
    return torch.randint(3, 64, (count, length), generator=dice)


def padded(side: str, count: int = 2, length: int = 20) -> dict[str, Tensor]:
    """The last sequence is six tokens shorter than the others."""
    mask = torch.ones(count, length, dtype=torch.long)
    mask[-1, slice(0, 6) if side == "left" else slice(-6, None)] = 0
    return {"input_ids": torch.where(mask == 1, ids(count, length), 0), "attention_mask": mask}
