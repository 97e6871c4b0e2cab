"""A monitored step has the loss of a plain one and statistics of all heads, or nothing is timed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.gpu import monitor
from bench.gpu.llama import new_model
from bench.gpu.monitor import measure
from host_stage import Host
from regard.bench.results import WrongResultError

SMALL = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 300,
}  # fmt: skip
WHAT = ["", " monitored", " monitored, 1 in 10"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_ROUNDS", 1)
    monkeypatch.setattr(monitor, "_STEPS", 2)


def test_plain_and_monitored_by_both() -> None:
    rows = measure(Host(), 2, 20, SMALL)
    assert [row.what for row in rows] == [f"{n}{w}" for n in ("sdpa", "regard") for w in WHAT]
    assert rows[0].ratio == 1 and all(row.ratio > 0 and row.median_ms > 0 for row in rows)
    assert {(row.suite, row.batch, row.tokens) for row in rows} == {("gpu monitor", 2, 20)}
    model = new_model("cpu", tuple(SMALL.items()))
    assert not model.training and model.config._attn_implementation == "sdpa", "left as it was"
    assert all(p.grad is None for p in model.parameters())


def test_another_loss_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = monitor._trained

    def wrong(*given: Any) -> Any:
        found = trained(*given)
        return found if given[4] is None else found + 0.001

    monkeypatch.setattr(monitor, "_trained", wrong)
    with pytest.raises(WrongResultError, match=r"sdpa monitored: a loss of .* and 8 heads"):
        measure(Host(), 1, 20, SMALL)


def test_the_weights_stay_what_they_are() -> None:
    model = new_model("cpu", tuple(SMALL.items()))
    before = [p.detach().clone() for p in model.parameters()]
    measure(Host(), 1, 12, SMALL)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
