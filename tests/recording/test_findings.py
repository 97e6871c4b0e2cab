"""What is called surprising is, and noise is not."""

from __future__ import annotations

import numpy as np
import pytest

from recording.test_statistics import sinking
from regard.errors import InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Memory, Recording, most_surprising, surprise
from regard.recording.findings import standing_out
from regard.testing.recordings import Chunk, write_prompt, write_recording


class Grids:
    """A recording that is nothing but its grids, and the one text that is in it."""

    statistic_kinds = STATISTICS

    def __init__(self, /, **grids: np.ndarray) -> None:
        self._grids = grids
        (shape,) = {grid.shape for grid in grids.values()}
        self._unknown = np.full(shape, np.nan)
        self.stacks, self.places = {"": shape}, {}
        self.prompts = [self]

    def grid(self, name, stack=None, prompt=0):
        """As a recording has it."""
        return self._grids.get(name, self._unknown)


def test_robust_deviations_within_a_layer():
    grid = np.array([[0.1, 0.2, 0.3, 0.9], [0.5, 0.5, 0.5, 0.5]])
    found = surprise(Grids(first=grid), "first")
    scale = 1.4826 * 0.1 + 0.02
    np.testing.assert_allclose(found[0], np.abs(grid[0] - 0.25) / scale)
    assert (found[1] == 0).all()


def test_noise_in_a_layer_of_equals_is_no_news():
    grid = np.full((3, 8), 0.25) + np.random.default_rng(0).normal(0, 1e-4, (3, 8))
    assert surprise(Grids(first=grid), "first").max() < 0.1
    assert most_surprising(Grids(first=grid)) == []
    grid[1, 5] = 0.9
    (one,) = most_surprising(Grids(first=grid))
    assert (one.label, one.statistic) == ("L1H5", "first") and one.deviations > 20
    assert one.value == 0.9 and one.median == pytest.approx(0.25, abs=1e-3)


def test_a_head_is_named_once_and_the_oddest_come_first():
    first, self_ = np.full((2, 6), 0.1), np.full((2, 6), 0.1)
    first[0, 2], self_[0, 2], self_[1, 4], self_[1, 1] = 0.9, 0.5, 0.7, 0.3
    found = most_surprising(Grids(first=first, self=self_), n=2)
    assert [(one.label, one.statistic) for one in found] == [("L0H2", "first"), ("L1H4", "self")]
    assert len(most_surprising(Grids(first=first, self=self_), n=9)) == 3


def test_unknown_heads_are_passed_over():
    grid = np.full((2, 5), np.nan)
    grid[0] = [0.1, 0.1, np.nan, 0.1, 0.8]
    (one,) = most_surprising(Grids(first=grid))
    assert one.label == "L0H4" and np.isnan(surprise(Grids(first=grid), "first")[1]).all()
    scores = np.array([[0.0, 0.2, 0.1, np.inf]])
    assert np.isfinite(surprise(Grids(max_score=scores), "max_score")[0, :3]).all()


def test_merged_numbers_are_asked_alike():
    grid = np.full((2, 6), 0.1)
    grid[1, 3] = 0.8
    (one,) = standing_out(Grids(first=grid), keys=100)
    assert (one.label, one.statistic) == ("L1H3", "first")
    entropy = np.full((1, 6), 2.0)
    entropy[0, 2] = 3.5
    # a nat and a half is far from the others among 3 keys, and little among a million
    near, far = (standing_out(Grids(entropy=entropy), keys=n)[0] for n in (3, 1_000_000))
    assert near.deviations == pytest.approx(far.deviations * np.log(1e6) / np.log(3))


def test_scores_range_as_far_as_they_do():
    grid = np.array([[10.0, 10.0, 10.0, 10.5], [500.0, 500.0, 500.0, 10.0]])
    found = surprise(Grids(max_score=grid), "max_score")
    assert found[0].max() < 0.1 and found[1, 3] > 40


def test_a_recording_is_asked():
    query, key = sinking()
    store, _ = write_recording(
        chunks=[Chunk((0, 200), (0, 200), Causal())], query=query, key=key, exact=False
    )
    rec = Recording(store)
    one = most_surprising(rec)[0]
    assert one.label == "L0H0" and one.deviations > 3
    assert surprise(rec, "entropy").shape == (1, 4)
    with pytest.raises(InputError, match="no statistic"):
        surprise(rec, "oddity")


def test_all_stacks_are_looked_at():
    query, key = sinking()
    store, _ = write_recording(chunks=[Chunk((0, 9), (0, 9))], stack="encoder", seed=1)
    write_prompt(
        store, [Chunk((0, 200), (0, 200), Causal())], query=query, key=key, stack="decoder",
        tokens=False, note=False,
    )  # fmt: skip
    assert "decoder.L0H0" in [one.label for one in most_surprising(Recording(store), n=9)]


def test_nothing_recorded_is_not_surprising():
    store = Memory()
    store.note({"contents": "attention/1"})
    assert most_surprising(Recording(store)) == []
