"""Small models of every kind, from folders; wrong ones end in one line."""

from __future__ import annotations

import json
import os
import shutil
import socket

import pytest
import torch
import transformers

from real_models import minilm
from regard.errors import (
    DeviceError,
    DTypeError,
    FileError,
    InputError,
    MissingExtraError,
    UnavailableError,
)
from regard.models import load

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20}
SPEECH = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 20}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}


def _small(kind: str) -> transformers.PreTrainedModel:
    made = {
        "GPT2LMHeadModel": {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 20},
        "LlamaForCausalLM": SMALL | {"intermediate_size": 8},
        "BertForMaskedLM": SMALL | {"intermediate_size": 8},
        "BertModel": SMALL | {"intermediate_size": 8},
        "T5ForConditionalGeneration": {"d_model": 8, "num_layers": 1, "num_heads": 2, "d_kv": 4},
        "WhisperForConditionalGeneration": SPEECH | HEADS | {"num_mel_bins": 4},
        "ViTForImageClassification": SMALL | {"image_size": 8, "patch_size": 4},
    }[kind]
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    model = getattr(transformers, kind)
    return model(model.config_class(**made, **ends))


@pytest.fixture
def saved(tmp_path):
    """Save a small model; its folder comes back."""

    def save(kind: str) -> str:
        _small(kind).half().save_pretrained(tmp_path / "small")
        return str(tmp_path / "small")

    return save


@pytest.fixture
def broken(tmp_path):
    """A copy of MiniLM to break."""
    return shutil.copytree(minilm().source, tmp_path / "broken")


def _set(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "kind",
    [
        "GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "BertModel",
        "T5ForConditionalGeneration", "WhisperForConditionalGeneration",
        "ViTForImageClassification",
    ],
)  # fmt: skip
def test_the_class_is_the_one_that_was_saved(saved, kind):
    loaded = load(saved(kind))
    assert type(loaded.model).__name__ == kind and not loaded.model.training
    assert (loaded.tokenizer, loaded.processor, loaded.name) == (None, None, "small")
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


def test_numbers_and_attention_are_as_asked(saved):
    folder = saved("LlamaForCausalLM")
    for asked in (torch.float64, "float64"):
        assert load(folder, dtype=asked).model.dtype == torch.float64
    assert load(folder, attn_implementation="eager").model.config._attn_implementation == "eager"
    assert load(folder, device="meta").model.dtype == torch.float16  # as stored
    assert load(folder, device="cpu").model.dtype == torch.float32


def test_a_processor_without_a_tokenizer(saved):
    folder = saved("WhisperForConditionalGeneration")
    transformers.WhisperFeatureExtractor(feature_size=4).save_pretrained(folder)
    loaded = load(folder)
    assert loaded.tokenizer is None
    assert isinstance(loaded.processor, transformers.WhisperFeatureExtractor)


def test_a_known_model_needs_no_network(monkeypatch):
    source = minilm().source  # fetched by now

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    loaded = load("minilm")
    assert (loaded.name, loaded.source) == ("minilm", source)
    assert loaded.tokenizer.tokenize("attention") == ["attention"]


def test_a_folder_without_a_named_class_is_loaded_without_its_head(broken):
    _set(broken, architectures=None)
    assert type(load(broken).model).__name__ == "BertModel"


def test_a_gguf_file(tmp_path):
    path = tmp_path / "tiny.gguf"
    _write_gguf(path)
    loaded = load(path)
    assert (type(loaded.model).__name__, loaded.name) == ("LlamaForCausalLM", "tiny")
    assert loaded.tokenizer.convert_ids_to_tokens(loaded.tokenizer("a12").input_ids) == ["a", *"12"]
    assert "Digits" in str(loaded.tokenizer.backend_tokenizer.pre_tokenizer)
    assert loaded.model(torch.tensor([[3, 4]])).logits.shape == (1, 2, 8)


def _write_gguf(path):
    """A Llama of one layer, with the tokenizer of SmolLM2 cut down to eight tokens."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(16)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["<|end|>", "<|start|>", "ba", "a", "b", "1", "2", "ab"])
    writer.add_token_types([3, 3, 1, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b", "b a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for name in ("token_embd", *(f"blk.0.{part}" for part in square)):
        writer.add_tensor(f"{name}.weight", np.eye(8, dtype=np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _cut(folder):
    os.truncate(folder / "model.safetensors", 1000)


def _lose_weights(folder):
    (folder / "model.safetensors").unlink()


def _spoil_json(folder):
    (folder / "config.json").write_text("{")


def _spoil_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (_cut, FileError),
        (_lose_weights, FileError),
        (_spoil_json, FileError),
        (_spoil_tokenizer, FileError),
        (lambda folder: _set(folder, model_type="nope"), FileError),
        (lambda folder: _set(folder, hidden_size="wide"), FileError),
        (lambda folder: _set(folder, intermediate_size=7), FileError),
        (lambda folder: _set(folder, architectures=["NoModel"]), UnavailableError),
    ],
)
def test_broken_folders_end_in_one_line(broken, damage, error):
    damage(broken)
    with pytest.raises(error) as caught:
        load(broken)
    assert "broken" in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_no_gguf(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(FileError, match="GGUF"):
        load(tmp_path / "a.gguf")


def test_an_unknown_name_that_no_hub_answers_for(monkeypatch):
    import huggingface_hub

    def model_info(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    with pytest.raises(InputError, match=r"no model called 'regard/none': .*\(.*: no network\)"):
        load("regard/none")


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"dtype": "int8"}, DTypeError, "dtype='int8': give float32"),
        ({"dtype": "nonsense"}, DTypeError, "dtype='nonsense'"),
        ({"dtype": torch.int8}, DTypeError, "dtype=torch.int8"),
        ({"device": "moon"}, DeviceError, "device='moon': "),
        ({"attn_implementation": "nonsense"}, InputError, 'attn_implementation="nonsense"'),
    ],
)
def test_requests_that_mean_nothing(asked, error, says):
    minilm()
    with pytest.raises(error, match=says):
        load("minilm", **asked)


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("regard.models.extra.find_spec", lambda name: name == "torch" or None)
    with pytest.raises(MissingExtraError, match=r"'transformers'.*'regard\[huggingface\]'"):
        load("minilm")
