"""What imitation costs: values and gradients are checked before anything is timed."""

from __future__ import annotations

import pytest

import regard
from bench.gpu import distance
from bench.gpu.size import Size
from host_stage import Host
from regard.bench.results import WrongResultError

SMALL = Size(16, 2, 4, 48, True)


def test_a_row_for_everybody() -> None:
    rows = distance.measure(Host(), SMALL, seconds=0)
    assert [row.what for row in rows] == ["backward", "kl", "kl of sums", "dense"]
    assert {row.peer for row in rows} == {"backward"} and {row.suite for row in rows} == {
        "gpu distance"
    }


def test_a_wrong_value_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = regard.divergence
    monkeypatch.setattr(regard, "divergence", lambda *a, **b: right(*a, **b) * 1.01)
    with pytest.raises(WrongResultError, match="value by kl"):
        distance.measure(Host(), SMALL, seconds=0)


def test_dense_torch_is_left_out_where_it_does_not_fit() -> None:
    rows = distance.measure(Host(free=1), SMALL, seconds=0)
    assert "dense" not in {row.what for row in rows}
