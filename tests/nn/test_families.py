"""Random models of each family, saved by transformers, say the same in our stack."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

import regard
from regard.errors import DTypeError, FileError, InputError, UnavailableError
from regard.nn.families import family_of

SIZES = {
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


def theirs(case):
    family, options = CASES[case]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SIZES | options)
    kind = transformers.AutoModel if family == "bert" else transformers.AutoModelForCausalLM
    model = kind.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # norms and biases away from 1 and 0
            if p.ndim == 1:
                p += 0.3 * torch.randn(p.shape)
    return model


@pytest.mark.parametrize("case", CASES)
def test_the_same_weights_say_the_same(case, tmp_path):
    model = theirs(case)
    model.save_pretrained(tmp_path)
    ours = regard.nn.load(tmp_path).model
    text = torch.randint(0, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model(text)
        wanted = found.logits if hasattr(found, "logits") else found.last_hidden_state
        exact = model.double()(text)
        exact = exact.logits if hasattr(exact, "logits") else exact.last_hidden_state
        lost = float((wanted - exact).abs().max())
        assert float((ours(text) - exact).abs().max()) <= 4 * lost


@pytest.mark.parametrize(
    "case", ["llama, all options", "mistral", "qwen3", *(f"llama, {kind}" for kind in SCALED)]
)
def test_they_write_the_same(case, tmp_path):
    model = theirs(case)
    model.save_pretrained(tmp_path)
    ours = regard.nn.load(tmp_path).model
    text = torch.randint(3, 50, (1, 7), generator=torch.Generator().manual_seed(1))
    model.generation_config.eos_token_id = None
    wanted = model.generate(text, max_new_tokens=20, do_sample=False)
    assert torch.equal(ours.generate(text, tokens=20), wanted)


def test_a_prefixed_checkpoint_is_read_too(tmp_path):
    """BERT with a head on top calls the encoder `bert`."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("bert", **SIZES)
    model = transformers.BertForMaskedLM(config).eval()
    model.save_pretrained(tmp_path)
    text = torch.randint(0, 50, (2, 9))
    with torch.no_grad():
        wanted = model.bert(text).last_hidden_state
        torch.testing.assert_close(
            regard.nn.load(tmp_path).model(text), wanted, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "t5"}, "cannot build a 't5'; it knows llama"),
        ({"model_type": "llama", "hidden_act": "relu"}, "hidden_act='relu'"),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"model_type": "llama", "rope_scaling": {"type": "x"}}, "rope_type='x'; known are"),
        ({"model_type": "bert", "hidden_act": "tanh"}, "hidden_act='tanh'; known are"),
        ({"model_type": "bert", "is_decoder": True}, "only the encoder"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "absolute"),
        (
            {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True,
             "layer_types": ["full_attention", "sliding_attention"]},
            "some layers slide",
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(config, said):
    with pytest.raises(UnavailableError, match=said):
        family_of(config).configure(SIZES | config)


def test_a_configuration_with_holes_is_told(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(FileError, match=r"describes no llama \('vocab_size'\)"):
        regard.nn.load(tmp_path)


def test_other_mistakes(tmp_path):
    with pytest.raises(InputError, match="known names are smollm2"):
        regard.nn.load("/nowhere/at/all")
    with pytest.raises(DTypeError, match="give float32"):
        regard.nn.load("minilm", dtype=torch.int64)
    (tmp_path / "m.gguf").write_bytes(b"")
    with pytest.raises(UnavailableError, match="is no folder"):
        regard.nn.load(tmp_path / "m.gguf")
