"""The name `regard`, known to transformers."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from regard.huggingface.attention import regard_attention
from regard.huggingface.masks import regard_mask
from regard.huggingface.versions import as_interface

NAME = "regard"

mask_interface = as_interface(regard_mask)


def register() -> None:
    """Make `attn_implementation="regard"` a name transformers knows. Again changes nothing."""
    AttentionInterface.register(NAME, regard_attention)
    # without a mask function of the same name, padding and causality would be lost in silence
    AttentionMaskInterface.register(NAME, mask_interface)
