"""The largest score of a row, before and after everything that changes scores."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from regard.engine.backends.dense import attend_densely
from regard.mask import Causal
from regard.score import BiasTable, ScoreRule
from regard.shapes import AttentionShape
from regard.summary import MaxLogit, MaxScore

INF = torch.inf
SHAPE = AttentionShape.of((1, 2, 1), (1, 3, 1))


def test_max_score_looks_at_visible_keys_only() -> None:
    scaled = torch.tensor([[[1.0, 5.0, 9.0], [-3.0, -4.0, -2.0]]])
    visible = torch.tensor([[[True, True, False], [True, True, False]]])
    found = MaxScore().define(SimpleNamespace(scaled=scaled, visible=visible), SHAPE)
    assert found.tolist() == [[5.0, -3.0]]


def test_max_logit_is_of_the_final_scores() -> None:
    masked = torch.tensor([[[1.0, 7.0, -INF], [-INF, -INF, -INF]]])
    assert MaxLogit().define(SimpleNamespace(masked=masked), SHAPE).tolist() == [[7.0, -INF]]


def test_a_row_that_sees_nothing_has_no_largest() -> None:
    hidden = SimpleNamespace(scaled=torch.ones(1, 2, 3), visible=torch.zeros(1, 2, 3) > 0)
    assert MaxScore().define(hidden, SHAPE).tolist() == [[-INF, -INF]]


def test_without_keys() -> None:
    nothing = torch.ones(1, 2, 0)
    matrix = SimpleNamespace(scaled=nothing, visible=nothing > 0, masked=nothing)
    shape = AttentionShape.of((1, 2, 1), (1, 0, 1))
    assert MaxScore().define(matrix, shape).tolist() == [[-INF, -INF]]
    assert MaxLogit().define(matrix, shape).tolist() == [[-INF, -INF]]


def test_nan_shows() -> None:
    masked = torch.tensor([[[1.0, float("nan"), -INF]]])
    assert MaxLogit().define(SimpleNamespace(masked=masked), SHAPE).isnan().all()


def test_cap_bias_and_sink_do_not_touch_max_score() -> None:
    q, k = torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[1.0], [2.0], [30.0]]])
    bias = BiasTable(torch.tensor([[100.0, -100.0, 0.0], [0.0, 0.0, -INF]]))
    rule = ScoreRule(0.5, softcap=10.0, bias=bias, sink=torch.tensor([1000.0]))
    steps = attend_densely(q, k, k, Causal(), rule, torch.float64)
    # row 0 sees keys 0 and 1; row 1 keys 0 and 1, because its bias hides key 2
    torch.testing.assert_close(
        MaxScore().define(steps, SHAPE), torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    )
    capped = 10 * torch.tanh(torch.tensor([[1.0, 3.0]], dtype=torch.float64) / 10)
    expected = capped + torch.tensor([[100.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(MaxLogit().define(steps, SHAPE), expected)
