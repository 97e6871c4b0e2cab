"""Whisper tiny.en from OpenAI's checkpoint and OpenAI's vocabulary."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from regard.models.convert.ranks import merges, read_ranks, vocabulary

# OpenAI's names → transformers', piece by piece, in this order.
_NAMES = (
    (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.ln(_post)?\.", ".layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn\.", ".self_attn."),
    (r"\.(q|k|v)(uery|ey|alue)\.", r".\1_proj."),
    (r"\.out\.", ".out_proj."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
)
_TASKS = "translate transcribe startoflm startofprev nospeech notimestamps".split()
_LANGUAGES = 99  # places that the English vocabulary keeps for them
_TIMES = 1501  # 0.00 to 30.00 seconds
# Heads of the decoder whose cross-attention follows the sound; OpenAI publishes them per model.
_ALIGNMENT = [[1, 0], [2, 0], [2, 5], [3, 0], [3, 1], [3, 2], [3, 3], [3, 4]]


def convert(parts: Path, made: Path) -> None:
    """Weights stay float16, as published."""
    import torch
    from transformers import WhisperFeatureExtractor, WhisperProcessor

    checkpoint = torch.load(parts / "tiny.en.pt", map_location="cpu", weights_only=True)
    tokenizer = _tokenizer(parts / "gpt2.tiktoken")
    model = _model(checkpoint["dims"], checkpoint["model_state_dict"])
    tokenizer.model_max_length = model.config.max_target_positions
    model.generation_config = _generation(tokenizer)
    model.save_pretrained(made)
    WhisperProcessor(WhisperFeatureExtractor(), tokenizer).save_pretrained(made)


def _model(dims: dict[str, int], state: dict[str, Any]) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=dims["n_vocab"],
        num_mel_bins=dims["n_mels"],
        d_model=dims["n_audio_state"],
        max_source_positions=dims["n_audio_ctx"],
        max_target_positions=dims["n_text_ctx"],
        encoder_layers=dims["n_audio_layer"],
        encoder_attention_heads=dims["n_audio_head"],
        decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"],
    )
    model = WhisperForConditionalGeneration(config).half()
    model.model.load_state_dict({renamed(name): tensor for name, tensor in state.items()})
    model.tie_weights()
    return model


def renamed(name: str) -> str:
    """decoder.blocks.0.cross_attn.query.weight → decoder.layers.0.encoder_attn.q_proj.weight"""
    for old, new in _NAMES:
        name = re.sub(old, new, name)
    return name


def _tokenizer(path: Path) -> Any:
    """GPT-2's vocabulary, then Whisper's own signs in the order of their ids."""
    from transformers import AddedToken, WhisperTokenizer
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    ranks = read_ranks(path.read_text(encoding="ascii"))
    tokenizer = WhisperTokenizer(vocab=vocabulary(ranks), merges=merges(ranks))
    signs = ["startoftranscript", *list(LANGUAGES)[:_LANGUAGES], *_TASKS]
    times = (f"{0.02 * step:.2f}" for step in range(_TIMES))
    tokenizer.add_special_tokens({"extra_special_tokens": [f"<|{sign}|>" for sign in signs]})
    tokenizer.add_tokens([AddedToken(f"<|{time}|>", normalized=False) for time in times])
    tokenizer.set_prefix_tokens()  # which now have ids
    return tokenizer


def _generation(tokenizer: Any) -> Any:
    from transformers import GenerationConfig
    from transformers.models.whisper.configuration_whisper import NON_SPEECH_TOKENS

    end, start, before, silent = tokenizer.convert_tokens_to_ids(
        ["<|endoftext|>", "<|startoftranscript|>", "<|startofprev|>", "<|notimestamps|>"]
    )
    return GenerationConfig(
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        decoder_start_token_id=start,
        prev_sot_token_id=before,
        no_timestamps_token_id=silent,
        begin_suppress_tokens=[*tokenizer.encode(" ", add_special_tokens=False), end],
        suppress_tokens=NON_SPEECH_TOKENS,
        alignment_heads=_ALIGNMENT,
        is_multilingual=False,
        max_initial_timestamp_index=50,
        max_length=448,
    )
