"""What was saved is loaded: the same model, to the bit."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import regard
from nn.small import encoder, ids, language_model, seq2seq
from regard.errors import FileError, InputError
from regard.nn import DynamicScaling, Llama3Scaling, LongScaling, YarnScaling

HALF = (1.5, 2.0)
MADE = {
    "language model": lambda: language_model(kv_heads=2, window=5),
    "untied": lambda: language_model(tied=False, positions="learned", norm="layer"),
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


@pytest.mark.parametrize("kind", MADE)
def test_there_and_back(kind, tmp_path):
    model = MADE[kind]()
    assert regard.nn.save(model, tmp_path / "made") == tmp_path / "made"
    found = regard.nn.load(tmp_path / "made", dtype=torch.float64)
    assert type(found.model) is type(model) and found.model.config == model.config
    assert not found.model.training and found.tokenizer is None and found.name == "made"
    assert torch.equal(run(found.model), run(model))
    assert all(p.requires_grad for p in found.model.parameters())


def test_the_files_are_plain(tmp_path):
    model = language_model(rotary_scaling=YarnScaling(4.0, 8))
    regard.nn.save(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["regard_model"] == "LanguageModel" and config["heads"] == 4
    assert config["rotary_scaling"]["kind"] == "YarnScaling"
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.state_dict())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_numbers_are_cast_where_asked(tmp_path):
    regard.nn.save(language_model(), tmp_path)
    assert regard.nn.load(tmp_path).model.read_out(torch.zeros(1, 16)).dtype == torch.float32
    half = regard.nn.load(tmp_path, dtype=torch.bfloat16).model
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


def test_saving_again_replaces(tmp_path):
    first, second = language_model(), language_model(layers=1)
    regard.nn.save(first, tmp_path)
    regard.nn.save(second, tmp_path)
    assert torch.equal(run(regard.nn.load(tmp_path, dtype=torch.float64).model), run(second))


def test_a_tokenizer_comes_along(tmp_path):
    from real_models import minilm

    regard.nn.save(language_model(vocabulary=30522), tmp_path, tokenizer=minilm().tokenizer)
    found = regard.nn.load(tmp_path)
    assert found.tokenizer("a cat").input_ids == minilm().tokenizer("a cat").input_ids


def edit(where, **changes):
    config = json.loads((where / "config.json").read_text()) | changes
    (where / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"regard_model": "Mixer"}, "regard_model is 'Mixer'; known are"),
        ({"colour": 3}, "has colour, which LanguageModel has not"),
        ({"heads": 3}, "dim=16 is not divisible by heads=3"),
        ({"dim": "wide"}, "dim='wide'"),
        ({"rotary_scaling": {"kind": "Rule"}}, "a kind is one of"),
        ({"rotary_scaling": {"kind": "YarnScaling", "factor": 2}}, "trained_tokens"),
        ({"layers": 3}, r"blocks\.2\..* is missing"),
        ({"vocabulary": 7}, r"is \(23, 16\), not \(7, 16\)"),
        ({"layers": 1}, r"blocks\.1\..* is unknown.*and \d+ more"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, changes, said):
    regard.nn.save(language_model(), tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(FileError, match=said):
        regard.nn.load(tmp_path)


def test_damaged_folders(tmp_path):
    regard.nn.save(language_model(), tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[:40])
    with pytest.raises(FileError, match="cannot be read"):
        regard.nn.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileError, match=r"no .safetensors file"):
        regard.nn.load(tmp_path)
    (tmp_path / "config.json").write_text("[1")
    with pytest.raises(FileError, match=r"config.json cannot be read"):
        regard.nn.load(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(FileError, match="no JSON object"):
        regard.nn.load(tmp_path)


def test_several_files_are_one_model(tmp_path):
    model = language_model()
    regard.nn.save(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(tensors)
    for n, part in enumerate((names[:5], names[5:])):
        save_file({k: tensors[k] for k in part}, tmp_path / f"model-{n}-of-2.safetensors")
    assert torch.equal(run(regard.nn.load(tmp_path, dtype=torch.float64).model), run(model))


def test_only_whole_models_are_saved(tmp_path):
    with pytest.raises(InputError, match="cannot save a Linear; give one of Encoder"):
        regard.nn.save(nn.Linear(2, 2), tmp_path)
