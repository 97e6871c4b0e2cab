"""A model of random weights says the same while it is recorded, or nothing is timed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import regard
from bench.gpu import llama
from bench.gpu.llama import SHAPE, measure, new_model
from host_stage import Host
from regard.bench.results import WrongResultError

SMALL = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 300,
}  # fmt: skip


def test_three_rows_the_size_of_the_file_and_what_the_disk_needs_for_it() -> None:
    plain, *others = measure(Host(peak=2**21), 70, SMALL)
    assert [one.what for one in (plain, *others)] == ["sdpa", "statistics", "recorded"]
    assert plain.ratio == 1 and plain.extra_mib == 2.0 and not plain.note
    for one in others:
        assert one.ratio > 0 and one.extra_mib == 2.0
        assert re.fullmatch(r"a file of \S+ GB, which this disk takes \S+ s to write", one.note)
        assert (one.heads, one.dim, one.tokens) == (4, 16, 70)


def test_the_model_is_in_half_precision_and_the_default_stays() -> None:
    before = torch.get_default_dtype()
    model = new_model("cpu", tuple(SMALL.items()))
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() == before
    assert model is new_model("cpu", tuple(SMALL.items())), "two lengths share one model"


def test_the_shape_is_that_of_an_8b_llama() -> None:
    width, wide = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    kv = width * SHAPE["num_key_value_heads"] // SHAPE["num_attention_heads"]
    layer = 2 * width * width + 2 * width * kv + 3 * width * wide
    total = SHAPE["num_hidden_layers"] * layer + 2 * SHAPE["vocab_size"] * width
    assert 8.0e9 < total < 8.1e9


def test_other_logits_get_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: Any, ids: Any, folder: Any) -> Any:
        return {"sdpa": lambda: torch.ones(3), "statistics": lambda: torch.zeros(3)}

    monkeypatch.setattr(llama, "_runs", wrong)
    with pytest.raises(WrongResultError, match="logits at 9 tokens, statistics is off by"):
        measure(Host(), 9, SMALL)


def test_the_recording_is_a_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    model = new_model("cpu", tuple(SMALL.items()))
    ids = torch.arange(40)[None]
    runs = llama._runs(model, ids, tmp_path)
    with torch.inference_mode():
        runs["recorded"]()
    with regard.open(tmp_path / "recorded.regard") as recording:
        assert recording.stacks == {"": (2, 4)}
