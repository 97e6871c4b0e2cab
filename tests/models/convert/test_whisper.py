"""Whisper hears, and its tokens have OpenAI's ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from real_models import whisper
from regard.models.convert.whisper import renamed

START, SILENT, NO_SPEECH = 50257, 50362, 50361


def test_its_shape():
    config = whisper().model.config
    assert type(whisper().model).__name__ == "WhisperForConditionalGeneration"
    assert (config.encoder_layers, config.decoder_layers) == (4, 4)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (6, 6)
    assert config.vocab_size == len(whisper().tokenizer) == 51864


def test_it_hears_that_nobody_speaks():
    """One step of encoder, decoder and cross-attention, from samples to a likely word."""
    loaded = whisper()
    silence = np.zeros(16_000, np.float32)
    heard = loaded.processor(silence, sampling_rate=16_000, return_tensors="pt").input_features
    with torch.inference_mode():
        said = loaded.model(heard, decoder_input_ids=torch.tensor([[START]])).logits
    assert heard.shape == (1, 80, 3000) and said.shape == (1, 1, 51864)
    assert said[0, 0].softmax(-1)[NO_SPEECH] > 0.9


@pytest.mark.parametrize(
    ("token", "number"),
    [
        ("<|endoftext|>", 50256), ("<|startoftranscript|>", START), ("<|en|>", 50258),
        ("<|su|>", 50356), ("<|nospeech|>", NO_SPEECH), ("<|notimestamps|>", SILENT),
        ("<|0.00|>", 50363), ("<|30.00|>", 51863),
    ],
)  # fmt: skip
def test_signs_have_their_ids(token, number):
    assert whisper().tokenizer.convert_tokens_to_ids(token) == number


def test_texts_come_back_between_start_and_end():
    tokenizer = whisper().tokenizer
    ids = tokenizer("Hello world, naïve 2024!").input_ids
    assert ids[:4] == [START, SILENT, 15496, 995] and ids[-1] == 50256
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Hello world, naïve 2024!"


def test_times_are_told():
    tokenizer = whisper().tokenizer
    ids = [50363, *tokenizer(" Hi", add_special_tokens=False).input_ids, 50363 + 150]
    assert tokenizer.decode(ids, decode_with_timestamps=True) == "<|0.00|> Hi<|3.00|>"


def test_generation_knows_where_to_begin_and_what_follows_the_sound():
    settings = whisper().model.generation_config
    assert (settings.decoder_start_token_id, settings.eos_token_id) == (START, 50256)
    assert settings.no_timestamps_token_id == SILENT and not settings.is_multilingual
    assert settings.begin_suppress_tokens == [220, 50256]
    assert len(settings.alignment_heads) == 8


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("encoder.conv1.weight", "encoder.conv1.weight"),
        ("encoder.positional_embedding", "encoder.embed_positions.weight"),
        ("encoder.ln_post.bias", "encoder.layer_norm.bias"),
        ("encoder.blocks.3.attn.key.weight", "encoder.layers.3.self_attn.k_proj.weight"),
        ("encoder.blocks.3.attn_ln.bias", "encoder.layers.3.self_attn_layer_norm.bias"),
        ("decoder.token_embedding.weight", "decoder.embed_tokens.weight"),
        ("decoder.ln.weight", "decoder.layer_norm.weight"),
        ("decoder.blocks.0.cross_attn.out.bias", "decoder.layers.0.encoder_attn.out_proj.bias"),
        ("decoder.blocks.0.cross_attn_ln.bias", "decoder.layers.0.encoder_attn_layer_norm.bias"),
        ("decoder.blocks.0.mlp.2.weight", "decoder.layers.0.fc2.weight"),
        ("decoder.blocks.0.mlp_ln.weight", "decoder.layers.0.final_layer_norm.weight"),
    ],
)
def test_names(theirs, ours):
    assert renamed(theirs) == ours
