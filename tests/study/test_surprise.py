"""Surprise: how far a head is from its layer, in robust deviations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from regard import study
from regard.study import Finding, HeadStudy
from regard.study.surprise import deviations


def head(layer: int, number: int, compared: float) -> HeadStudy:
    one = Finding("previous", compared, 0.0, 0.3, 0.0, "", compared=compared)
    return HeadStudy(f"L{layer}H{number}", "", layer, number, 0.0, 1.0, (one,))


def test_one_head_among_equals() -> None:
    layer = [head(0, n, 0.1) for n in range(7)] + [head(0, 7, 0.9)]
    found = study.surprises(layer)
    assert found["L0H7", "previous"] == pytest.approx(0.8 / 0.02)
    assert found["L0H0", "previous"] == 0


def test_layers_are_compared_within_themselves() -> None:
    layers = [head(0, n, 0.1) for n in range(4)] + [head(1, n, 0.8) for n in range(4)]
    assert set(study.surprises(layers).values()) == {0.0}


def test_layers_of_one_head_are_compared_with_their_stack() -> None:
    single = [head(n, 0, 0.9 if n == 5 else 0.1) for n in range(6)]
    found = study.surprises(single)
    assert found["L5H0", "previous"] > 30 and found["L0H0", "previous"] == 0


def test_what_is_not_known_is_left_out() -> None:
    layer = [head(0, n, 0.1) for n in range(3)] + [head(0, 3, math.nan)]
    assert ("L0H3", "previous") not in study.surprises(layer)


def test_it_is_how_far_the_statistic_lies_from_its_layer(planted: Any) -> None:
    found = study.surprises(study.patterns(planted))
    grid = np.stack([deviations(layer)[0] for layer in planted.recording.grid("previous")])
    mine = np.array([found[label, "previous"] for label in planted.labels()]).reshape(grid.shape)
    np.testing.assert_allclose(mine, grid, rtol=1e-6)


def test_a_key_that_just_becomes_a_sink_is_no_news() -> None:
    """The mass on sinks jumps where a key passes 0.3; what is compared does not."""
    from support.recordings.planted import mixed, record_planted, targets, text

    ids = text(150)
    aim = targets(ids)["uniform"]
    weights = np.stack([mixed(aim, share, 1.0, 0.1, 1) for share in (0.26, 0.27, 0.28, 0.3)])
    heads = study.patterns(record_planted(weights[None], ids))
    assert [one.sink > 0 for one in heads] == [False, False, True, True]  # 0.03 comes by chance
    assert max(study.surprises(heads)[one.label, "sink"] for one in heads) < 2
