"""Alarms name the head, the first step, the number and the limit; logs keep what was sampled."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from monitor.steps import train
from recorder.models import Plain, Stack
from regard.errors import InputError, MissingExtraError, RegardWarning
from regard.monitor import (
    CSV,
    STATISTICS,
    Calls,
    Limits,
    RecordingFile,
    Sample,
    Snapshots,
    TensorBoard,
)
from regard.monitor.outputs import AlarmTracker
from regard.recording import Limit, check

SOURCE = Path(regard.__file__).parents[1]
INF, NAN = float("inf"), float("nan")


def _run(log, steps=3, start=0, tokens=9, **options):
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model, log=log, start=start, **options) as monitor:
        for step in range(steps):
            x = torch.randn(1, tokens, 32, generator=torch.Generator().manual_seed(start + step))
            train(model, x)
            samples.append(monitor.step())
            model.zero_grad()
    return samples


# ── alarms ────────────────────────────────────────────────────────────────────────────────────────


def _sample(step, heads=2, **numbers):
    usual = {"normalized_entropy": 0.8, "max_score": 5.0, "peak": 0.2, "sink_mass": 0.3}
    values = {n: np.full((1, heads), usual.get(n, 0.1), np.float32) for n in STATISTICS}
    for name, value in numbers.items():
        values[name][0, 1] = value
    return Sample(step, ("L4",), values)


def _alarms(limits, statistic, series):
    tracker = AlarmTracker(limits)
    samples = (_sample(10 * n, **{statistic: value}) for n, value in enumerate(series))
    return [alarm for sample in samples for alarm in tracker.update(sample)]


@pytest.mark.parametrize(
    ("kind", "statistic", "series", "value", "limit"),
    [
        ("score growth", "max_score", [90, 99, 120, 130, 140, 150], 120, 100),
        ("inactive head", "sink_mass", [0.2, 0.9, 0.96, 0.97, 0.98, 0.99], 0.96, 0.95),
        ("entropy collapse", "normalized_entropy", [0.5, 0.06, 0.04, 0.03, 0.02], 0.04, 0.05),
    ],
)
def test_each_kind(kind, statistic, series, value, limit):
    (alarm,) = _alarms(Limits(), statistic, series)
    assert (alarm.kind, alarm.head, alarm.step) == (kind, "L4H1", 20)
    assert alarm.value == pytest.approx(value) and alarm.threshold == limit
    assert "L4H1 at step 20" in str(alarm) and f"{limit:g}" in str(alarm)


def test_one_odd_batch_is_no_alarm():
    assert _alarms(Limits(), "max_score", [90, 120, 90, 120, 130, 90]) == []
    (alarm,) = _alarms(Limits(lasting=1), "max_score", [90, 120, 90, 120])
    assert alarm.step == 10


def test_a_head_that_was_always_sharp_has_not_collapsed():
    assert _alarms(Limits(), "normalized_entropy", [0.03] * 9) == []


def test_limits_can_be_moved_and_left_out():
    assert _alarms(Limits(max_score=None), "max_score", [500] * 5) == []
    (alarm,) = _alarms(Limits(max_score=7, lasting=2), "max_score", [6, 8, 9])
    assert (alarm.step, alarm.threshold) == (10, 7)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_score=None), Limits(lasting=1)])
def test_scores_that_are_not_finite_are_an_alarm_at_once_and_once(limits):
    (alarm,) = _alarms(limits, "max_score", [90, 95, INF, INF, INF, INF])
    assert (alarm.kind, alarm.head, alarm.step) == ("scores not finite", "L4H1", 20)
    assert str(alarm) == "scores not finite: L4H1 at step 20, max_score inf, above 3.40282e+38"


def test_scores_that_grow_until_they_break_are_two_alarms():
    grown, broken = _alarms(Limits(), "max_score", [120, 130, 140, INF, INF, INF])
    assert (grown.kind, grown.step) == ("score growth", 0)
    assert (broken.kind, broken.step) == ("scores not finite", 30)


def test_heads_without_numbers_cause_none():
    assert _alarms(Limits(), "max_score", [NAN] * 5) == []


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


def test_a_monitor_reports_alarms():
    torch.manual_seed(0)
    model, x = Stack(), torch.randn(1, 12, 32)
    received = []
    with regard.Monitor(model, limits=Limits(max_score=2.0), on_alarm=received.append) as monitor:
        for step in range(6):
            with torch.no_grad():
                if step == 2:  # one head of one layer has large scores
                    model.layers[1].w_q.weight[8:16] *= 100
            model(x).square().mean().backward()
            monitor.step()
    assert monitor.alarms == received
    assert [(a.kind, a.head, a.step) for a in received if a.kind == "score growth"] == [
        ("score growth", "L1H1", 2)
    ]


@pytest.mark.parametrize("bad", [NAN, INF, -INF], ids=str)
@pytest.mark.parametrize("what", [Stack, Plain])
def test_a_monitor_names_the_head_that_breaks_and_the_step(tmp_path, bad, what):
    """One number of w_q becomes NaN or infinite: of head 1 of the last layer, from step 3 on."""
    torch.manual_seed(0)
    model, x, received = what(), torch.randn(2, 12, 32), []
    layers = model.layers if what is Stack else model.blocks
    last = len(layers) - 1
    weight = layers[-1].w_q.weight if what is Stack else layers[-1].qkv.weight
    monitor = regard.Monitor(model, log=tmp_path / "run.regard", on_alarm=received.append)
    with monitor:
        for step in range(6):
            if step == 3:
                with torch.no_grad():
                    weight[9, 4] = bad
            model(x).square().mean().backward()
            monitor.step()
    broken = [alarm for alarm in received if alarm.kind == "scores not finite"]
    assert [(alarm.head, alarm.step) for alarm in broken] == [(f"L{last}H1", 3)]
    assert monitor.latest["max_score"][last, 1] == INF
    assert np.isfinite(monitor.latest["max_score"][last, [0, 2, 3]]).all()
    with regard.open(tmp_path / "run.regard") as rec:
        assert rec.training.alarms == tuple(received)
        assert rec.training["max_score"][3:, last, 1].tolist() == [INF] * 3


def test_by_default_they_are_warnings():
    model, x = Stack(), torch.randn(1, 12, 32)
    limits = Limits(max_score=-100.0, lasting=1, sink_mass=None, entropy=None)
    with regard.Monitor(model, limits=limits) as monitor:
        model(x).sum().backward()
        with pytest.warns(RegardWarning, match="score growth: L"):
            monitor.step()


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────


def test_csv(tmp_path):
    path = tmp_path / "run.csv"
    samples = _run(path)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 8 and list(rows[0]) == ["step", "head", *STATISTICS, "loss"]
    assert (rows[-1]["step"], rows[-1]["head"]) == ("2", "L1H3")
    for name in STATISTICS:
        assert float(rows[-1][name]) == pytest.approx(samples[2][name][1, 3], rel=1e-5)


def test_csv_is_appended_to(tmp_path):
    path = tmp_path / "run.csv"
    _run(CSV(path), 1)
    _run(CSV(path), 1, start=1)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 2 * 8 and lines[-1].startswith("1,L1H3,")


def test_functions_get_flat_numbers():
    received = []
    samples = _run([lambda numbers, step: received.append((step, numbers))])
    assert [step for step, _ in received] == [0, 1, 2]
    numbers = received[1][1]
    assert len(numbers) == 3 * len(STATISTICS)
    assert numbers["attention/max_score/max"] == samples[1]["max_score"].max()
    assert numbers["attention/peak/mean"] == pytest.approx(samples[1]["peak"].mean())
    assert all(type(value) is float for value in numbers.values())


def test_functions_can_get_every_head():
    received = []
    samples = _run(Calls(lambda numbers, step: received.append(numbers), heads=True), 1)
    assert received[0]["attention/sink_mass/L1H2"] == samples[0]["sink_mass"][1, 2]
    assert len(received[0]) == (3 + 8) * len(STATISTICS)


def test_unknown_numbers_are_left_out():
    model, received = Stack(), []
    with regard.Monitor(model, log=lambda numbers, step: received.append(numbers)) as monitor:
        model(torch.randn(1, 9, 32)).sum()
        monitor.step()
    assert "attention/peak/min" in received[0] and "attention/grad_w_q/min" not in received[0]


def test_tensorboard_is_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)


def test_tensorboard_gets_scalars_and_alarms(tmp_path, monkeypatch):
    scalars, texts = [], []

    class SummaryWriter:
        def __init__(self, folder):
            assert folder == str(tmp_path)

        def add_scalar(self, name, value, step):
            scalars.append((name, value, step))

        def add_text(self, name, text, step=None):
            texts.append((name, text, step))

        def close(self):
            texts.append("closed")

    made = types.ModuleType("torch.utils.tensorboard")
    made.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", made)
    limits = Limits(max_score=-9.0, sink_mass=None, lasting=2)
    samples = _run(TensorBoard(tmp_path), limits=limits, on_alarm=lambda alarm: None)
    assert ("attention/max_score/max", float(samples[2]["max_score"].max()), 2) in scalars
    assert texts[-1] == "closed" and len(texts) == 1 + 8 + 1
    limits = "normalized_entropy below 0.05, max_score above -9"
    assert texts[0] == ("attention/limits", limits, None)
    assert texts[1][1].startswith("score growth: L0H0 at step 0") and texts[1][2] == 0


def test_the_real_tensorboard_reads_it_back(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator as accumulator

    limits = Limits(entropy=None, max_score=-9.0, sink_mass=None, lasting=2)
    board = TensorBoard(tmp_path / "board", heads=True)
    samples = _run(board, limits=limits, on_alarm=lambda alarm: None)
    guidance = dict.fromkeys(("scalars", "tensors"), 0)  # all of them
    read = accumulator.EventAccumulator(str(tmp_path / "board"), guidance).Reload()
    assert len(read.Tags()["scalars"]) == (3 + 8) * len(STATISTICS)
    found = {one.step: one.value for one in read.Scalars("attention/max_score/L1H2")}
    assert found == pytest.approx({one.step: float(one["max_score"][1, 2]) for one in samples})
    received = read.Tensors("attention/alarms/text_summary")
    assert [one.step for one in received] == [0] * 8
    assert received[0].tensor_proto.string_val[0].startswith(b"score growth: L0H0 at step 0")
    (text,) = read.Tensors("attention/limits/text_summary")
    assert text.tensor_proto.string_val[0] == b"max_score above -9"


def test_refusals(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.csv or \.regard"):
        _run(tmp_path / "run.txt")
    with pytest.raises(InputError, match="give a path, a function"):
        _run([3])


def test_a_log_of_ones_own():
    received = []

    class Own:
        def begin(self, limits):
            received.append(limits.max_score)

        def take(self, sample, alarms):
            received.append((sample.step, len(alarms)))

        def close(self):
            received.append("closed")

    _run(Own(), 2, limits=Limits(max_score=7.0))
    assert received == [7.0, (0, 0), (1, 0), "closed"]


def test_logs_are_closed_when_the_run_fails(tmp_path):
    model = Stack()
    with pytest.raises(RuntimeError, match="enough"):  # noqa: SIM117
        with regard.Monitor(model, log=tmp_path / "run.regard") as monitor:
            model(torch.randn(1, 9, 32)).sum().backward()
            monitor.step()
            raise RuntimeError("enough")
    with regard.open(tmp_path / "run.regard") as recording:
        assert not recording.is_live
        np.testing.assert_array_equal(recording.training.steps, [0])


# ── a recording ───────────────────────────────────────────────────────────────────────────────────


def test_written_is_read(tmp_path):
    path = tmp_path / "run.regard"
    samples = _run(path, 70)  # more than are written at once
    assert check(path).damage == ()
    with regard.open(path) as recording:
        training = recording.training
        np.testing.assert_array_equal(training.steps, np.arange(70))
        assert training.places == ("L0", "L1") and list(training.words) == list(STATISTICS)
        for name, values in training.statistics.items():
            assert values.shape == (70, 2, 4)
            np.testing.assert_array_equal(values, np.stack([one[name] for one in samples]))
        assert training.alarms == () and len(training) == 70


def test_sampling_leaves_gaps(tmp_path):
    _run(tmp_path / "run.regard", 10, every=4)
    assert regard.open(tmp_path / "run.regard").training.steps.tolist() == [0, 4, 8]


def test_a_resumed_run_keeps_its_file(tmp_path):
    """Steps that are repeated replace those before."""
    path = tmp_path / "run.regard"
    first = _run(path, 6)
    again = _run(path, 4, start=4, snapshots=Snapshots(("L0H0",), 2, 4))
    training = regard.open(path).training
    assert training.steps.tolist() == list(range(8))
    np.testing.assert_array_equal(training["peak"][3], first[3]["peak"])
    np.testing.assert_array_equal(training["peak"][4], again[0]["peak"])
    assert training.maps == {"L0H0": [4, 6]}
    assert check(path).damage == ()


def test_beside_a_recording_of_attention(tmp_path):
    path, model = tmp_path / "run.regard", Stack()
    with regard.record(model, path), torch.no_grad():
        model(torch.randn(1, 12, 32))
    before = path.read_bytes()
    _run(path, 2)
    assert path.read_bytes()[: len(before)] == before
    with regard.open(path) as recording:
        assert recording.training.steps.tolist() == [0, 1]
        assert len(recording.prompts) == 1 and recording["L0H1"].peak().weights.shape == (12,)


def test_alarms_are_written(tmp_path):
    limits = Limits(max_score=-9.0, sink_mass=None, lasting=2)
    received = []
    _run(tmp_path / "run.regard", 3, limits=limits, on_alarm=received.append)
    assert (
        regard.open(tmp_path / "run.regard").training.alarms == tuple(received)
        and len(received) == 8
    )


def test_limits_are_written(tmp_path):
    """A reader need not guess what was too much in this run."""
    path = tmp_path / "run.regard"
    _run(path, 1, limits=Limits(entropy=0.3, max_score=15, sink_mass=None))
    wanted = {"normalized_entropy": Limit("below", 0.3), "max_score": Limit("above", 15.0)}
    assert regard.open(path).training.limits == wanted
    _run(path, 1, start=1)  # resumed, with a monitor's own
    found = regard.open(path).training.limits
    assert found == Limits().by_statistic() and len(found) == 3


def test_a_resumed_run_keeps_its_alarms(tmp_path):
    """Those of steps that are not repeated; and no head twice for one reason."""
    path, received = tmp_path / "run.regard", []
    low = Limits(entropy=None, max_score=-9.0, sink_mass=None, lasting=1)
    sinking = Limits(entropy=None, max_score=-9.0, sink_mass=-1.0, lasting=1)
    _run(path, 3, limits=low, on_alarm=received.append)
    assert {one.step for one in received} == {0}
    _run(path, 3, start=3, limits=sinking, on_alarm=lambda _: None)
    found = regard.open(path).training.alarms
    assert found[:8] == tuple(received)
    assert [(one.kind, one.step) for one in found[8:]] == [("inactive head", 3)] * 8
    _run(path, 1, start=2)  # from an earlier checkpoint, and now all is well
    assert regard.open(path).training.alarms == tuple(received)


def test_a_resumed_run_with_other_places(tmp_path):
    """Rows keep their meaning, whichever place comes first."""
    path = tmp_path / "run.regard"
    for step, places in enumerate([("L0", "L1"), ("L1",), ("L2", "L1")]):
        values = np.array([[int(place[1])] * 2 for place in places], np.float32)
        file = RecordingFile(path)
        file.take(Sample(step, places, dict.fromkeys(STATISTICS, values)), [])
        file.close()
    training, no = regard.open(path).training, np.nan
    assert training.places == ("L0", "L1", "L2") and training.limits is None
    wanted = [[0, 1, no], [no, 1, no], [no, 1, 2]]
    np.testing.assert_array_equal(training["peak"][:, :, 0], np.array(wanted, np.float32))


def test_snapshots(tmp_path):
    path = tmp_path / "run.regard"
    _run(path, 5, tokens=24, every=2, snapshots=Snapshots(("L0H1", "L1H3"), 4, 8))
    training = regard.open(path).training
    assert training.maps == {"L0H1": [0, 4], "L1H3": [0, 4]}
    assert training.map("L1H3", 4).shape == (8, 8)
    torch.manual_seed(0)
    model = Stack()
    x = torch.randn(1, 24, 32, generator=torch.Generator().manual_seed(0))
    right = model.layers[0].look(x, mask=regard.Causal()).pooled(3)[0, 1]
    np.testing.assert_allclose(training.map("L0H1", 0), right.detach(), rtol=1e-5, atol=1e-6)


def test_a_place_that_comes_later(tmp_path):
    def sample(step, places):
        shape = (len(places), 3)
        return Sample(step, places, {n: np.full(shape, step, np.float32) for n in STATISTICS})

    file = RecordingFile(tmp_path / "run.regard")
    file.take(sample(0, ("L0",)), [])
    file.take(sample(1, ("L0", "L1")), [])
    file.close()
    found = regard.open(tmp_path / "run.regard").training["peak"]
    assert found.shape == (2, 2, 3)
    assert np.isnan(found[0, 1]).all() and (found[1] == 1).all()


KILLED = """
import os, signal, torch, regard
from regard.monitor import outputs
outputs._SECONDS = 0.0
layer = regard.nn.MultiHeadAttention(16, 2)
with regard.Monitor(layer, log="run.regard") as monitor:
    for step in range(20):
        layer(torch.randn(1, 8, 16)).sum().backward()
        monitor.step()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert regard.open(tmp_path / "run.regard").training.steps.tolist() == list(range(20))
    _run(tmp_path / "run.regard", 1, start=20)
    assert regard.open(tmp_path / "run.regard").training.steps.tolist() == list(range(21))


def test_reading_needs_no_torch(tmp_path):
    _run(tmp_path / "run.regard", 2)
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import regard; t = regard.open('run.regard').training\n"
        "print(t.steps.tolist(), t['max_score'].shape)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[0, 1] (2, 2, 4)"
