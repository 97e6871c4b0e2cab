"""A training run inside a recording, read without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from recorder.models import Stack
from regard.monitor import STATISTICS, Limits, RecordingFile, Sample, Snapshots
from regard.recording import Limit, check

SOURCE = Path(regard.__file__).parents[1]


def _run(path, steps, start=0, **options):
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model, log=path, start=start, **options) as monitor:
        for step in range(steps):
            x = torch.randn(1, 24, 32, generator=torch.Generator().manual_seed(start + step))
            model(x).square().mean().backward()
            samples.append(monitor.step())
            model.zero_grad()
    return samples


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
    """Steps that are told again replace what was told before."""
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
    told = []
    _run(tmp_path / "run.regard", 3, limits=limits, on_alarm=told.append)
    assert regard.open(tmp_path / "run.regard").training.alarms == tuple(told) and len(told) == 8


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
    """Those of steps that are not told again; and no head twice for one reason."""
    path, told = tmp_path / "run.regard", []
    low = Limits(entropy=None, max_score=-9.0, sink_mass=None, lasting=1)
    sinking = Limits(entropy=None, max_score=-9.0, sink_mass=-1.0, lasting=1)
    _run(path, 3, limits=low, on_alarm=told.append)
    assert {one.step for one in told} == {0}
    _run(path, 3, start=3, limits=sinking, on_alarm=lambda _: None)
    found = regard.open(path).training.alarms
    assert found[:8] == tuple(told)
    assert [(one.kind, one.step) for one in found[8:]] == [("inactive head", 3)] * 8
    _run(path, 1, start=2)  # from an earlier checkpoint, and now all is well
    assert regard.open(path).training.alarms == tuple(told)


def test_a_resumed_run_that_hears_other_places(tmp_path):
    """Rows keep their meaning, whatever is heard first."""
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
    _run(path, 5, every=2, snapshots=Snapshots(("L0H1", "L1H3"), 4, 8))
    training = regard.open(path).training
    assert training.maps == {"L0H1": [0, 4], "L1H3": [0, 4]}
    assert training.map("L1H3", 4).shape == (8, 8)
    torch.manual_seed(0)
    model = Stack()
    x = torch.randn(1, 24, 32, generator=torch.Generator().manual_seed(0))
    right = model.layers[0].look(x, mask=regard.Causal()).pooled(3)[0, 1]
    np.testing.assert_allclose(training.map("L0H1", 0), right.detach(), rtol=1e-5, atol=1e-6)


def test_snapshots_are_checked():
    with pytest.raises(regard.errors.InputError, match="give labels"):
        Snapshots(("L0",))
    with pytest.raises(regard.errors.InputError, match="give labels"):
        Snapshots(())
    with pytest.raises(regard.errors.InputError, match="every=0"):
        Snapshots(("L0H0",), every=0)


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
from regard.monitor import RecordingFile, record_file
record_file._SECONDS = 0.0
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
