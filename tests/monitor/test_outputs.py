"""Alarms name the head, the first step, the number and the limit; logs keep what was sampled."""

from __future__ import annotations

import csv
import math
import os
import signal
import subprocess
import sys
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
from regard.recording import Limit, Reader, check

SOURCE = Path(regard.__file__).parents[1]
INF, NAN = float("inf"), float("nan")
LOSSES = [4.0, None, NAN, INF, 1.5]


def run(log, steps=3, start=0, tokens=9, losses=(), **options):
    """The samples of a run of Stack; the loss of each step where some are given."""
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model, log=log, start=start, **options) as monitor:
        for step in range(len(losses) or steps):
            x = torch.randn(1, tokens, 32, generator=torch.Generator().manual_seed(start + step))
            train(model, x)
            samples.append(monitor.step(loss=losses[step] if losses else None))
            model.zero_grad()
    return samples


# ── alarms ────────────────────────────────────────────────────────────────────────────────────────


def alarms_of(limits, statistic, series):
    """Of head 1 of L4, a sample every ten steps."""
    tracker, alarms = AlarmTracker(limits), []
    usual = {"normalized_entropy": 0.8, "max_score": 5.0, "peak": 0.2, "sink_mass": 0.3}
    for n, value in enumerate(series):
        values = {name: np.full((1, 2), usual.get(name, 0.1), np.float32) for name in STATISTICS}
        values[statistic][0, 1] = value
        alarms += tracker.update(Sample(10 * n, ("L4",), values))
    return [(alarm.kind, alarm.step, alarm.value, alarm.threshold) for alarm in alarms], alarms


SCORES, ENTROPY = "max_score", "normalized_entropy"
OVER = 3.4028234663852886e38  # the largest float32


@pytest.mark.parametrize(
    ("limits", "statistic", "series", "wanted"),
    [
        ({}, SCORES, [90, 99, 120, 130, 140, 150], [("score growth", 20, 120, 100)]),
        ({}, "sink_mass", [0.2, 0.9, 0.96, 0.97, 0.98], [("inactive head", 20, 0.96, 0.95)]),
        ({}, ENTROPY, [0.5, 0.06, 0.04, 0.03, 0.02], [("entropy collapse", 20, 0.04, 0.05)]),
        ({}, ENTROPY, [0.03] * 9, []),  # it was always sharp
        ({}, SCORES, [90, 120, 90, 120, 130, 90], []),  # odd batches
        ({"lasting": 1}, SCORES, [90, 120, 90, 120], [("score growth", 10, 120, 100)]),
        ({"max_score": None}, SCORES, [500] * 5, []),
        ({"max_score": 7, "lasting": 2}, SCORES, [6, 8, 9], [("score growth", 10, 8, 7)]),
        *(({} | limits, SCORES, [90, 95, INF, INF, INF], [("scores not finite", 20, INF, OVER)])
          for limits in ({}, {"max_score": None}, {"lasting": 1})),
        ({}, SCORES, [120, 130, 140, INF, INF], [("score growth", 0, 120, 100),
                                                  ("scores not finite", 30, INF, OVER)]),
        ({}, SCORES, [NAN] * 5, []),
    ],
)  # fmt: skip
def test_alarms(limits, statistic, series, wanted):
    facts, alarms = alarms_of(Limits(**limits), statistic, series)
    for mine, right in zip(facts, wanted, strict=True):
        assert mine[:2] == right[:2] and mine[2:] == pytest.approx(right[2:])
    for alarm, (kind, step, _, limit) in zip(alarms, wanted, strict=True):
        assert alarm.head == "L4H1"
        assert str(alarm).startswith(f"{kind}: L4H1 at step {step}, {statistic} ")
        assert f"{limit:g}" in str(alarm)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"max_score": INF}, "max_score=inf; give a number, or None"),
     ({"entropy": NAN}, "entropy=nan"), ({"lasting": 0}, "lasting=0")],
)  # fmt: skip
def test_limits_are_checked(wrong, says):
    with pytest.raises(InputError, match=says):
        Limits(**wrong)


@pytest.mark.parametrize("bad", [NAN, INF, -INF, 100.0], ids=str)
@pytest.mark.parametrize("what", [Stack, Plain])
def test_a_monitor_names_the_head_that_breaks_and_the_step(tmp_path, bad, what):
    """Of head 1 of the last layer, from step 3 on, one number of w_q breaks or all become large."""
    torch.manual_seed(0)
    model, x, received = what(), torch.randn(2, 12, 32), []
    layers = model.layers if what is Stack else model.blocks
    last, breaks = len(layers) - 1, not math.isfinite(bad)
    weight = layers[-1].w_q.weight if what is Stack else layers[-1].qkv.weight
    monitor = regard.Monitor(
        model, log=tmp_path / "run.regard", on_alarm=received.append, limits=Limits(max_score=9)
    )
    with monitor:
        for step in range(6):
            with torch.no_grad():
                if step == 3 and breaks:
                    weight[9, 4] = bad
                elif step == 3:
                    weight[8:16] *= bad
            model(x).square().mean().backward()
            monitor.step()
    assert monitor.alarms == received
    kind = "scores not finite" if breaks else "score growth"
    assert [(one.head, one.step) for one in received if one.kind == kind] == [(f"L{last}H1", 3)]
    assert (monitor.latest["max_score"][last, 1] == INF) == breaks
    assert np.isfinite(monitor.latest["max_score"][last, [0, 2, 3]]).all()
    with regard.open(tmp_path / "run.regard") as rec:
        assert rec.training.alarms == tuple(received)
        assert (rec.training["max_score"][3:, last, 1] > 9).all()


def test_by_default_they_are_warnings():
    limits = Limits(max_score=-100.0, lasting=1, sink_mass=None, entropy=None)
    with pytest.warns(RegardWarning, match="score growth: L"):
        run(None, 1, limits=limits)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────


def test_csv_and_its_continuation(tmp_path):
    path = tmp_path / "run.csv"
    samples = run(path, losses=LOSSES)
    run(CSV(path), 1, start=5)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 8 and list(rows[0]) == ["step", "head", *STATISTICS, "loss"]
    assert (rows[23]["step"], rows[23]["head"], rows[-1]["step"]) == ("2", "L1H3", "5")
    for name in STATISTICS:
        assert float(rows[23][name]) == pytest.approx(samples[2][name][1, 3], rel=1e-5)
    assert [row["loss"] for row in rows[::8]] == ["4", "", "nan", "inf", "1.5", ""]


def test_a_csv_of_before_keeps_its_columns(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(",".join(("step", "head", *STATISTICS)) + "\n")
    run(path, 1)
    with pytest.warns(RegardWarning, match="run.csv has no column `loss`") as said:
        run(path, losses=[1.0, 2.0], start=1)
    assert len(said) == 1
    assert {line.count(",") for line in path.read_text().splitlines()} == {1 + len(STATISTICS)}


def test_functions_get_flat_numbers():
    received, every = [], []
    logs = [lambda numbers, step: received.append((step, numbers)),
            Calls(lambda numbers, step: every.append(numbers), heads=True)]  # fmt: skip
    samples = run(logs, losses=LOSSES)
    assert [step for step, _ in received] == [0, 1, 2, 3, 4]
    numbers = received[1][1]
    assert len(numbers) == 3 * len(STATISTICS) and "attention/loss" not in numbers
    assert numbers["attention/max_score/max"] == samples[1]["max_score"].max()
    assert numbers["attention/peak/mean"] == pytest.approx(samples[1]["peak"].mean())
    assert all(type(value) is float for value in numbers.values())
    assert every[1]["attention/sink_mass/L1H2"] == samples[1]["sink_mass"][1, 2]
    assert len(every[1]) == (3 + 8) * len(STATISTICS)
    losses = [one.get("attention/loss", "none") for _, one in received]
    np.testing.assert_array_equal([losses[n] for n in (0, 2, 3, 4)], [4.0, NAN, INF, 1.5])


def test_unknown_numbers_are_left_out():
    model, received = Stack(), []
    with regard.Monitor(model, log=lambda numbers, step: received.append(numbers)) as monitor:
        model(torch.randn(1, 9, 32)).sum()
        monitor.step()
    assert "attention/peak/min" in received[0] and "attention/grad_w_q/min" not in received[0]


def test_tensorboard(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing import event_accumulator as accumulator

    limits = Limits(entropy=None, max_score=-9.0, sink_mass=None, lasting=2)
    board = TensorBoard(tmp_path / "board", heads=True)
    samples = run(board, losses=LOSSES, limits=limits, on_alarm=lambda alarm: None)
    guidance = dict.fromkeys(("scalars", "tensors"), 0)  # all of them
    read = accumulator.EventAccumulator(str(tmp_path / "board"), guidance).Reload()
    assert len(read.Tags()["scalars"]) == (3 + 8) * len(STATISTICS) + 1
    values = {one.step: one.value for one in read.Scalars("attention/max_score/L1H2")}
    assert values == pytest.approx({one.step: float(one["max_score"][1, 2]) for one in samples})
    assert [one.step for one in read.Scalars("attention/loss")] == [0, 2, 3, 4]
    received = read.Tensors("attention/alarms/text_summary")
    assert [one.step for one in received] == [0] * 8
    assert received[0].tensor_proto.string_val[0].startswith(b"score growth: L0H0 at step 0")
    (text,) = read.Tensors("attention/limits/text_summary")
    assert text.tensor_proto.string_val[0] == b"max_score above -9"
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)


def test_a_log_of_ones_own_and_what_is_none(tmp_path):
    received = []

    class Own:
        def begin(self, limits):
            received.append(limits.max_score)

        def take(self, sample, alarms):
            received.append((sample.step, len(alarms)))

        def close(self):
            received.append("closed")

    run(Own(), 2, limits=Limits(max_score=7.0))
    assert received == [7.0, (0, 0), (1, 0), "closed"]
    for log, said in ((tmp_path / "run.txt", r"ends in \.csv or \.regard"),
                      ([3], "give a path, a function")):  # fmt: skip
        with pytest.raises(InputError, match=said):
            run(log)


def test_logs_are_closed_when_the_run_fails(tmp_path):
    model = Stack()
    with (
        pytest.raises(RuntimeError, match="enough"),
        regard.Monitor(model, log=tmp_path / "run.regard") as monitor,
    ):
        train(model, torch.randn(1, 9, 32))
        monitor.step()
        raise RuntimeError("enough")
    with regard.open(tmp_path / "run.regard") as recording:
        assert not recording.is_live
        np.testing.assert_array_equal(recording.training.steps, [0])


# ── a recording ───────────────────────────────────────────────────────────────────────────────────


def test_written_is_read(tmp_path):
    path = tmp_path / "run.regard"
    samples = run(path, 70)  # more than are written at once
    assert check(path).damage == ()
    with Reader(path) as reader:
        assert not [name for name in reader.entries if "loss" in name]  # none was given
    with regard.open(path) as recording:
        training = recording.training
        np.testing.assert_array_equal(training.steps, np.arange(70))
        assert training.places == ("L0", "L1") and list(training.words) == list(STATISTICS)
        for name, values in training.statistics.items():
            np.testing.assert_array_equal(values, np.stack([one[name] for one in samples]))
        assert training.alarms == () and len(training) == 70
        assert not training.has_loss.any() and np.isnan(training.loss).all()


def test_losses_are_written_as_they_were_given(tmp_path):
    path = tmp_path / "run.regard"
    run(path, losses=LOSSES)
    training = regard.open(path).training
    assert training.has_loss.tolist() == [True, False, True, True, True]
    np.testing.assert_array_equal(training.loss, [4, NAN, NAN, INF, 1.5])
    run(path, losses=[None, 2.0, 3.0], start=3)  # resumed: what was given last counts
    training = regard.open(path).training
    np.testing.assert_array_equal(training.loss, [4, NAN, NAN, NAN, 2, 3])
    assert training.has_loss.tolist() == [True, False, True, False, True, True]


def test_a_resumed_run_keeps_its_file(tmp_path):
    """Steps that are repeated replace those before; steps between samples are gaps."""
    path = tmp_path / "run.regard"
    first = run(path, 5)
    again = run(path, 9, start=4, tokens=24, every=2, snapshots=Snapshots(("L0H1", "L1H3"), 4, 8))
    training = regard.open(path).training
    assert training.steps.tolist() == [0, 1, 2, 3, 4, 6, 8, 10, 12]
    np.testing.assert_array_equal(training["peak"][3], first[3]["peak"])
    np.testing.assert_array_equal(training["peak"][4], again[0]["peak"])
    assert training.maps == {"L0H1": [4, 8, 12], "L1H3": [4, 8, 12]}
    assert training.map("L1H3", 4).shape == (8, 8)
    torch.manual_seed(0)
    x = torch.randn(1, 24, 32, generator=torch.Generator().manual_seed(4))
    right = Stack().layers[0].look(x, mask=regard.Causal()).pooled(3)[0, 1]
    np.testing.assert_allclose(training.map("L0H1", 4), right.detach(), rtol=1e-5, atol=1e-6)
    assert check(path).damage == ()


def test_beside_a_recording_of_attention(tmp_path):
    path, model = tmp_path / "run.regard", Stack()
    with regard.record(model, path), torch.no_grad():
        model(torch.randn(1, 12, 32))
    before = path.read_bytes()
    run(path, 2)
    assert path.read_bytes()[: len(before)] == before
    with regard.open(path) as recording:
        assert recording.training.steps.tolist() == [0, 1]
        assert len(recording.prompts) == 1 and recording["L0H1"].peak().weights.shape == (12,)


def test_limits_are_written(tmp_path):
    """A reader need not guess what was too much in this run."""
    path = tmp_path / "run.regard"
    run(path, 1, limits=Limits(entropy=0.3, max_score=15, sink_mass=None))
    wanted = {"normalized_entropy": Limit("below", 0.3), "max_score": Limit("above", 15.0)}
    assert regard.open(path).training.limits == wanted
    run(path, 1, start=1)  # resumed, with a monitor's own
    limits = regard.open(path).training.limits
    assert limits == Limits().by_statistic() and len(limits) == 3


def test_a_resumed_run_keeps_its_alarms(tmp_path):
    """Those of steps that are not repeated; and no head twice for one reason."""
    path, received = tmp_path / "run.regard", []
    low = Limits(entropy=None, max_score=-9.0, sink_mass=None, lasting=1)
    sinking = Limits(entropy=None, max_score=-9.0, sink_mass=-1.0, lasting=1)
    run(path, 3, limits=low, on_alarm=received.append)
    assert {one.step for one in received} == {0} and len(received) == 8
    run(path, 3, start=3, limits=sinking, on_alarm=lambda _: None)
    alarms = regard.open(path).training.alarms
    assert alarms[:8] == tuple(received)
    assert [(one.kind, one.step) for one in alarms[8:]] == [("inactive head", 3)] * 8
    run(path, 1, start=2)  # from an earlier checkpoint, and now all is well
    assert regard.open(path).training.alarms == tuple(received)


def test_rows_keep_their_meaning_whichever_place_comes_first(tmp_path):
    """A place that comes later, and runs that are resumed with other places."""
    path, file = tmp_path / "run.regard", None
    for step, places in enumerate([("L0",), ("L0", "L1"), ("L1",), ("L2", "L1")]):
        values = np.array([[int(place[1])] * 2 for place in places], np.float32)
        if step != 1:  # written by the same as the step before
            file = RecordingFile(path)
        file.take(Sample(step, places, dict.fromkeys(STATISTICS, values)), [])
        if step:
            file.close()
    training, no = regard.open(path).training, np.nan
    assert training.places == ("L0", "L1", "L2") and training.limits is None
    wanted = [[0, no, no], [0, 1, no], [no, 1, no], [no, 1, 2]]
    np.testing.assert_array_equal(training["peak"][:, :, 0], np.array(wanted, np.float32))


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
READ = """
import sys; sys.modules["torch"] = None
import regard; t = regard.open("run.regard").training
print(t.steps.tolist()[-2:], t["max_score"].shape)
"""


def test_a_run_that_is_killed_is_read_without_torch_and_goes_on(tmp_path):
    def ran(program):
        return subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )  # fmt: skip

    assert ran(KILLED).returncode == -signal.SIGKILL
    assert ran(READ).stdout.strip() == "[18, 19] (20, 1, 2)"
    run(tmp_path / "run.regard", 1, start=20)
    assert regard.open(tmp_path / "run.regard").training.steps.tolist() == list(range(21))
