"""What lies apart from its layer is told, and noise is not."""

from __future__ import annotations

import numpy as np
import pytest

from regard.recording import STATISTICS
from regard.study import outliers
from regard.study.outliers import _TELLING, Outlier
from regard.study.surprise import deviations


class Grids:
    """Merged numbers that are nothing but their grids."""

    def __init__(self, keys: int = 100, /, **grids: np.ndarray) -> None:
        self._grids, self.keys = grids, keys
        (shape,) = {grid.shape for grid in grids.values()}
        self._unknown = np.full(shape, np.nan)
        self.stacks = {"": shape}
        self.tokens, self.documents = 1000, 10

    def grid(self, name, stack=None):
        """As merged statistics have it."""
        return self._grids.get(name, self._unknown)


def test_robust_deviations():
    given = np.array([0.1, 0.2, 0.3, 0.9])
    found, middle = deviations(given)
    np.testing.assert_allclose(found, np.abs(given - 0.25) / (1.4826 * 0.1 + 0.02))
    assert middle == 0.25 and (deviations(np.full(4, 0.5))[0] == 0).all()
    found, middle = deviations(np.full(3, np.nan))
    assert np.isnan(found).all() and np.isnan(middle)
    assert np.isfinite(deviations(np.array([0.0, 0.2, 0.1, np.inf]))[0][:3]).all()


def test_noise_in_a_layer_of_equals_is_no_news():
    grid = np.full((3, 8), 0.25) + np.random.default_rng(0).normal(0, 1e-4, (3, 8))
    assert outliers(Grids(previous=grid)) == []
    grid[1, 5] = 0.9
    (one,) = outliers(Grids(previous=grid))
    assert (one.label, one.statistic) == ("L1H5", "previous") and one.deviations > 20
    assert one.value == 0.9 and one.median == pytest.approx(0.25, abs=1e-3)


def test_a_head_is_named_once_and_the_oddest_come_first():
    first, self_ = np.full((2, 6), 0.1), np.full((2, 6), 0.1)
    first[0, 2], self_[0, 2], self_[1, 4], self_[1, 1] = 0.9, 0.5, 0.7, 0.3
    found = outliers(Grids(previous=first, self=self_), n=2)
    assert [(one.label, one.statistic) for one in found] == [("L0H2", "previous"), ("L1H4", "self")]
    assert len(outliers(Grids(previous=first, self=self_), n=9)) == 3


def test_unknown_heads_are_passed_over():
    grid = np.full((2, 5), np.nan)
    grid[0] = [0.1, 0.1, np.nan, 0.1, 0.8]
    (one,) = outliers(Grids(previous=grid))
    assert one.label == "L0H4"


def test_entropies_range_as_far_as_there_are_keys():
    entropy = np.full((1, 6), 2.0)
    entropy[0, 2] = 3.5
    # a nat and a half is far from the others among 3 keys, and little among a million
    near, far = (outliers(Grids(n, entropy=entropy))[0] for n in (3, 1_000_000))
    assert near.deviations == pytest.approx(far.deviations * np.log(1e6) / np.log(3))


def test_scores_range_as_far_as_they_do():
    grid = np.array([[10.0, 10.0, 10.0, 10.5], [500.0, 500.0, 500.0, 10.0]])
    (one,) = outliers(Grids(max_score=grid))
    assert one.label == "L1H3" and one.deviations > 40


@pytest.mark.parametrize("statistic", _TELLING)
def test_every_one_is_a_sentence(statistic):
    assert statistic in STATISTICS
    one = Outlier("L0H1", statistic, 0.62, 0.13, 9.0, (0, 1))
    assert one.sentence.startswith("L0H1 ") and "0.62" in one.sentence
    assert one.sentence.endswith("its layer's median is 0.13")
    assert one.as_dict()["sentence"] == one.sentence


def test_the_first_token_is_no_discovery():
    """Neither mass on it, nor that a head which parks there looks at one key."""
    first, sharp = np.full((2, 6), 0.1), np.full((2, 6), 0.1)
    first[0, 2] = sharp[0, 2] = sharp[1, 4] = 0.95
    found = outliers(Grids(first=first, sharp=sharp))
    assert [(one.label, one.statistic) for one in found] == [("L1H4", "sharp")]


def test_documents_of_a_few_tokens_say_nothing():
    sharp = np.full((2, 6), 0.1)
    sharp[1, 4] = 1.0
    few = Grids(first=np.full((2, 6), 0.1), sharp=sharp)
    few.tokens, few.documents = 5000, 1000
    assert outliers(few) == []
