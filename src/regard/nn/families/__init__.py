"""Published models as stacks of ours: what their configuration and their tensors are called.

llama   RMSNorm, SwiGLU, rotary, grouped heads: Llama, SmolLM2, Mistral, Qwen
bert    post-norm LayerNorm, learned positions, GELU: BERT, MiniLM
rope    the ways in which rotary scaling is written down
table   a family as a value, and which one a configuration is of
"""

from __future__ import annotations

from regard.nn.families.table import Family, family_of

__all__ = ["Family", "family_of"]
