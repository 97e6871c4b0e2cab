"""SmolLM2 from its GGUF: weights in half precision, and a tokenizer that splits digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(parts: Path, made: Path) -> None:
    """Weights of 4 bits become float16, which keeps more of them than bfloat16 would."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(parts, gguf_file=_GGUF)
    quantized = AutoModelForCausalLM.from_pretrained(parts, gguf_file=_GGUF)
    model = _plain(quantized)
    model.half().save_pretrained(made)
    split_digits(tokenizer)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(made)


def _plain(quantized: Any) -> Any:
    """The same weights in a model that remembers no GGUF: one that does refuses to be saved."""
    config = quantized.config.to_dict()
    for origin in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(origin, None)
    model = type(quantized)(type(quantized.config).from_dict(config))
    model.load_state_dict(quantized.state_dict())
    return model


def split_digits(tokenizer: Any) -> None:
    """What GGUF calls the `smollm` pre-tokenizer, and transformers leaves out when reading one:
    each digit stands alone before words are split, so two spaces before a number stay together."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    steps = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(steps)
