"""Layers that look: the notes' self-attention, and multi-head attention for real models."""

from __future__ import annotations

from regard.nn.cache import KeyValueCache
from regard.nn.multi_head import MultiHeadAttention
from regard.nn.rotary import Rotary
from regard.nn.self_attention import SelfAttention

__all__ = ["KeyValueCache", "MultiHeadAttention", "Rotary", "SelfAttention"]
