"""Entropy, visible keys and their ratio, on rows small enough to compute by hand."""

from __future__ import annotations

from math import log
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import regard
from regard.shapes import AttentionShape
from regard.summary import Entropy, Visible, normalize

SHAPE = AttentionShape.of((1, 1, 4), (1, 4, 4))


def entropy(weights: list[float], sink: float = 0.0) -> float:
    matrix = SimpleNamespace(
        weights=torch.tensor([[weights]], dtype=torch.float64),
        sink=torch.tensor([[sink]], dtype=torch.float64),
    )
    return Entropy().define(matrix, SHAPE).item()


@pytest.mark.parametrize(
    ("weights", "nats"),
    [
        ([1.0, 0.0, 0.0, 0.0], 0.0),
        ([0.5, 0.5, 0.0, 0.0], log(2)),
        ([0.25] * 4, log(4)),
        ([0.5, 0.25, 0.25, 0.0], 1.5 * log(2)),
        ([0.0] * 4, 0.0),  # a row that sees nothing
    ],
)
def test_entropy_in_nats(weights: list[float], nats: float) -> None:
    assert entropy(weights) == pytest.approx(nats, abs=1e-15)


def test_the_sink_is_one_more_key() -> None:
    assert entropy([0.25, 0.25, 0.0, 0.0], sink=0.5) == pytest.approx(1.5 * log(2))
    assert entropy([0.0] * 4, sink=1.0) == 0.0


def test_nan_shows() -> None:
    assert torch.tensor(entropy([0.5, float("nan"), 0.0, 0.0])).isnan()


def test_a_weight_of_zero_has_a_finite_derivative() -> None:
    weights = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    found = Entropy().define(SimpleNamespace(weights=weights, sink=torch.zeros(1, 1)), SHAPE)
    found.sum().backward()
    assert weights.grad is not None and weights.grad.isfinite().all()


def test_visible_counts_keys_and_not_the_sink() -> None:
    visible = torch.tensor([[[True, False, True], [False, False, False]]])
    found = Visible().define(SimpleNamespace(visible=visible), SHAPE)
    assert found.tolist() == [[2, 0]] and found.dtype == torch.int64
    q, k = torch.ones(1, 2, 4), torch.ones(1, 3, 4)
    a = regard.attend(q, k, k, mask=regard.Causal(), sink=torch.zeros(1))
    assert a.summarize(Visible())[Visible()].tolist() == [[2, 3]]


def test_normalized_is_a_share_of_the_most_there_could_be() -> None:
    found = normalize(torch.tensor([log(4), log(2), log(2)]), torch.tensor([4, 4, 2]), sink=False)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 1.0]))


def test_normalized_is_zero_where_there_is_no_choice() -> None:
    found = normalize(torch.zeros(2), torch.tensor([1, 0]), sink=False)
    assert found.tolist() == [0.0, 0.0]


def test_the_sink_is_a_choice() -> None:
    found = normalize(torch.tensor([log(2), 0.0]), torch.tensor([1, 0]), sink=True)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalized_keeps_the_dtype(dtype: torch.dtype) -> None:
    assert normalize(torch.ones(1, dtype=dtype), torch.tensor([3]), sink=False).dtype == dtype


def test_equal_scores_use_every_key_there_is() -> None:
    def normalized(sink: Tensor | None) -> list[list[float]]:
        q, k = torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)
        a = regard.attend(q, k, k, mask=regard.Causal(), sink=sink)
        return a.entropy(normalized=True).tolist()

    assert normalized(None) == [[0.0, pytest.approx(1.0), pytest.approx(1.0)]]
    assert normalized(torch.zeros(1)) == [[pytest.approx(1.0)] * 3]
