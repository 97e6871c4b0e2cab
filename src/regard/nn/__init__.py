"""Layers and models whose attention can be queried, recorded and ablated.

embedding       ids → x: token and position, the first line of the chain
self_attention  one head: q, k, v → `regard.attend`
multi_head      several heads, and the output projection w_o
rotary          rotary position embeddings, scaled for long texts (rotary_scaling)
positions       learned and sinusoidal positions, ALiBi
cache           keys and values of earlier tokens; shared prefixes (prefix), single steps (decode),
                keys dropped by the attention they received
steps           every step of a layer or block by name, printed as the lesson
block           attention and a feed-forward layer with norms (norm, feed_forward)
config          sizes and options of blocks and models, as values
language_model  a decoder with an output projection (decoder)
encoder         a bidirectional model
seq2seq         an encoder and a decoder with cross-attention
generation      greedy decoding and sampling
saving          a model as a folder
loading         folders, and real weights of other families (families/)
inputs          checks of what layers are given
"""

from __future__ import annotations

from regard.nn.block import DecoderBlock, EncoderBlock
from regard.nn.cache import (
    Cache,
    ContextCache,
    EvictingCache,
    KeyValueCache,
    StackCache,
    StaticCache,
    WindowCache,
)
from regard.nn.config import BlockConfig, EncoderConfig, LanguageModelConfig, Seq2SeqConfig
from regard.nn.decoder import Decoder
from regard.nn.embedding import TokenEmbedding
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
from regard.nn.steps import BlockSteps, LayerSteps

__all__ = [
    "BlockConfig",
    "BlockSteps",
    "Cache",
    "ContextCache",
    "Decoder",
    "DecoderBlock",
    "DynamicScaling",
    "Encoder",
    "EncoderBlock",
    "EncoderConfig",
    "EvictingCache",
    "KeyValueCache",
    "LanguageModel",
    "LanguageModelConfig",
    "LayerSteps",
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
    "TokenEmbedding",
    "Turn",
    "WindowCache",
    "YarnScaling",
    "alibi_slopes",
    "generate",
    "load",
    "save",
    "share_prefix",
]
