"""Recording is timed against the same forward, after its logits were compared."""

from __future__ import annotations

import pytest

import regard
from bench import record
from recorder.models import tiny
from regard.bench.results import WrongResultError
from regard.models import Loaded


@pytest.fixture
def small(monkeypatch):
    """A tiny model under a short name."""
    model = tiny("llama", vocab_size=200, num_key_value_heads=2)
    loaded = Loaded(model=model, tokenizer=None, processor=None, name="tiny", source="here")
    monkeypatch.setattr(regard.models, "load", lambda name: loaded)
    return model


def test_rows(small):
    rows = record.measure("tiny", 40, seconds=0)
    assert [row.what for row in rows] == ["sdpa", "regard", "recorded"]
    assert {row.suite for row in rows} == {"record tiny"}
    assert rows[0].ratio == 1 and all(row.median_ms > 0 for row in rows)


def test_documents(small):
    rows = record.measure_documents("tiny", 70, seconds=0)
    assert [row.what for row in rows] == ["sdpa", "regard", "recorded"]
    assert {row.note for row in rows} == {"70 documents of 8 to 48 tokens, 32 a batch"}


def test_wrong_logits_are_not_timed(small, monkeypatch):
    real = regard.engine.api.output_alone
    monkeypatch.setattr(
        regard.engine.api, "output_alone", lambda *given, **options: real(*given, **options) * 7
    )
    with pytest.raises(WrongResultError, match="no time is reported"):
        record.measure("tiny", 40, seconds=0)
