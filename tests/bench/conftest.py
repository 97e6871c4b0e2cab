"""Models and a GPU that are small enough to be timed in a test."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from bench import check, monitor, record, report
from bench.gpu import monitor as gpu_monitor
from recorder.models import tiny
from regard.models import Loaded
from support.host_stage import Host

SCRIPT = 'class report: ok, about = {ok}, "a model, 0.5 s"'  # of a process that imports nothing


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """A tiny model under every name, in transformers and in regard.nn (which is given back); suites
    that make their own make small ones, and read few documents."""
    model = tiny("llama", vocab_size=200, num_key_value_heads=2)
    model.save_pretrained(tmp_path / "tiny")
    loaded = Loaded(model=model, tokenizer=None, processor=None, name="tiny", source="here")
    ours = regard.nn.load(tmp_path / "tiny")
    monkeypatch.setattr(regard.models, "load", lambda name, **_: loaded)
    monkeypatch.setattr(regard.nn, "load", lambda name: ours)
    monkeypatch.setattr(record, "DOCUMENTS", 40)
    for name, size in (("_LAYERS", 1), ("_HEADS", 2), ("_WIDTH", 16), ("_WORDS", 50)):
        monkeypatch.setattr(monitor, name, size)
    monkeypatch.setattr(report, "_LAYERS", 2)
    monkeypatch.setattr(report, "_HEADS", 3)
    for what in check.SCRIPTS:
        monkeypatch.setitem(check.SCRIPTS, what, SCRIPT.format(ok=True))
    return ours.model


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Host:
    """The GPU suite with a CPU for a GPU, and models of few steps."""
    host = Host(peak=2**21)
    monkeypatch.setattr("bench.gpu.stage.cuda", lambda: host)
    monkeypatch.setattr(gpu_monitor, "_ROUNDS", 1)
    monkeypatch.setattr(gpu_monitor, "_STEPS", 2)
    return host


@pytest.fixture
def shape() -> dict[str, int]:
    """Of a Llama for the parts of the GPU suite that run one."""
    return {
        "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 300,
    }  # fmt: skip
