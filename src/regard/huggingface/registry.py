"""The name `regard`, known to transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from transformers import AttentionInterface, AttentionMaskInterface

from regard.huggingface.attention import regard_attention
from regard.huggingface.masks import regard_mask
from regard.huggingface.versions import as_interface

NAME = "regard"

mask_interface = as_interface(regard_mask)


def register() -> None:
    """Make `attn_implementation="regard"` a name transformers knows. Again changes nothing."""
    AttentionInterface.register(NAME, _following_kvpress(regard_attention))
    # without a mask function of the same name, padding and causality would be lost in silence
    AttentionMaskInterface.register(NAME, mask_interface)


def _following_kvpress(attention: Callable[..., Any]) -> Callable[..., Any]:
    """The attention, with keys that a press hides from single heads hidden. kvpress wraps every
    function that is registered when it is imported; one that comes later is wrapped here."""
    if not hasattr(sys.modules.get("kvpress"), "__all__"):  # its import has not ended
        return attention
    wrapped: Callable[..., Any] = sys.modules["kvpress.attention_patch"].attention_patch(attention)
    return wrapped
