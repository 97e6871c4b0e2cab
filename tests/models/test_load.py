"""`load`: known names, folders, files and what a hub has; wrong ones end in one line."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.utils import logging

from real_models import minilm, whisper
from regard.errors import (
    DeviceError,
    DTypeError,
    FileError,
    InputError,
    MissingExtraError,
    UnavailableError,
)
from regard.models import load
from regard.models.source import find_source

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20}
SPEECH = {
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 20, "num_mel_bins": 4,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
CLASSES: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 20},
    "LlamaForCausalLM": SIZES | {"intermediate_size": 8},
    "BertForMaskedLM": SIZES | {"intermediate_size": 8},
    "BertModel": SIZES | {"intermediate_size": 8},
    "T5ForConditionalGeneration": {"d_model": 8, "num_layers": 1, "num_heads": 2, "d_kv": 4},
    "WhisperForConditionalGeneration": SPEECH,
    "ViTForImageClassification": SIZES | {"image_size": 8, "patch_size": 4},
}


@pytest.fixture
def saved(tmp_path):
    """Save a small model; its folder comes back."""

    def save(kind: str) -> str:
        model = getattr(transformers, kind)
        ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
        config = model.config_class(**CLASSES[kind], **ends)
        model(config).half().save_pretrained(tmp_path / "small")
        return str(tmp_path / "small")

    return save


# ── loaded ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", CLASSES)
def test_the_class_is_the_one_that_was_saved(saved, kind):
    loaded = load(saved(kind))
    assert type(loaded.model).__name__ == kind and not loaded.model.training
    assert (loaded.tokenizer, loaded.processor, loaded.name) == (None, None, "small")
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("shown", [True, False])
def test_numbers_and_attention_are_as_requested_and_bars_as_before(saved, shown):
    folder = saved("LlamaForCausalLM")
    (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
    try:
        for dtype in (torch.float64, "float64"):
            assert load(folder, dtype=dtype).model.dtype == torch.float64
        eager = load(folder, attn_implementation="eager").model
        assert eager.config._attn_implementation == "eager"
        assert load(folder, device="meta").model.dtype == torch.float16  # as stored
        assert load(folder, device="cpu").model.dtype == torch.float32
        with pytest.raises(InputError):
            load(folder, attn_implementation="nonsense")
        assert logging.is_progress_bar_enabled() is shown
    finally:
        logging.enable_progress_bar()


@pytest.mark.parametrize(
    ("kind", "reader", "options"),
    [
        ("WhisperForConditionalGeneration", "WhisperFeatureExtractor", {"feature_size": 4}),
        ("ViTForImageClassification", "ViTImageProcessorPil", {}),
    ],
)
def test_a_processor_without_a_tokenizer(saved, kind, reader, options):
    """Left to itself, transformers gives a folder of speech a tokenizer of one token."""
    folder = saved(kind)
    getattr(transformers, reader)(**options).save_pretrained(folder)
    loaded = load(folder)
    assert loaded.tokenizer is None and type(loaded.processor).__name__ == reader


def test_a_known_model_needs_no_network(monkeypatch):
    source = minilm().source  # fetched by now

    def refuse(*_):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    loaded = load("minilm")
    assert (loaded.name, loaded.source, loaded.processor) == ("minilm", source, None)
    assert loaded.tokenizer.tokenize("attention") == ["attention"]
    assert whisper().processor.tokenizer is whisper().tokenizer
    assert whisper().processor.feature_extractor.sampling_rate == 16_000


def test_a_gguf_file(tmp_path):
    path = tmp_path / "tiny.gguf"
    _write_gguf(path)
    loaded = load(path)
    assert (type(loaded.model).__name__, loaded.name) == ("LlamaForCausalLM", "tiny")
    assert loaded.tokenizer.convert_ids_to_tokens(loaded.tokenizer("a12").input_ids) == ["a", *"12"]
    assert "Digits" in str(loaded.tokenizer.backend_tokenizer.pre_tokenizer)
    assert loaded.model(torch.tensor([[3, 4]])).logits.shape == (1, 2, 8)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(FileError, match="GGUF"):
        load(path)


def _write_gguf(path: Path) -> None:
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


# ── broken folders, requests that mean nothing ───────────────────────────────────────────────


def _set(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def broken(tmp_path):
    """A copy of MiniLM to break."""
    return shutil.copytree(minilm().source, tmp_path / "broken")


def test_a_folder_without_a_named_class_is_loaded_without_its_head(broken):
    _set(broken, architectures=None)
    assert type(load(broken).model).__name__ == "BertModel"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda folder: os.truncate(folder / "model.safetensors", 1000), FileError),
        (lambda folder: (folder / "model.safetensors").unlink(), FileError),
        (lambda folder: (folder / "config.json").write_text("{"), FileError),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), FileError),
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


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dtype": "int8"}, DTypeError, "dtype='int8': give float32"),
        ({"dtype": "nonsense"}, DTypeError, "dtype='nonsense'"),
        ({"dtype": torch.int8}, DTypeError, "dtype=torch.int8"),
        ({"device": "moon"}, DeviceError, "device='moon': "),
        ({"attn_implementation": "nonsense"}, InputError, 'attn_implementation="nonsense"'),
    ],
)
def test_requests_that_mean_nothing(options, error, words):
    with pytest.raises(error, match=words):
        load("minilm", **options)


@pytest.mark.parametrize(
    ("missing", "extra"), [("transformers", "huggingface"), ("torch", "torch")]
)
def test_a_missing_package_names_its_extra(monkeypatch, missing, extra):
    monkeypatch.setattr("regard.models.extra.find_spec", lambda name: name != missing or None)
    with pytest.raises(MissingExtraError, match=rf"'{missing}'.*'regard\[{extra}\]'"):
        load("minilm")


# ── what a name stands for ───────────────────────────────────────────────────────────────────


@pytest.fixture
def hub(monkeypatch):
    """What a hub answers from now on; the names that were requested come back."""
    import huggingface_hub

    names = []

    def answer(error: Exception | None) -> list[str]:
        class Api:
            def model_info(self, name, timeout):
                names.append(name)
                if error:
                    raise error

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        return names

    return answer


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder that could hold a model, below the current one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine"


def test_a_known_name_is_the_cached_folder(toy, here):
    (here.parent / "toy").mkdir()  # a folder of this name is ./toy
    source = find_source("toy")
    assert (source.name, source.where, source.is_folder) == ("toy", str(toy.place), True)
    assert source.options == {"local_files_only": True}


def test_a_folder_or_a_file(here):
    for given in ("mine", "./mine", "mine/"):
        source = find_source(given)
        assert source.name == "mine" and source.is_folder
        assert Path(source.where).resolve() == here.resolve()
    (here / "a.gguf").touch()
    source = find_source("mine/a.gguf")
    assert (source.name, source.where, source.is_folder) == ("a", "mine", False)
    assert source.options["gguf_file"] == "a.gguf"
    with pytest.raises(FileError, match=r"config\.json: not a model; give a folder"):
        find_source("mine/config.json")
    (here / "config.json").unlink()
    with pytest.raises(FileError, match=r"mine: no config.json; a folder with a model holds"):
        find_source("mine")


def test_what_a_hub_has(hub):
    from huggingface_hub.errors import HTTPError

    names = hub(None)
    source = find_source("some/model")
    assert (source.where, source.options, source.remark) == ("some/model", {}, "")
    assert names == ["some/model"] and not source.is_folder
    for error in (HTTPError("no network"), OSError("no network")):
        hub(error)  # only what was downloaded before counts
        source = find_source("some/model")
        assert source.options == {"local_files_only": True} and source.remark == "no network"
        with pytest.raises(InputError, match=r"no model called 'some/model': .*: no network\)"):
            load("some/model")


@pytest.mark.parametrize("given", ["./none", "/none/none", "a/b/c", "~/none/none", "two words"])
def test_what_can_only_be_a_path_is_not_sought_on_a_hub(hub, given):
    names = hub(None) if " " not in given else []  # the real one refuses it unasked
    with pytest.raises(InputError) as caught:
        find_source(given)
    known = "known names are smollm2, minilm, whisper-tiny.en, or give a folder"
    assert str(caught.value) == f"no model called {given!r}: {known}" and names == []


@pytest.mark.parametrize("given", ["~nobody-of-this-name/x", "x" * 5000])
def test_what_the_system_cannot_look_up(given):
    with pytest.raises(FileError, match="cannot be read"):
        load(given)
