"""Models as folders: what was saved is loaded to the bit, published models say the same in our
stack, a broken save costs nothing, and what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

import regard
from nn.small import SIZES, encoder, ids, language_model, seq2seq
from real_models import minilm
from regard.errors import DTypeError, FileError, InputError, RegardError, UnavailableError
from regard.nn import (
    DynamicScaling,
    LanguageModel,
    LanguageModelConfig,
    Llama3Scaling,
    LongScaling,
    YarnScaling,
)

HALF = (1.5, 2.0)
CONFIGS = st.fixed_dictionaries(
    {
        "heads": st.sampled_from([1, 2, 4]),
        "kv_heads": st.sampled_from([None, 1]),
        "head_dim": st.sampled_from([None, 6]),
        "hidden": st.sampled_from([None, 10]),
        "feed_forward": st.sampled_from(["mlp", "swiglu"]),
        "activation": st.sampled_from(["gelu", "relu", "silu", "gelu_tanh"]),
        "norm": st.sampled_from(["rms", "layer"]),
        "norm_first": st.booleans(),
        "qk_norm": st.booleans(),
        "attention_bias": st.booleans(),
        "feed_forward_bias": st.booleans(),
        "positions": st.sampled_from(["rotary", "learned", "sinusoidal", "alibi", "none"]),
        "window": st.sampled_from([None, 1, 3]),
        "tied": st.booleans(),
        "embedding_norm": st.booleans(),
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    }
)
MADE = {
    "language model": lambda: language_model(kv_heads=2, window=5),
    "yarn": lambda: language_model(rotary_scaling=YarnScaling(4.0, 8)),
    "llama3": lambda: language_model(rotary_scaling=Llama3Scaling(4.0, 8)),
    "dynamic": lambda: language_model(rotary_scaling=DynamicScaling(4.0, 8)),
    "long": lambda: language_model(rotary_scaling=LongScaling(HALF, HALF, 8, 4.0)),
    "encoder": lambda: encoder(positions="alibi", embedding_norm=True),
    "seq2seq": lambda: seq2seq(encoder_layers=1, source_vocabulary=31),
}


def run(model: nn.Module) -> torch.Tensor:
    text = ids(2, 7)
    with torch.no_grad():
        return model(text, text) if type(model).__name__ == "Seq2Seq" else model(text)


def loaded(where: Path) -> nn.Module:
    return regard.nn.load(where, dtype=torch.float64).model


# ── there and back ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", MADE)
def test_what_was_saved_is_loaded(kind, tmp_path):
    model = MADE[kind]()
    assert regard.nn.save(model, tmp_path / "made") == tmp_path / "made"
    again = regard.nn.load(tmp_path / "made", dtype=torch.float64)
    assert type(again.model) is type(model) and again.model.config == model.config
    assert not again.model.training and again.tokenizer is None and again.name == "made"
    assert torch.equal(run(again.model), run(model))
    assert all(p.requires_grad for p in again.model.parameters())


@settings(max_examples=25, deadline=None)
@given(CONFIGS)
def test_any_configuration_comes_back(tmp_path_factory, options):
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**SIZES | options)).eval()
    again = regard.nn.load(regard.nn.save(model, tmp_path_factory.mktemp("model") / "made")).model
    assert again.config == model.config
    assert torch.equal(run(again), run(model))


def test_the_files_are_plain_and_saving_again_replaces_them(tmp_path):
    model = language_model(rotary_scaling=YarnScaling(4.0, 8))
    regard.nn.save(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["regard_model"] == "LanguageModel" and config["heads"] == 4
    assert config["rotary_scaling"]["kind"] == "YarnScaling"
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.state_dict())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert next(regard.nn.load(tmp_path).model.parameters()).dtype == torch.float32
    half = regard.nn.load(tmp_path, dtype=torch.bfloat16).model
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    second = language_model(layers=1)
    regard.nn.save(second, tmp_path)
    assert torch.equal(run(loaded(tmp_path)), run(second))


def test_several_files_are_one_model(tmp_path):
    model = language_model()
    regard.nn.save(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(tensors)
    for n, part in enumerate((names[:5], names[5:])):
        save_file({k: tensors[k] for k in part}, tmp_path / f"model-{n}-of-2.safetensors")
    assert torch.equal(run(loaded(tmp_path)), run(model))


def test_a_tokenizer_comes_along(tmp_path):
    regard.nn.save(language_model(vocabulary=30522), tmp_path, tokenizer=minilm().tokenizer)
    again = regard.nn.load(tmp_path)
    assert again.tokenizer("a cat").input_ids == minilm().tokenizer("a cat").input_ids


def test_a_broken_save_leaves_what_was_there(tmp_path, monkeypatch):
    before = language_model()
    regard.nn.save(before, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    torch.manual_seed(1)
    with pytest.raises(FileError, match="the model cannot be written"):
        regard.nn.save(LanguageModel(before.config), tmp_path)
    monkeypatch.undo()
    assert torch.equal(run(loaded(tmp_path)), run(before))


# ── folders that lie ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    regard.nn.save(language_model(), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"regard_model": "Mixer"}, "regard_model is 'Mixer'; known are"),
        ({"colour": 3}, "has colour, which LanguageModel has not"),
        ({"heads": 3}, "dim=16 is not divisible by heads=3"),
        ({"heads": 0}, r"config\.json"),
        ({"dim": "wide"}, "dim='wide'"),
        ({"window": 2.5}, r"config\.json"),
        ({"window": "3"}, r"config\.json"),
        ({"positions": "grid"}, r"config\.json"),
        ({"rotary_scaling": {"kind": "Rule"}}, "a kind is one of"),
        ({"rotary_scaling": {"kind": "YarnScaling", "factor": 2}}, "trained_tokens"),
        ({"layers": 3}, r"blocks\.2\..* is missing"),
        ({"layers": "two"}, r"config\.json"),
        ({"vocabulary": 7}, r"is \(23, 16\), not \(7, 16\)"),
        ({"vocabulary": -1}, r"config\.json"),
        ({"layers": 1}, r"blocks\.1\..* is unknown.*and \d+ more"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(folder, changes, words):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(FileError, match=words):
        regard.nn.load(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1", r"config.json cannot be read"), ("[1]", "no JSON object"), ("", "config"),
        ("3", "config"), ("null", "config"), ("\ufeff{", "config"),
        ('{"regard_model": []}', "regard_model"),
        ('{"model_type": "llama"}', r"describes no llama \('vocab_size'\)"),
    ],
)  # fmt: skip
def test_a_configuration_that_is_none(folder, text, words):
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(RegardError, match=words):
        regard.nn.load(folder)


def test_damaged_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FileError, match="cannot be read"):
        regard.nn.load(folder)
    path.unlink()
    with pytest.raises(FileError, match=r"no .safetensors file"):
        regard.nn.load(folder)


def test_what_is_no_model(tmp_path):
    with pytest.raises(InputError, match="cannot save a Linear; give one of Encoder"):
        regard.nn.save(nn.Linear(2, 2), tmp_path)
    with pytest.raises(InputError, match="known names are smollm2"):
        regard.nn.load("/nowhere/at/all")
    with pytest.raises(DTypeError, match="give float32"):
        regard.nn.load("minilm", dtype=torch.int64)
    (tmp_path / "m.gguf").write_bytes(b"")
    with pytest.raises(UnavailableError, match="is no folder"):
        regard.nn.load(tmp_path / "m.gguf")


# ── published models ─────────────────────────────────────────────────────────────────────────

PUBLISHED = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
SCALED = {  # texts of 20 tokens are longer than these were trained on
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16},
    "longrope": {"short_factor": [1.0, 1.1, 1.2, 1.5], "long_factor": [1.0, 2.0, 3.0, 4.0],
                 "original_max_position_embeddings": 16},
}  # fmt: skip
CASES = {
    **{
        f"llama, {kind}": ("llama", {
            "rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **rope},
            **({"max_position_embeddings": 16} if kind == "dynamic" else {}),
        })
        for kind, rope in SCALED.items()
    },
    "llama": ("llama", {}),
    "llama, all options": ("llama", {
        "num_key_value_heads": 2, "head_dim": 16, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True, "rms_norm_eps": 1e-3,
    }),
    "llama, far": ("llama", {"rope_parameters": YARN, "num_key_value_heads": 1}),
    "mistral": ("mistral", {"sliding_window": 5, "num_key_value_heads": 2}),
    "mistral, no window": ("mistral", {"sliding_window": None, "num_key_value_heads": 4}),
    "qwen2": ("qwen2", {"num_key_value_heads": 2}),
    "qwen3": ("qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
    "bert": ("bert", {}),
    "bert, tanh": ("bert", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}),
}  # fmt: skip


def theirs(case: str) -> Any:
    family, options = CASES[case]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **PUBLISHED | options)
    kind = transformers.AutoModelForMaskedLM if family == "bert" else (
        transformers.AutoModelForCausalLM
    )  # fmt: skip
    model = kind.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # norms and biases away from 1 and 0
            if p.ndim == 1:
                p += 0.3 * torch.randn(p.shape)
    return model


@pytest.mark.parametrize("case", CASES)
def test_a_published_model_says_and_writes_the_same(case, tmp_path):
    """BERT with a head on top calls the encoder `bert`: prefixed checkpoints are read too."""
    model = theirs(case)
    model.save_pretrained(tmp_path)
    ours = regard.nn.load(tmp_path).model
    text = torch.randint(3, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    if not case.startswith("bert"):
        model.generation_config.eos_token_id = None
        wanted = model.generate(text[:1, :7], max_new_tokens=14, do_sample=False)
        assert torch.equal(ours.generate(text[:1, :7], tokens=14), wanted)
    with torch.no_grad():
        wanted, exact = _numbers(model, text), _numbers(model.double(), text)
        lost = float((wanted - exact).abs().max())
        assert float((ours(text) - exact).abs().max()) <= 4 * lost


def _numbers(model: Any, text: torch.Tensor) -> torch.Tensor:
    """Logits, of BERT its hidden states."""
    is_bert = hasattr(model, "bert")
    return model.bert(text).last_hidden_state if is_bert else model(text).logits


SLIDING, FULL = "sliding_attention", "full_attention"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "t5"}, "cannot build a 't5'; it knows llama"),
        ({"hidden_act": "relu"}, "hidden_act='relu'"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_scaling": {"type": "x"}}, "rope_type='x'; known are"),
        ({"model_type": "bert", "hidden_act": "tanh"}, "hidden_act='tanh'; known are"),
        ({"model_type": "bert", "is_decoder": True}, "only the encoder"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "absolute"),
        ({"sliding_window": 7, "layer_types": [FULL, SLIDING]}, "some layers slide"),
        ({"sliding_window": 7, "max_window_layers": 2}, "some layers slide"),
    ],
)
def test_what_is_not_known_of_a_published_model_is_refused(config, words, tmp_path):
    _published(tmp_path, config)
    with pytest.raises(UnavailableError, match=words):
        regard.nn.load(tmp_path)


@pytest.mark.parametrize(
    ("facts", "window"),
    [
        ({}, None),
        ({"sliding_window": 7}, 7),
        ({"sliding_window": 7, "use_sliding_window": False}, None),
        ({"sliding_window": 7, "layer_types": [FULL] * 2}, None),
        ({"sliding_window": 7, "layer_types": [SLIDING] * 2}, 7),
    ],
)
def test_windows_slide_in_all_layers_or_in_none(facts, window, tmp_path):
    theirs("llama").save_pretrained(tmp_path)
    _published(tmp_path, facts)
    assert regard.nn.load(tmp_path).model.config.window == window


def _published(folder: Path, facts: dict[str, Any]) -> None:
    config = PUBLISHED | {"model_type": "llama"} | facts
    (folder / "config.json").write_text(json.dumps(config))
