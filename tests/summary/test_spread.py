"""How far a row looks and how many keys it uses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import regard
from regard.shapes import AttentionShape
from regard.summary import Concentration, Distance


def distance(weights: list[list[float]], position: int) -> list[float]:
    given = torch.tensor([weights])
    shape = AttentionShape.of((1, given.shape[-2], 1), (1, given.shape[-1], 1))
    matrix = SimpleNamespace(weights=given, position=position)
    return Distance().define(matrix, shape)[0].tolist()


def test_distance_is_a_mean_under_the_weights() -> None:
    assert distance([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.25, 0.25, 0.5]], 0) == [0.0, 1.0, 0.75]


def test_distance_counts_from_where_the_query_stands() -> None:
    assert distance([[1.0, 0.0, 0.0, 0.0]], 3) == [3.0]
    assert distance([[0.0, 0.0, 0.0, 1.0]], 3) == [0.0]
    assert distance([[0.5, 0.5]], -2) == [2.5]


def test_a_row_that_sees_nothing_is_no_distance_away() -> None:
    assert distance([[0.0, 0.0]], 0) == [0.0]


def test_the_last_query_stands_at_the_last_key() -> None:
    q, k = torch.zeros(2, 4), torch.zeros(4, 4)
    a = regard.attend(q, k, k, mask=regard.Window(0))
    assert a.distance().tolist() == [0.0, 0.0]
    a = regard.attend(q, k, k, mask=regard.Prefix(1))
    assert a.distance().tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("weights", "found"),
    [([1.0, 0.0], 1.0), ([0.5, 0.5], 0.5), ([0.25] * 4, 0.25), ([0.0, 0.0], 0.0)],
)
def test_concentration_is_one_over_the_keys_in_use(weights: list[float], found: float) -> None:
    matrix = SimpleNamespace(weights=torch.tensor([[weights]]))
    shape = AttentionShape.of((1, 1, 1), (1, len(weights), 1))
    assert Concentration().define(matrix, shape).item() == found


def test_the_sink_is_not_a_key_in_use() -> None:
    q = torch.zeros(1, 1, 4)
    a = regard.attend(q, q, q, sink=torch.zeros(1))
    assert a.concentration().item() == pytest.approx(0.25)
