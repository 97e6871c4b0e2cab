"""Where samples go."""

from __future__ import annotations

import csv
import sys
import types

import numpy as np
import pytest
import torch

import regard
from recorder.models import Stack
from regard.errors import InputError, MissingExtraError
from regard.monitor import CSV, STATISTICS, Calls, Limits, TensorBoard


def _run(log, steps=3, start=0, **options):
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model, log=log, start=start, **options) as monitor:
        for step in range(steps):
            x = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(start + step))
            model(x).square().mean().backward()
            samples.append(monitor.step())
            model.zero_grad()
    return samples


def test_csv(tmp_path):
    path = tmp_path / "run.csv"
    samples = _run(path)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 8 and list(rows[0]) == ["step", "head", *STATISTICS]
    assert (rows[-1]["step"], rows[-1]["head"]) == ("2", "L1H3")
    for name in STATISTICS:
        assert float(rows[-1][name]) == pytest.approx(samples[2][name][1, 3], rel=1e-5)


def test_csv_is_gone_on_with(tmp_path):
    path = tmp_path / "run.csv"
    _run(CSV(path), 1)
    _run(CSV(path), 1, start=1)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 2 * 8 and lines[-1].startswith("1,L1H3,")


def test_functions_get_flat_numbers():
    told = []
    samples = _run([lambda numbers, step: told.append((step, numbers))])
    assert [step for step, _ in told] == [0, 1, 2]
    numbers = told[1][1]
    assert len(numbers) == 3 * len(STATISTICS)
    assert numbers["attention/max_score/max"] == samples[1]["max_score"].max()
    assert numbers["attention/peak/mean"] == pytest.approx(samples[1]["peak"].mean())
    assert all(type(value) is float for value in numbers.values())


def test_functions_may_get_every_head():
    told = []
    samples = _run(Calls(lambda numbers, step: told.append(numbers), heads=True), 1)
    assert told[0]["attention/sink_mass/L1H2"] == samples[0]["sink_mass"][1, 2]
    assert len(told[0]) == (3 + 8) * len(STATISTICS)


def test_unknown_numbers_are_left_out():
    model, told = Stack(), []
    with regard.Monitor(model, log=lambda numbers, step: told.append(numbers)) as monitor:
        model(torch.randn(1, 9, 32)).sum()
        monitor.step()
    assert "attention/peak/min" in told[0] and "attention/grad_w_q/min" not in told[0]


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
    told = read.Tensors("attention/alarms/text_summary")
    assert [one.step for one in told] == [0] * 8
    assert told[0].tensor_proto.string_val[0].startswith(b"score growth: L0H0 at step 0")
    (said,) = read.Tensors("attention/limits/text_summary")
    assert said.tensor_proto.string_val[0] == b"max_score above -9"


def test_refusals(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.csv or \.regard"):
        _run(tmp_path / "run.txt")
    with pytest.raises(InputError, match="give a path, a function"):
        _run([3])


def test_a_log_of_ones_own():
    told = []

    class Own:
        def begin(self, limits):
            told.append(limits.max_score)

        def take(self, sample, alarms):
            told.append((sample.step, len(alarms)))

        def close(self):
            told.append("closed")

    _run(Own(), 2, limits=Limits(max_score=7.0))
    assert told == [7.0, (0, 0), (1, 0), "closed"]


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
