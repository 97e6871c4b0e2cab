"""Training runs inside a recording; what lies in their notes is in test_hostile_notes.py."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import FileError, InputError
from regard.recording import Alarm, Memory, Recording, Training
from support.recordings import write_training

WORDS = {"max_score": "largest score", "peak": "heaviest weight"}
ALARM = Alarm("score growth", "L1H0", 20, "max_score", 120.5, 100.0)


def _memory(places=("L0", "L1"), pieces=((0, [0, 10]), (2, [20]))):
    store = write_training(Memory(), statistics=WORDS, places=places)
    for start, steps in pieces:
        column = np.array(steps, np.float32)[:, None, None] + np.zeros((2, 3))
        values = {name: column + number for number, name in enumerate(WORDS)}
        write_training(store, values, WORDS, steps=steps, start=start, places=places)
    return store


def test_pieces_are_put_together():
    training = Recording(_memory()).training
    assert isinstance(training, Training) and len(training) == 3
    assert training.steps.tolist() == [0, 10, 20] and training.places == ("L0", "L1")
    assert training["peak"].shape == (3, 2, 3) and training["peak"].dtype == np.float32
    assert training["peak"][:, 1, 2].tolist() == [1, 11, 21]
    assert list(training.statistics) == list(WORDS) == list(training.words)
    assert repr(Recording(_memory())) == "Recording(a model, 0 prompts, a training run)"


def test_a_recording_without_training():
    store = Memory()
    store.note({"contents": "attention/1"})
    training = Recording(store).training
    assert len(training) == 0 and training.statistics == {} and training.alarms == ()
    assert training.places == () and training.maps == {}
    with pytest.raises(InputError, match="no training was monitored"):
        training["peak"]


def test_steps_that_are_told_again():
    training = Training(_memory(pieces=((0, [0, 10, 20]), (3, [10, 30]))))
    assert training.steps.tolist() == [0, 10, 20, 30]
    assert training["max_score"][:, 0, 0].tolist() == [0, 10, 20, 30]


def test_an_incomplete_piece_is_left_out():
    store = _memory()
    store.add("training/steps/3", np.array([30], np.int64))
    store.add("training/peak/3", np.zeros((1, 2, 3), np.float32))  # max_score was not written
    assert Training(store).steps.tolist() == [0, 10, 20]


def test_the_loss_of_some_pieces():
    store = _memory()  # as files were before there was a loss
    assert Training(store).loss.size == 3 and not Training(store).has_loss.any()
    store.add("training/loss/2", np.array([np.inf], np.float32))
    training = Training(store)
    np.testing.assert_array_equal(training.loss, [np.nan, np.nan, np.inf])
    assert training.has_loss.tolist() == [False, False, True] and training.loss.dtype == np.float32
    assert list(training.words) == list(WORDS)


@pytest.mark.parametrize("wrong", [np.zeros(2, np.float32), np.zeros(1), np.zeros((1, 1), "f4")])
def test_a_piece_whose_loss_lies_is_left_out(wrong):
    store = _memory()
    store.add("training/loss/2", wrong)
    assert Training(store).steps.tolist() == [0, 10]


def test_alarms_and_maps():
    store = _memory()
    store.note({"training/alarms": json.dumps([ALARM.to_dict()])})
    store.add("training/map/cross.L0H1/20", np.eye(3, dtype=np.float32))
    training = Training(store)
    assert training.alarms == (ALARM,)
    assert str(ALARM) == "score growth: L1H0 at step 20, max_score 120.5, above 100"
    assert training.maps == {"cross.L0H1": [20]}
    assert training.map("cross.L0H1", 20).tolist() == np.eye(3).tolist()
    with pytest.raises(InputError, match="no map of L0H0 at step 20"):
        training.map("L0H0", 20)


@pytest.mark.parametrize("wrong", ["dtype", "axes", "length", "steps"])
def test_tensors_that_lie_are_left_out(wrong):
    store = _memory(pieces=())
    steps = np.array([0, 1], np.int32 if wrong == "steps" else np.int64)
    shape = {"axes": (2, 6), "length": (1, 2, 3)}.get(wrong, (2, 2, 3))
    store.add("training/steps/0", steps)
    store.add("training/peak/0", np.zeros((2, 2, 3), np.float32))
    store.add("training/max_score/0", np.zeros(shape, "f8" if wrong == "dtype" else "f4"))
    training = Training(store)
    assert len(training) == 0 and training["peak"].shape[0] == 0


def test_sizes_that_cannot_be():
    store = _memory(places=["L0"])
    with pytest.raises(FileError, match="2 places, 1 named"):
        Training(store)["peak"]
    store = _memory(places=[f"L{n}" for n in range(60_000)])
    for name in ("max_score", "peak"):
        store.add(f"training/{name}/3", np.zeros((1, 1, 5_000), np.float32))
    store.add("training/steps/3", np.array([30], np.int64))
    with pytest.raises(FileError, match="4 steps of 60000 × 5000 heads"):
        Training(store)["peak"]
