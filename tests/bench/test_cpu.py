"""The CPU suite checks answers before it times them."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.bench import cpu
from regard.bench.results import WrongResultError


def test_a_configuration_gives_a_row_per_contender() -> None:
    rows = cpu.measure(cpu.Configuration(tokens=64, dim=16, causal=True, heads=2), seconds=0)
    what = {row.what for row in rows}
    assert {"sdpa", "bare", "bare (cpu)", "row stats", "everything", "afterwards"} <= what
    assert {"eager with weights", "sdpa backward", "backward"} <= what
    for row in rows:
        assert row.ratio > 0 and row.p20_ms <= row.median_ms <= row.p80_ms
    assert next(row for row in rows if row.what == "sdpa").ratio == 1


def test_no_time_for_a_wrong_answer(monkeypatch: Any) -> None:
    right = regard.attend

    def wrong(q: Any, k: Any, v: Any, **options: Any) -> Any:
        return right(q, k, v + 1, **options)

    monkeypatch.setattr(regard, "attend", wrong)
    with pytest.raises(WrongResultError, match=r"output .* is off by"):
        cpu.measure(cpu.Configuration(tokens=32, dim=16, causal=False), seconds=0)
