"""Layers that look: from the notes' self-attention to whole models, each of them to be asked.

self_attention  one head, as in the notes
multi_head      several at once: q, k, v → `regard.attend` → w_o
rotary          positions as turns, slowed down for long texts (rotary_scaling)
positions       learned, sinusoidal, ALiBi, or rotary: one of them for a stack
cache           keys and values already seen; shared beginnings (prefix), single steps (decode)
norm, feed_forward, block   one layer of a deep network
config          what a model is made of, as values
embedding, encoder, decoder, language_model, seq2seq   whole models; batches (padding)
generation      writing on
saving, loading a model as a folder; real weights (families/)
inputs          what layers accept
"""

from __future__ import annotations

from regard.nn.block import DecoderBlock, EncoderBlock
from regard.nn.cache import (
    Cache,
    ContextCache,
    KeyValueCache,
    StackCache,
    StaticCache,
    WindowCache,
)
from regard.nn.config import BlockConfig, EncoderConfig, LanguageModelConfig, Seq2SeqConfig
from regard.nn.decoder import Decoder
from regard.nn.encoder import Encoder
from regard.nn.feed_forward import MLP, SwiGLU
from regard.nn.generation import generate
from regard.nn.language_model import LanguageModel
from regard.nn.loading import load
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.positions import LearnedPositions, SinusoidalPositions, alibi_slopes
from regard.nn.prefix import SharedPrefix, share_prefix
from regard.nn.rotary import Rotary, Turn
from regard.nn.rotary_scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    RotaryScaling,
    YarnScaling,
)
from regard.nn.saving import save
from regard.nn.self_attention import SelfAttention
from regard.nn.seq2seq import Seq2Seq

__all__ = [
    "BlockConfig",
    "Cache",
    "ContextCache",
    "Decoder",
    "DecoderBlock",
    "DynamicScaling",
    "Encoder",
    "EncoderBlock",
    "EncoderConfig",
    "KeyValueCache",
    "LanguageModel",
    "LanguageModelConfig",
    "LearnedPositions",
    "LinearScaling",
    "Llama3Scaling",
    "LongScaling",
    "MLP",
    "MultiHeadAttention",
    "Rotary",
    "RotaryScaling",
    "SelfAttention",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SharedPrefix",
    "SinusoidalPositions",
    "StackCache",
    "StaticCache",
    "SwiGLU",
    "Turn",
    "WindowCache",
    "YarnScaling",
    "alibi_slopes",
    "generate",
    "load",
    "save",
    "share_prefix",
]
