"""The heaviest keys: order, ties, and rows with too few."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.summary import Peak, Top, TopKeys

INF = torch.inf


def asked(summary: Top | Peak, scores: list[list[float]]) -> TopKeys:
    masked = torch.tensor([scores])
    weights = masked.softmax(-1).nan_to_num()  # a row of −∞ sees nothing
    shape = AttentionShape.of((1, masked.shape[-2], 1), (1, masked.shape[-1], 1))
    return summary.define(SimpleNamespace(masked=masked, weights=weights), shape)


def test_largest_first() -> None:
    found = asked(Top(2), [[1.0, 3.0, 2.0], [0.0, -1.0, -2.0]])
    assert found.keys.tolist() == [[[1, 2], [0, 1]]]
    shares = torch.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, -2.0]]).softmax(-1)
    expected = torch.stack([shares[0, [1, 2]], shares[1, [0, 1]]])[None]
    torch.testing.assert_close(found.weights, expected)


def test_equal_scores_go_to_the_lower_key() -> None:
    assert asked(Top(3), [[5.0, 7.0, 5.0, 7.0, 5.0]]).keys.tolist() == [[[1, 3, 0]]]


def test_scores_decide_where_weights_are_equal() -> None:
    # in single precision both of the last weights are 0
    found = asked(Top(3), [[-500.0, 0.0, -400.0]])
    assert found.keys.tolist() == [[[1, 2, 0]]]
    assert found.weights.tolist() == [[[1.0, 0.0, 0.0]]]


def test_fewer_keys_than_asked() -> None:
    found = asked(Top(4), [[-INF, 2.0, -INF], [-INF, -INF, -INF]])
    assert found.keys.tolist() == [[[1, -1, -1, -1], [-1, -1, -1, -1]]]
    assert found.weights.tolist() == [[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]


def test_without_keys() -> None:
    found = asked(Top(2), [[], []])
    assert found.keys.tolist() == [[[-1, -1], [-1, -1]]]
    assert found.weights.tolist() == [[[0.0, 0.0], [0.0, 0.0]]]


def test_the_peak_is_the_first_of_the_top() -> None:
    scores = [[1.0, 3.0, 3.0], [-INF, -INF, -INF]]
    best, peak = asked(Top(1), scores), asked(Peak(), scores)
    assert peak.keys.tolist() == [[1, -1]]
    assert torch.equal(peak.weights, best.weights[..., 0])


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "3", None])
def test_k_is_a_whole_number_from_one(k: Any) -> None:
    with pytest.raises(InputError, match=r"Top\(k=.*\); give a whole number ≥ 1"):
        Top(k)
