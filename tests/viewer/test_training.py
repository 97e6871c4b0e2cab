"""A training run as the page is told of it: facts, strips, stored maps."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.recording import Alarm, Limit, Memory, Recording, Writer, open
from regard.recording.schema import CONTENTS
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.viewer.work import Pool
from regard.views.run import CUSTOMARY, MOST_BINS
from support.recordings import write_training
from viewer.served import client_of

WORDS = {"max_score": "largest score", "peak": "heaviest key", "grad_w_q": "norm"}
PLACES = ["L0", "L1", "cross.L0"]
ALARM = Alarm("score growth", "L0H1", 3, "max_score", 60.0, 50.0)


def _values(count, seed=0):
    """(count, 3, 4); the last place has two heads only."""
    values = np.random.default_rng(seed).normal(size=(count, 3, 4)).astype(np.float32)
    values[:, 2, 2:] = np.nan
    return values


def _write(store, values=None, every=1, start=0, **options):
    steps = None if values is None else np.arange(start, start + len(values)) * every
    return write_training(store, values, WORDS, places=PLACES, steps=steps, start=start, **options)


def _opened(values, alarms=(), every=1, **options):
    return Opened(Recording(_write(Memory(), values, every, alarms=alarms, **options)))


@pytest.fixture
def pool():
    one = Pool(2)
    yield one
    one.close()


@pytest.fixture
def ask(pool):
    """Asks as the page does."""

    def get(opened, address):
        return client_of(opened, page={}, pool=pool).get(f"/api/0/{address}")

    return get


def _unpacked(answer):
    sizes = {name: int(answer.headers[f"x-regard-{name}"]) for name in ("planes", "bins", "cells")}
    planes, bins, cells = sizes.values()
    wide = np.frombuffer(answer.content, "<f8", 2 * bins + cells)
    narrow = np.frombuffer(answer.content, "<f4", offset=wide.nbytes)
    numbers, over_value = np.split(narrow, [planes * bins * cells])
    first, last, over = np.split(wide, [bins, 2 * bins])
    return first, last, numbers.reshape(planes, bins, cells), over, over_value


# ── facts ────────────────────────────────────────────────────────────────────────────────────


def test_the_facts(ask):
    pooled = np.eye(3, dtype=np.float32)
    maps = [("L0H1", 20, pooled), ("L0H1", 0, pooled)]
    facts = ask(_opened(_values(5), [ALARM], every=10, maps=maps), "training").json()
    assert facts["samples"] == 5 and facts["steps"] == [0, 40]
    assert facts["places"] == PLACES and facts["heads"] == [4, 4, 2]
    assert facts["maps"] == {"L0H1": [0, 20]} and facts["alarms"] == [ALARM.to_dict()]
    told = facts["statistics"]
    assert told["max_score"]["words"] == "largest score"
    assert told["max_score"]["limit"] == {"side": "above", "value": 50.0, "customary": False}
    assert (told["peak"]["span"], told["peak"]["limit"]) == ("one", None)


def test_the_customary_limits_are_the_monitors():
    from regard.monitor import STATISTICS, Limits

    assert Limits().by_statistic() == CUSTOMARY
    assert set(CUSTOMARY) < set(STATISTICS)


def test_the_limits_that_the_file_has_come_first():
    """Also before alarms, and where the run had none."""
    limits = {"peak": Limit("below", 0.5), "grad_w_q": Limit("above", 2.0)}
    told = answers.training(_opened(_values(3)))["statistics"]  # of a file without alarms
    assert told["max_score"]["limit"] == {"side": "above", "value": 100.0, "customary": True}
    told = answers.training(_opened(_values(3), [ALARM], limits=limits))["statistics"]
    assert told["peak"]["limit"] == {"side": "below", "value": 0.5, "customary": False}
    assert told["max_score"]["limit"] is None
    over = answers.strips(_opened(_values(3), [ALARM], limits=limits), "max_score").over
    assert (over == -1).all()


def test_a_run_that_goes_on_is_followed(tmp_path):
    path, values = tmp_path / "run.regard", _values(9)
    with Writer(path) as writer:
        writer.note({"contents": CONTENTS})
        opened = Opened(open(path))
        assert answers.training(opened)["samples"] == 0
        _write(writer, values[:4])
        first = answers.training(opened)
        _write(writer, values[4:], start=4)
        _write(writer, alarms=[ALARM])
        second = answers.training(opened)
    assert (first["samples"], second["samples"]) == (4, 9)
    assert second["revision"] > first["revision"]
    assert not first["alarms"] and second["alarms"] == [ALARM.to_dict()]
    np.testing.assert_array_equal(answers.strips(opened, "peak").planes[0], values.reshape(9, 12))
    opened.close()


# ── strips ───────────────────────────────────────────────────────────────────────────────────


def test_a_short_run_has_every_number(ask):
    values = _values(7)
    answer = ask(_opened(values, every=5), "strips?statistic=max_score")
    first, last, planes, over, _ = _unpacked(answer)
    assert answer.headers["x-regard-heads"] == "4"
    assert first.tolist() == last.tolist() == [0, 5, 10, 15, 20, 25, 30]
    np.testing.assert_array_equal(planes, values.reshape(1, 7, 12))
    assert (over == -1).all()


LOSS = [4.0, np.nan, np.inf, 1.0, 2.0]


def test_the_facts_of_the_loss(ask):
    facts = ask(_opened(_values(5), every=10, loss=LOSS), "training").json()["loss"]
    assert facts == {
        "samples": 5, "first": {"value": 4, "step": 0}, "last": {"value": 2, "step": 40},
        "least": {"value": 1, "step": 30}, "largest": {"value": 4, "step": 0},
        "not_finite": 2, "first_not_finite": 10,
    }  # fmt: skip
    assert ask(_opened(_values(5)), "training").json()["loss"] is None
    broken = ask(_opened(_values(1), loss=[np.nan]), "training").json()["loss"]
    assert broken["least"] is None and broken["last"] == {"value": None, "step": 0}


def test_the_loss_has_the_bins_of_the_strips(ask):
    """Two cells: the number where it is finite, and whether it is not."""
    opened = _opened(_values(5), every=10, loss=LOSS)
    first, last, planes, _, _ = _unpacked(ask(opened, "strips?statistic=loss"))
    of_heads = _unpacked(ask(opened, "strips?statistic=peak"))
    assert (first.tolist(), last.tolist()) == (of_heads[0].tolist(), of_heads[1].tolist())
    np.testing.assert_array_equal(planes[0, :, 0], [4, np.nan, np.nan, 1, 2])
    np.testing.assert_array_equal(planes[0, :, 1], [0, 1, 1, 0, 0])
    first, _, planes, _, _ = _unpacked(ask(opened, "strips?statistic=loss&bins=2"))
    assert first.tolist() == _unpacked(ask(opened, "strips?statistic=peak&bins=2"))[0].tolist()
    np.testing.assert_array_equal(planes[:, :, 0], [[4, 1.5], [4, 1], [4, 2]])
    assert planes[2, :, 1].tolist() == [1, 1]
    answer = ask(_opened(_values(5)), "strips?statistic=loss")
    assert answer.status_code == 404 and "monitor.step(loss=loss)" in answer.text


@pytest.mark.parametrize(("count", "bins"), [(MOST_BINS + 1, MOST_BINS), (1000, 7), (12, 5)])
def test_a_long_run_is_binned(ask, count, bins):
    values = _values(count)
    values[: count // 2, 1, 3] = np.nan
    answer = ask(_opened(values), f"strips?statistic=peak&bins={bins}")
    first, last, planes, _, _ = _unpacked(answer)
    assert planes.shape == (3, bins, 12)
    assert first[0] == 0 and last[-1] == count - 1
    np.testing.assert_array_equal(first[1:], last[:-1] + 1)  # every step is in one bin
    flat = values.reshape(count, 12)
    for bin, (start, stop) in enumerate(zip(first.astype(int), last.astype(int), strict=True)):
        part = flat[start : stop + 1]
        known = ~np.isnan(part).all(axis=0)
        expected = np.full((3, 12), np.nan)
        expected[:, known] = [
            np.nanmean(part[:, known], axis=0, dtype=np.float64),
            np.nanmin(part[:, known], axis=0),
            np.nanmax(part[:, known], axis=0),
        ]
        np.testing.assert_allclose(planes[:, bin], expected, rtol=1e-6)


def test_the_first_step_over_the_limit_is_of_all_steps():
    """Also where it lies in the middle of a bin."""
    values = np.zeros((5000, 3, 4), np.float32)
    values[1234, 0, 1] = 51
    values[1235:, 0, 1] = 70
    values[4999, 2, 0] = 50.5
    values[:, 1, 0] = 50  # at it, not over it
    found = answers.strips(_opened(values, [ALARM], every=2), "max_score")
    over = found.over.reshape(3, 4)
    assert over[0, 1] == 2468 and over[2, 0] == 9998 and (over >= 0).sum() == 2
    assert found.over_value.reshape(3, 4)[0, 1] == 51
    assert np.isnan(found.over_value.reshape(3, 4)[1, 0])
    values = np.ones((4, 3, 4), np.float32)  # and where the limit is one from below
    values[2:, 1, 2] = 0.1
    values[:, 2, 3] = np.nan
    low = Alarm("collapse", "L1H2", 2, "peak", 0.1, 0.5)
    over = answers.strips(_opened(values, [low]), "peak").over.reshape(3, 4)
    assert over[1, 2] == 2 and (over >= 0).sum() == 1


def test_numbers_that_are_infinite_pass(ask):
    values = _values(10)
    values[4, 0, 0] = np.inf
    _, _, planes, _, _ = _unpacked(ask(_opened(values), "strips?statistic=peak&bins=2"))
    assert planes[0, 0, 0] == np.inf and np.isfinite(planes[:, 1, 0]).all()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("strips", 404), ("strips?statistic=nothing", 404), ("strips?statistic=peak&bins=0", 404),
        ("strips?statistic=peak&bins=2049", 404), ("strips?statistic=peak&bins=x", 400),
        ("snapshot?head=L0H0", 400), ("snapshot?step=1", 400),
        ("snapshot?head=L0H0&step=1", 404), ("snapshot?head=../L0H0&step=1", 404),
    ],
)  # fmt: skip
def test_what_is_not_there(ask, address, status):
    answer = ask(_opened(_values(3)), address)
    assert answer.status_code == status and set(answer.json()) == {"error"}


# ── maps ─────────────────────────────────────────────────────────────────────────────────────


def test_the_map_that_was_stored_last(ask):
    early, late = np.random.default_rng(0).random((2, 3, 5), np.float32)
    opened = _opened(_values(3), maps=[("L0H1", 10, early), ("L0H1", 30, late)])
    for step, stored, pooled in [(10, 10, early), (29, 10, early), (31, 30, late)]:
        answer = ask(opened, f"snapshot?head=L0H1&step={step}")
        assert answer.headers["x-regard-step"] == str(stored)
        shape = int(answer.headers["x-regard-rows"]), int(answer.headers["x-regard-columns"])
        np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(shape), pooled)
    with pytest.raises(InputError, match="up to step 9; its first is of step 10"):
        answers.snapshot(opened, "L0H1", 9)
    with pytest.raises(InputError, match="it has none"):
        answers.snapshot(opened, "L0H0", 9)
