"""Monitoring is timed against the same step without, after their losses were compared."""

from __future__ import annotations

import pytest

import regard
from bench import monitor
from regard.bench.results import WrongResultError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, size in (("_LAYERS", 2), ("_HEADS", 2), ("_WIDTH", 16), ("_WORDS", 50)):
        monkeypatch.setattr(monitor, name, size)


def test_rows():
    rows = monitor.measure(20, seconds=0)
    assert [row.what for row in rows] == ["plain", "monitored"]
    assert {row.suite for row in rows} == {"monitor"} and rows[0].ratio == 1
    assert all(row.median_ms > 0 and row.peer == "plain" for row in rows)


def test_a_monitor_that_measures_nothing_is_not_timed(monkeypatch):
    monkeypatch.setattr(regard.monitor.listen.StepListener, "heard", lambda *_: None)
    with (
        pytest.warns(regard.errors.RegardWarning, match="no attention was measured"),
        pytest.raises(WrongResultError, match="no time is reported"),
    ):
        monitor.measure(20, seconds=0)
