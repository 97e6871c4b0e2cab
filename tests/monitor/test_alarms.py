"""Alarms name the head, the first step, the number and the limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from recorder.models import Plain, Stack
from regard.errors import InputError, RegardWarning
from regard.monitor import STATISTICS, Limits, Sample
from regard.monitor.alarms import Watch
from regard.recording import Limit


def _sample(step, heads=2, **numbers):
    usual = {"normalized_entropy": 0.8, "max_score": 5.0, "peak": 0.2, "sink_mass": 0.3}
    values = {n: np.full((1, heads), usual.get(n, 0.1), np.float32) for n in STATISTICS}
    for name, value in numbers.items():
        values[name][0, 1] = value
    return Sample(step, ("L4",), values)


def _run(limits, statistic, series):
    watch = Watch(limits)
    return [a for n, v in enumerate(series) for a in watch.look(_sample(10 * n, **{statistic: v}))]


@pytest.mark.parametrize(
    ("kind", "statistic", "series", "value", "limit"),
    [
        ("score growth", "max_score", [90, 99, 120, 130, 140, 150], 120, 100),
        ("inactive head", "sink_mass", [0.2, 0.9, 0.96, 0.97, 0.98, 0.99], 0.96, 0.95),
        ("entropy collapse", "normalized_entropy", [0.5, 0.06, 0.04, 0.03, 0.02], 0.04, 0.05),
    ],
)
def test_each_kind(kind, statistic, series, value, limit):
    (alarm,) = _run(Limits(), statistic, series)
    assert (alarm.kind, alarm.head, alarm.step) == (kind, "L4H1", 20)
    assert alarm.value == pytest.approx(value) and alarm.threshold == limit
    assert "L4H1 at step 20" in str(alarm) and f"{limit:g}" in str(alarm)


def test_one_odd_batch_is_no_alarm():
    assert _run(Limits(), "max_score", [90, 120, 90, 120, 130, 90]) == []
    (alarm,) = _run(Limits(lasting=1), "max_score", [90, 120, 90, 120])
    assert alarm.step == 10


def test_a_head_that_was_always_sharp_has_not_collapsed():
    assert _run(Limits(), "normalized_entropy", [0.03] * 9) == []


def test_limits_can_be_moved_and_left_out():
    assert _run(Limits(max_score=None), "max_score", [500] * 5) == []
    (alarm,) = _run(Limits(max_score=7, lasting=2), "max_score", [6, 8, 9])
    assert (alarm.step, alarm.threshold) == (10, 7)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("limits", [Limits(), Limits(max_score=None), Limits(lasting=1)])
def test_scores_that_are_not_finite_are_an_alarm_at_once_and_once(limits):
    (alarm,) = _run(limits, "max_score", [90, 95, INF, INF, INF, INF])
    assert (alarm.kind, alarm.head, alarm.step) == ("scores not finite", "L4H1", 20)
    assert str(alarm) == "scores not finite: L4H1 at step 20, max_score inf, above 3.40282e+38"


def test_scores_that_grow_until_they_break_are_two_alarms():
    grown, broken = _run(Limits(), "max_score", [120, 130, 140, INF, INF, INF])
    assert (grown.kind, grown.step) == ("score growth", 0)
    assert (broken.kind, broken.step) == ("scores not finite", 30)


def test_unheard_heads_are_none():
    assert _run(Limits(), "max_score", [NAN] * 5) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"max_score": float("inf")}, "max_score=inf; give a number, or None"),
     ({"entropy": float("nan")}, "entropy=nan"), ({"lasting": 0}, "lasting=0")],
)  # fmt: skip
def test_limits_are_checked(wrong, says):
    with pytest.raises(InputError, match=says):
        Limits(**wrong)


def test_limits_by_statistic():
    found = Limits(entropy=None, max_score=50).by_statistic()
    assert found == {"max_score": Limit("above", 50.0), "sink_mass": Limit("above", 0.95)}


def test_a_monitor_gives_them():
    torch.manual_seed(0)
    model, x = Stack(), torch.randn(1, 12, 32)
    told = []
    with regard.Monitor(model, limits=Limits(max_score=2.0), on_alarm=told.append) as monitor:
        for step in range(6):
            with torch.no_grad():
                if step == 2:  # one head of one layer begins to shout
                    model.layers[1].w_q.weight[8:16] *= 100
            model(x).square().mean().backward()
            monitor.step()
    assert monitor.alarms == told
    assert [(a.kind, a.head, a.step) for a in told if a.kind == "score growth"] == [
        ("score growth", "L1H1", 2)
    ]


@pytest.mark.parametrize("bad", [NAN, INF, -INF], ids=str)
@pytest.mark.parametrize("what", [Stack, Plain])
def test_a_monitor_tells_which_head_breaks_and_when(tmp_path, bad, what):
    """One number of w_q becomes NaN or infinite: of head 1 of the last layer, from step 3 on."""
    torch.manual_seed(0)
    model, x, told = what(), torch.randn(2, 12, 32), []
    layers = model.layers if what is Stack else model.blocks
    last = len(layers) - 1
    weight = layers[-1].w_q.weight if what is Stack else layers[-1].qkv.weight
    monitor = regard.Monitor(model, log=tmp_path / "run.regard", on_alarm=told.append)
    with monitor:
        for step in range(6):
            if step == 3:
                with torch.no_grad():
                    weight[9, 4] = bad
            model(x).square().mean().backward()
            monitor.step()
    broken = [alarm for alarm in told if alarm.kind == "scores not finite"]
    assert [(alarm.head, alarm.step) for alarm in broken] == [(f"L{last}H1", 3)]
    assert monitor.latest["max_score"][last, 1] == INF
    assert np.isfinite(monitor.latest["max_score"][last, [0, 2, 3]]).all()
    with regard.open(tmp_path / "run.regard") as rec:
        assert rec.training.alarms == tuple(told)
        assert rec.training["max_score"][3:, last, 1].tolist() == [INF] * 3


def test_without_a_listener_they_are_warnings():
    model, x = Stack(), torch.randn(1, 12, 32)
    limits = Limits(max_score=-100.0, lasting=1, sink_mass=None, entropy=None)
    with regard.Monitor(model, limits=limits) as monitor:
        model(x).sum().backward()
        with pytest.warns(RegardWarning, match="score growth: L"):
            monitor.step()
