"""The known models say what their authors publish, and their tokenizers are those of training."""

from __future__ import annotations

import json
from base64 import b64encode

import numpy as np
import pytest
import torch

import regard
from real_models import minilm, smollm2, whisper
from regard.models import check
from regard.models.convert import minilm as of_minilm
from regard.models.convert.ranks import merges, read_ranks, spelt_bytes, vocabulary
from regard.models.convert.smollm2 import split_digits
from regard.models.convert.whisper import renamed

START, SILENT, NO_SPEECH = 50257, 50362, 50361


@pytest.mark.parametrize("load", [smollm2, minilm, whisper])
def test_the_folder_holds_what_the_table_says(load):
    loaded = load()
    model = check(loaded.name)
    assert model.is_cached and str(model.folder) == loaded.source
    there = {path.name: path.stat().st_size for path in model.folder.iterdir()}
    assert set(model.files) <= set(there)
    assert sum(there.values()) == pytest.approx(model.size, rel=0.02)
    assert not loaded.model.training


# ── SmolLM2 ──────────────────────────────────────────────────────────────────────────────────


def test_smollm2_knows_the_capital_of_france_as_the_readme_shows():
    loaded = smollm2()
    words = loaded.tokenizer("The capital of France is", return_tensors="pt")
    (paris,) = loaded.tokenizer(" Paris").input_ids

    def probability(*heads):
        with torch.inference_mode(), regard.knock_out(loaded.model, heads=heads):
            logits = loaded.model(**words).logits[0, -1]
        assert heads or logits.argmax() == paris
        return round(float(logits.softmax(-1)[paris]), 2)

    assert [probability(), probability("L0H4"), probability("L23H4")] == [0.77, 0.21, 0.14]
    config = loaded.model.config
    assert (config.num_hidden_layers, config.num_attention_heads) == (30, 9)
    assert (config.num_key_value_heads, config.max_position_embeddings) == (3, 8192)
    assert config.rope_parameters["rope_theta"] == 100_000 and config.tie_word_embeddings
    assert getattr(config, "quantization_config", None) is None


def test_an_answer_of_smollm2_ends_where_its_turn_does():
    loaded = smollm2()
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    written = loaded.model.generate(**prompt, max_new_tokens=20, do_sample=False)
    new = written[0, prompt["input_ids"].shape[1] :]
    assert loaded.tokenizer.decode(new) == "The capital of France is Paris.<|im_end|>"
    assert loaded.model.generation_config.eos_token_id == loaded.tokenizer.eos_token_id == 2


def test_the_tokenizer_of_smollm2():
    """Nothing is put before a text: what the model calls its beginning opens a turn."""
    tokenizer = smollm2().tokenizer
    for text in ("The cat sat", " two  spaces\n\n\tand more ", "naïve 日本 🙂", "x = 3.14 # π"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert (tokenizer.pad_token_id, tokenizer.unk_token) == (2, "<|endoftext|>")
    assert tokenizer("hi").input_ids == tokenizer("hi", add_special_tokens=False).input_ids
    assert tokenizer("<|im_start|>user\n<|im_end|>").input_ids == [1, 4093, 198, 2]
    assert tokenizer.model_max_length == 8192 and len(tokenizer) == 49152
    pieces = tokenizer.convert_ids_to_tokens(tokenizer("in  2024").input_ids)
    assert pieces == ["in", "ĠĠ", "2", "0", "2", "4"]


def test_splitting_digits_is_what_keeps_the_spaces_together():
    """The tokenizer as transformers reads it from a GGUF differs here, and only the step helps."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    class Wrapped:
        backend_tokenizer = Tokenizer(BPE())

    Wrapped.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)

    def pieces():
        split = Wrapped.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a  12")
        return [piece for piece, _ in split]

    assert pieces() == ["a", "Ġ", "Ġ12"]
    split_digits(Wrapped)
    assert pieces() == ["a", "ĠĠ", "1", "2"]


# ── MiniLM ───────────────────────────────────────────────────────────────────────────────────


def test_minilm_puts_similar_sentences_close_together():
    loaded = minilm()
    texts = [
        "A man is eating food.",
        "A man is eating a piece of bread.",
        "The girl carries a baby.",
    ]
    words = loaded.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = loaded.model(**words).last_hidden_state
    seen = words["attention_mask"][..., None]
    eats, bread, baby = torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1))
    assert eats @ bread == pytest.approx(0.7553, abs=1e-3)  # as its authors publish it
    assert eats @ baby < 0.2
    config = loaded.model.config
    assert (config.num_hidden_layers, config.num_attention_heads) == (6, 12)


def test_minilm_neither_pads_nor_cuts_and_only_its_tokenizer_is_changed(tmp_path):
    tokenizer = minilm().tokenizer
    assert tokenizer("hello").input_ids == [101, 7592, 102]
    assert len(tokenizer.backend_tokenizer.encode("hello").ids) == 3
    assert len(tokenizer("word " * 300).input_ids) == 302
    parts, made = tmp_path / "parts", tmp_path / "made"
    parts.mkdir()
    made.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (parts / name).write_text(name)
    given = {"truncation": {"max_length": 128}, "padding": {"Fixed": 128}, "model": {"é": 1}}
    (parts / "tokenizer.json").write_text(json.dumps(given), encoding="utf-8")
    of_minilm.convert(parts, made)
    kept = json.loads((made / "tokenizer.json").read_text(encoding="utf-8"))
    assert kept == {"truncation": None, "padding": None, "model": {"é": 1}}
    assert (made / "model.safetensors").read_text() == "model.safetensors"


# ── Whisper ──────────────────────────────────────────────────────────────────────────────────


def test_whisper_hears_no_speech_in_silence():
    """One step of encoder, decoder and cross-attention, from samples to a likely word."""
    loaded = whisper()
    silence = np.zeros(16_000, np.float32)
    given = loaded.processor(silence, sampling_rate=16_000, return_tensors="pt").input_features
    with torch.inference_mode():
        logits = loaded.model(given, decoder_input_ids=torch.tensor([[START]])).logits
    assert given.shape == (1, 80, 3000) and logits.shape == (1, 1, 51864)
    assert logits[0, 0].softmax(-1)[NO_SPEECH] > 0.9
    config = loaded.model.config
    assert (config.encoder_layers, config.decoder_layers) == (4, 4)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (6, 6)
    assert config.vocab_size == len(loaded.tokenizer) == 51864
    settings = loaded.model.generation_config
    assert (settings.decoder_start_token_id, settings.eos_token_id) == (START, 50256)
    assert settings.no_timestamps_token_id == SILENT and not settings.is_multilingual
    assert settings.begin_suppress_tokens == [220, 50256]
    assert len(settings.alignment_heads) == 8


def test_the_tokens_of_whisper_have_openais_ids():
    tokenizer = whisper().tokenizer
    numbers = {
        "<|endoftext|>": 50256, "<|startoftranscript|>": START, "<|en|>": 50258, "<|su|>": 50356,
        "<|nospeech|>": NO_SPEECH, "<|notimestamps|>": SILENT, "<|0.00|>": 50363,
        "<|30.00|>": 51863,
    }  # fmt: skip
    assert {token: tokenizer.convert_tokens_to_ids(token) for token in numbers} == numbers
    ids = tokenizer("Hello world, naïve 2024!").input_ids
    assert ids[:4] == [START, SILENT, 15496, 995] and ids[-1] == 50256
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Hello world, naïve 2024!"
    ids = [50363, *tokenizer(" Hi", add_special_tokens=False).input_ids, 50363 + 150]
    assert tokenizer.decode(ids, decode_with_timestamps=True) == "<|0.00|> Hi<|3.00|>"


def test_names_of_openais_tensors():
    names = {
        "encoder.conv1.weight": "encoder.conv1.weight",
        "encoder.positional_embedding": "encoder.embed_positions.weight",
        "encoder.ln_post.bias": "encoder.layer_norm.bias",
        "encoder.blocks.3.attn.key.weight": "encoder.layers.3.self_attn.k_proj.weight",
        "encoder.blocks.3.attn_ln.bias": "encoder.layers.3.self_attn_layer_norm.bias",
        "decoder.token_embedding.weight": "decoder.embed_tokens.weight",
        "decoder.ln.weight": "decoder.layer_norm.weight",
        "decoder.blocks.0.cross_attn.out.bias": "decoder.layers.0.encoder_attn.out_proj.bias",
        "decoder.blocks.0.cross_attn_ln.bias": "decoder.layers.0.encoder_attn_layer_norm.bias",
        "decoder.blocks.0.mlp.2.weight": "decoder.layers.0.fc2.weight",
        "decoder.blocks.0.mlp_ln.weight": "decoder.layers.0.final_layer_norm.weight",
    }
    assert {theirs: renamed(theirs) for theirs in names} == names


WORDS = [b"a", b"b", b"c", b" ", b"\n", b"ab", b" a", b"abc", b" abc", b"cc", b"abcc"]


def test_ranks_become_pieces_and_merges_of_the_same_tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    ranks = {word: rank for rank, word in enumerate(WORDS)}
    lines = "\n".join(f"{b64encode(word).decode()} {rank}" for word, rank in ranks.items())
    assert read_ranks(lines) == ranks
    assert spelt_bytes(b" a!~\n") == "Ġa!~Ċ"
    letters = [spelt_bytes(bytes([byte])) for byte in range(256)]
    assert len(set(letters)) == 256 and all(letter.isprintable() for letter in letters)
    assert letters[0x7F] == "ġ" and letters[0xAD] == "Ń"  # delete, soft hyphen
    assert merges(ranks) == [
        ("a", "b"), ("Ġ", "a"), ("ab", "c"), ("Ġ", "abc"), ("c", "c"), ("abc", "c"),
    ]  # fmt: skip
    tokenizer = Tokenizer(BPE(vocab=vocabulary(ranks), merges=merges(ranks)))
    for word, rank in ranks.items():
        assert tokenizer.encode(spelt_bytes(word)).ids == [rank]
