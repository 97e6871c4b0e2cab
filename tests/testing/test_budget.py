"""The measure by which everything else is judged must itself reject what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.engine.call import Call
from regard.mask import Causal
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.testing import Budget, Yardstick
from regard.testing.budget import GRAINS

NAN, INF = float("nan"), float("inf")
EXACT = torch.tensor([1.0, -2.0, INF, NAN], dtype=torch.float64)


def call_of(dtype: torch.dtype, spread: float = 1.0, **rule: Any) -> Call:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 9, 8, generator=dice).to(dtype) for _ in range(3))
    shape = AttentionShape.of(q.shape, k.shape, v.shape)
    return Call(q * spread, k, v, Causal(), ScoreRule(0.4, **rule), shape)


# ── a budget ─────────────────────────────────────────────────────────────────────────────────


def test_what_is_right_passes() -> None:
    Budget(EXACT, 0.1).check(EXACT)
    Budget(EXACT, 0.1).check(EXACT.float() + 0.09)
    assert Budget(EXACT, 0.1).excess(EXACT) == 0.0


@pytest.mark.parametrize(
    "found",
    [
        [1.2, -2.0, INF, NAN],  # too far
        [1.0, -2.0, INF, 0.0],  # a number where NaN is right
        [NAN, -2.0, INF, NAN],  # NaN where a number is right
        [1.0, -2.0, 5.0, NAN],  # finite where ∞ is right
        [1.0, -2.0, -INF, NAN],
        [1.0, INF, INF, NAN],
    ],
    ids=str,
)
def test_what_is_wrong_does_not(found: list[float]) -> None:
    budget = Budget(EXACT, 0.1)
    assert not budget.excess(torch.tensor(found)) <= 1
    with pytest.raises(AssertionError, match=r"entropy: error .* × the allowed 0\.1"):
        budget.check(torch.tensor(found), "entropy")


def test_the_message_says_how_much_too_far() -> None:
    with pytest.raises(AssertionError, match=r"result: error 0\.5 is 5\.00 × the allowed 0\.1"):
        Budget(torch.zeros(1, dtype=torch.float64), 0.1).check(torch.tensor([0.5]).double())


def test_the_wrong_shape() -> None:
    with pytest.raises(AssertionError, match=r"lse: shape \(4, 1\) ≠ \(4,\)"):
        Budget(EXACT, 10.0).check(EXACT[:, None], "lse")


def test_nothing_is_right_about_nothing() -> None:
    Budget(torch.zeros(0, dtype=torch.float64), 0.1).check(torch.zeros(0))
    with pytest.raises(AssertionError, match="shape"):
        Budget(torch.zeros(0, dtype=torch.float64), 0.1).check(torch.zeros(1))


# ── a yardstick ──────────────────────────────────────────────────────────────────────────────


def lse(steps: Any) -> Tensor:
    return steps.lse


@pytest.mark.parametrize("keys", [50, 5000])
def test_double_precision_may_lose_what_its_sums_lose(keys: int) -> None:
    """Backwards is as right a way to add as forwards; 1e-13 of what there is may not go missing."""
    dice = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 2, n, 8, generator=dice).double() for n in (9, keys))
    shape = AttentionShape.of(q.shape, k.shape, k.shape)
    right = Yardstick(Call(q, k, k, None, ScoreRule(0.4), shape))
    x = torch.linspace(-1, 1, keys).double()
    budget = right.budget(lambda steps: steps.weights @ x.to(steps.weights.dtype))
    terms = right.exact.weights * x
    budget.check(terms.flip(-1).cumsum(-1)[..., -1])
    budget.check(terms.cumsum(-1)[..., -1])
    assert budget.excess(terms.sum(-1) + 1e-13) > 1


def test_coarser_numbers_are_allowed_more() -> None:
    allowed = [
        Yardstick(call_of(dtype)).budget(lambda steps: steps.context).allowed
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    ]
    assert allowed == sorted(allowed)
    assert allowed[3] > 1000 * allowed[1] > 1e6 * allowed[0] > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_eager_is_within_its_own_budget_and_one_percent_off_is_not(dtype: torch.dtype) -> None:
    right = Yardstick(call_of(dtype))
    budget = right.budget(lse)
    budget.check(right.eager.lse)
    off = right.exact.lse + 2 * budget.allowed
    with pytest.raises(AssertionError):
        budget.check(off)


def test_larger_scores_are_allowed_larger_errors() -> None:
    small, large = (Yardstick(call_of(torch.float32, spread)).budget(lse) for spread in (1, 1000))
    assert large.allowed > 10 * small.allowed


def test_what_eager_gets_exactly_may_be_off_by_a_few_roundings() -> None:
    budget = Yardstick(call_of(torch.float32)).budget(lambda steps: steps.visible.sum(-1))
    assert budget.allowed == pytest.approx(GRAINS * torch.finfo(torch.float32).eps * 9)


def test_where_eager_overflows_it_is_no_yardstick() -> None:
    call = call_of(torch.float16, 500.0, softcap=None)
    far = Call(call.query * 100, call.key * 100, call.value, None, ScoreRule(1.0), call.shape)
    right = Yardstick(far)
    assert not right.eager.scores.isfinite().all()
    budget = right.budget(lambda steps: steps.context)
    assert budget.allowed < 0.1
    with pytest.raises(AssertionError):
        budget.check(right.eager.context)


def test_each_definition_is_computed_once() -> None:
    right = Yardstick(call_of(torch.float32))
    assert right.exact is right.exact and right.eager is right.eager
    assert right.exact.lse.dtype == torch.float64 and right.eager.lse.dtype == torch.float32
