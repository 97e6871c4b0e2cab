"""A training run in the terminal and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.draw import Paper, finished, plain
from regard.draw.pages import overview_lines, run_lines
from regard.recording import Alarm, Limit, Memory, Recording, open
from regard.recording.format.write import extend
from regard.views.overview import whole_overview
from support.recordings import on_disk, write_training

WORDS = {"max_score": "largest score", "grad_w_q": "norm"}
ALARM = Alarm("score growth", "L1H0", 20, "max_score", 120.5, 100.0)


def _noted(store, alarms=()):
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    values[0, 1, 1] = np.nan
    return write_training(
        store, {"max_score": values, "grad_w_q": np.full_like(values, np.nan)}, WORDS,
        steps=[0, 10, 20], limits={"max_score": Limit("above", 100)}, alarms=alarms,
        maps=[("L0H1", 10, np.eye(3))],
    )  # fmt: skip


@pytest.fixture
def bare():
    """A run and nothing else."""
    return Recording(_noted(Memory(), [ALARM]))


def _run(recording):
    paper = Paper(width=80)
    return plain(finished(run_lines(recording.training, paper), paper))


def _overview(recording):
    paper = Paper(width=80)
    return plain(finished(overview_lines(recording, 0, "entropy", paper), paper))


def test_its_course_and_its_alarms(bare):
    lines = _run(bare)
    assert lines[0] == "training: 3 sampled steps, 0–20, 2 layers"
    assert lines[1].split() == ["statistic", "limit", "first", "last", "least", "largest"]
    assert lines[2].split() == "max_score > 100 1.00 9.50 0 L0H0 11.0 L1H1".split()
    assert lines[3].split() == ["grad_w_q", "nan", "nan"]  # never known
    assert "score growth: L1H0 at step 20, max_score 120.5, above 100" in lines
    assert lines[-1] == "1 map of 1 head stored; regard view FILE shows them"


def _with_loss(loss):
    values = np.ones((len(loss), 2, 2))
    return Recording(write_training(Memory(), values, loss=loss))


def test_the_loss():
    assert _run(_with_loss([4.0, 1.0, 2.0]))[1] == (
        "loss 4.00 at step 0, 2.00 at step 2, least 1.00 at step 1"
    )
    lines = _run(_with_loss([4.0, 1.0, np.nan, np.inf]))
    assert lines[1] == "loss 4.00 at step 0, NaN or infinite at step 3, least 1.00 at step 1"
    assert lines[2] == "the loss is NaN or infinite in 2 sampled steps, the first of them 2"


def test_as_json(bare):
    found = json.loads(json.dumps(whole_overview(bare)["training"], allow_nan=False))
    score = found["statistics"]["max_score"]
    assert score["least"] == {"value": 0, "head": "L0H0", "step": 0}
    assert score["largest"] == {"value": 11, "head": "L1H1", "step": 20}
    assert score["limit"] == {"side": "above", "value": 100, "customary": False}
    assert found["statistics"]["grad_w_q"]["median_last"] is None
    assert found["alarms"] == [ALARM.to_dict()] and found["maps"] == {"L0H1": [10]}
    assert found["steps"] == [0, 20] and found["samples"] == 3


def test_many_alarms_are_counted():
    lines = _run(Recording(_noted(Memory(), [ALARM] * 14)))
    assert "14 alarms" in lines and "and 2 more" in lines
    assert "no alarm: no head stayed over a limit" in _run(Recording(_noted(Memory())))


def test_the_overview_has_it_with_and_without_a_text(bare, tmp_path):
    alone = _overview(bare)
    assert "nothing was recorded yet" not in "".join(alone)
    assert alone[-1] == _run(bare)[-1]
    assert whole_overview(bare)["training"]["samples"] == 3
    path = on_disk(tmp_path / "run.regard")
    with open(path) as recording:
        assert _run(recording) == []
        assert whole_overview(recording)["training"] is None
    with extend(path) as writer:
        _noted(writer)
    with open(path) as recording:
        both = _overview(recording)
    assert any(line.startswith("prompt 0") for line in both)
    assert "training: 3 sampled steps, 0–20, 2 layers" in both
