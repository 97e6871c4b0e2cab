"""A model writes the same with sdpa and with regard, or nothing is timed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.gpu import generate
from bench.gpu.generate import check_tokens, measure
from bench.gpu.llama import new_model
from host_stage import Host
from regard.bench.results import WrongResultError

SMALL = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 300,
}  # fmt: skip


def test_prefill_and_generate_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_ROUNDS", {"prefill": 2, "generate": 1})
    rows = measure(Host(), 30, 4, SMALL)
    assert [(row.suite, row.what) for row in rows] == [
        ("gpu prefill", "sdpa"), ("gpu prefill", "regard"),
        ("gpu generate", "sdpa"), ("gpu generate", "regard"),
    ]  # fmt: skip
    assert rows[0].ratio == rows[2].ratio == 1 and all(row.median_ms > 0 for row in rows)
    assert rows[3].note == "4 of 4 tokens as sdpa writes them"
    model = new_model("cpu", tuple(SMALL.items()))
    assert model.config._attn_implementation == "sdpa", "left as it was"


def test_a_token_of_another_logit_gets_no_time() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [3.0, 2.98, 0.0]])
    right = torch.tensor([2, 0]), logits
    assert check_tokens(right, right) == 2
    assert check_tokens(right, (torch.tensor([2, 1]), logits)) == 1, "0.02 is rounding"
    with pytest.raises(WrongResultError, match=r"token 0 is 1 instead of 2, .* larger by 1;"):
        check_tokens(right, (torch.tensor([1, 0]), logits))


def test_other_logits_get_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: Any, ids: Any, name: str) -> Any:
        return torch.full((3,), float(name == "sdpa"))

    monkeypatch.setattr(generate, "_prefilled", wrong)
    with pytest.raises(WrongResultError, match="logits at 9 tokens is off by"):
        measure(Host(), 9, 2, SMALL)
