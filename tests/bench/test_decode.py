"""Writing is timed after all wrote the same."""

from __future__ import annotations

import pytest
import torch

import regard
from bench import decode
from recorder.models import tiny
from regard.bench.results import WrongResultError
from regard.models import Loaded


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A tiny model under a short name, in transformers and in our stack."""
    model = tiny("llama", vocab_size=200, num_key_value_heads=2)
    model.save_pretrained(tmp_path / "tiny")
    theirs = Loaded(model=model, tokenizer=None, processor=None, name="tiny", source="here")
    ours = regard.nn.load(tmp_path / "tiny")
    monkeypatch.setattr(regard.models, "load", lambda name, **_: theirs)
    monkeypatch.setattr(regard.nn, "load", lambda name: ours)
    return ours.model


def test_rows(small):
    rows = decode.measure("tiny", 6, seconds=0)
    assert [row.what for row in rows] == ["transformers", "bare loop", "regard"]
    assert {(row.suite, row.tokens, row.peer) for row in rows} == {
        ("decode tiny", 6, "transformers")
    }
    assert rows[0].ratio == 1 and all(row.median_ms > 0 for row in rows)


def test_other_tokens_are_not_timed(small):
    with torch.no_grad():
        small.decoder.norm.weight.neg_()
    with pytest.raises(WrongResultError, match=r"regard writes other tokens.*no time is reported"):
        decode.measure("tiny", 6, seconds=0)
