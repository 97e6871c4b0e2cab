"""What a check costs is timed after it found nothing."""

from __future__ import annotations

import pytest
import torch

import regard
from bench import check
from recorder.models import tiny
from regard.bench.results import WrongResultError
from regard.models import Loaded

FRESH = 'class report: ok, about = {ok}, "a model, 0.5 s"'


@pytest.fixture
def small(monkeypatch):
    """A tiny model under a short name, and processes that import nothing."""
    model = tiny("llama", vocab_size=200, num_key_value_heads=2)
    loaded = Loaded(model=model, tokenizer=None, processor=None, name="tiny", source="here")
    monkeypatch.setattr(regard.models, "load", lambda name, **_: loaded)
    for what in check.SCRIPTS:
        monkeypatch.setitem(check.SCRIPTS, what, FRESH.format(ok=True))
    return model


def test_rows(small):
    rows = check.measure(12, "tiny", rounds=1)
    assert [row.what for row in rows] == list(check.BUDGETS)
    assert [(row.suite, row.tokens) for row in rows] == [
        ("check", 24), ("check", 24), ("check", 12),
    ]  # fmt: skip
    for row in rows:
        budget = check.BUDGETS[row.what]
        assert row.peer == f"budget of {budget:.0f} s"
        assert row.ratio == pytest.approx(row.median_ms / 1e3 / budget, abs=1e-3)
    assert rows[0].note.endswith("itself 0.5 s")
    assert rows[2].note.startswith("10 forwards of at most ")


@pytest.mark.parametrize("what", check.SCRIPTS)
def test_the_scripts_find_nothing(what):
    names: dict[str, regard.check.Report] = {}
    exec(check.SCRIPTS[what], names)
    assert names["report"].ok


def test_what_finds_something_is_not_timed(small, monkeypatch):
    monkeypatch.setitem(check.SCRIPTS, "tiny", FRESH.format(ok=False))
    with pytest.raises(WrongResultError, match=r"AssertionError.*no time is reported"):
        check.measure(12, "tiny", rounds=1)
    monkeypatch.setitem(check.SCRIPTS, "tiny", FRESH.format(ok=True))
    attend = torch.nn.functional.scaled_dot_product_attention

    def leaking(*args, is_causal=False, attn_mask=None, **kwargs):
        return attend(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", leaking)
    with pytest.raises(WrongResultError, match=r"future +found[\s\S]*no time is reported"):
        check.measure(12, "tiny", rounds=1)
