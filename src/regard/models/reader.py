"""What turns text, sound or pictures into a model's tensors: tokenizer, processor, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.models.convert.smollm2 import split_digits
from regard.models.extra import require
from regard.models.source import Source

# Each folder with a tokenizer has one of the first, each with a processor one of the second.
_WORDS = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json",
    "vocab.txt",
)  # fmt: skip
_SIGNALS = ("processor_config.json", "preprocessor_config.json")
_FILMS = ("video_preprocessor_config.json",)


def read_reader(source: Source) -> Any:
    """The processor, or the tokenizer where that is all; None where a folder has neither.

    A folder's files decide: transformers makes up an empty tokenizer for a model of speech that
    comes without one.
    """
    if "gguf_file" in source.options:
        return _from_gguf(source)
    kind = _kind(source) if source.is_folder else "AutoProcessor"
    if kind is None:
        return None
    import transformers

    return getattr(transformers, kind).from_pretrained(source.where, **source.options)


def _kind(source: Source) -> str | None:
    """The class of transformers that reads what lies in the folder."""
    words, signals = _first(source, _WORDS), _first(source, _SIGNALS)
    if signals is None:
        films = _first(source, _FILMS)
        return "AutoTokenizer" if words else "AutoVideoProcessor" if films else None
    if words is not None:
        return "AutoProcessor"
    is_for_pictures = "image_mean" in signals.read_text(encoding="utf-8")
    return "AutoImageProcessor" if is_for_pictures else "AutoFeatureExtractor"


def _first(source: Source, names: tuple[str, ...]) -> Path | None:
    paths = (Path(source.where, name) for name in names)
    return next((path for path in paths if path.is_file()), None)


def _from_gguf(source: Source) -> Any:
    require("reading a GGUF file", "gguf", "accelerate")
    from gguf import GGUFReader
    from transformers import PreTrainedTokenizerFast

    # by name: up to transformers 5.5 AutoTokenizer takes every GGUF of a Llama for Code Llama's,
    # and adds its special tokens
    tokenizer = PreTrainedTokenizerFast.from_pretrained(source.where, **source.options)
    file = GGUFReader(Path(source.where, source.options["gguf_file"]))
    steps = file.get_field("tokenizer.ggml.pre")
    if steps is not None and steps.contents() == "smollm":
        split_digits(tokenizer)
    return tokenizer
