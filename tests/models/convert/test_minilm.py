"""MiniLM puts sentences that mean the same close together."""

from __future__ import annotations

import json

import pytest
import torch

from real_models import minilm
from regard.models.convert.minilm import convert


def _embedded(*sentences: str) -> torch.Tensor:
    loaded = minilm()
    words = loaded.tokenizer(list(sentences), padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = loaded.model(**words).last_hidden_state
    seen = words["attention_mask"][..., None]
    return torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1))


def test_its_shape():
    config = minilm().model.config
    assert type(minilm().model).__name__ == "BertModel"
    assert (config.num_hidden_layers, config.num_attention_heads) == (6, 12)
    assert minilm().processor is None


def test_similar_sentences_are_closer():
    eats, bread, baby = _embedded(
        "A man is eating food.", "A man is eating a piece of bread.", "The girl carries a baby."
    )
    assert eats @ bread == pytest.approx(0.7553, abs=1e-3)  # as its authors publish it
    assert eats @ baby < 0.2


def test_texts_are_neither_padded_nor_cut():
    tokenizer = minilm().tokenizer
    assert tokenizer("hello").input_ids == [101, 7592, 102]
    assert len(tokenizer.backend_tokenizer.encode("hello").ids) == 3
    assert len(tokenizer("word " * 300).input_ids) == 302


def test_only_the_tokenizer_is_changed(tmp_path):
    parts, made = tmp_path / "parts", tmp_path / "made"
    parts.mkdir()
    made.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (parts / name).write_text(name)
    given = {"truncation": {"max_length": 128}, "padding": {"Fixed": 128}, "model": {"é": 1}}
    (parts / "tokenizer.json").write_text(json.dumps(given), encoding="utf-8")
    convert(parts, made)
    kept = json.loads((made / "tokenizer.json").read_text(encoding="utf-8"))
    assert kept == {"truncation": None, "padding": None, "model": {"é": 1}}
    assert (made / "model.safetensors").read_text() == "model.safetensors"
