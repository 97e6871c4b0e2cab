"""What `regard.testing` ships: cases that are distinct and of every kind, a measure that rejects
what is wrong, memory in which whatever was never written shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.attention import Steps
from regard.engine.call import Call
from regard.mask import Causal
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.testing import CASES, Budget, Case, Inputs, Yardstick, poisoned_memory
from regard.testing.budget import GRAINS

NAN, INF = float("nan"), float("inf")

# ── cases ────────────────────────────────────────────────────────────────────────────────────


def _tensors(inputs: Inputs) -> list[torch.Tensor]:
    options = [value for value in inputs.options.values() if isinstance(value, torch.Tensor)]
    return [inputs.query, inputs.key, inputs.value, *options]


def _same(one: Inputs, other: Inputs) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tensors(one), _tensors(other), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_has_its_shape_and_the_same_numbers_in_every_dtype(case: Case) -> None:
    fine = case.inputs(torch.float64)
    assert fine.query.shape == (*case.batch, case.heads, case.queries, case.dim)
    assert fine.key.shape == (*case.batch, case.key_heads, case.keys, case.dim)
    assert fine.value.shape == (*case.batch, case.key_heads, case.keys, case.value_dim)
    assert _same(case.inputs(seed=3), case.inputs(seed=3))
    if case.queries and case.keys:
        assert not _same(case.inputs(seed=3), case.inputs(seed=4))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        coarse = case.inputs(dtype)
        assert {t.dtype for t in (coarse.query, coarse.key, coarse.value)} == {dtype}
        assert torch.equal(coarse.key, fine.key.to(dtype)) and coarse.query.isfinite().all()
        assert torch.equal(coarse.value, fine.value.to(dtype))
        if case.spread <= 1000:
            rounding = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 1e-6}
            torch.testing.assert_close(coarse.query.double(), fine.query, **rounding)


def test_there_is_something_of_every_kind() -> None:
    inputs = {case.name: case.inputs() for case in CASES}
    assert len(inputs) == len(CASES)
    assert {name for x in inputs.values() for name in x.options} == {
        "mask", "bias", "softcap", "sink", "scale"
    }  # fmt: skip
    masks = " ".join(repr(x.options.get("mask")) for x in inputs.values())
    for kind in ("Causal", "Window", "Padding", "Documents", "Prefix", "Rule", "~", "tensor"):
        assert kind in masks, kind
    assert {0, 1} <= {case.queries for case in CASES} & {case.keys for case in CASES}
    assert {0, 1, 2} <= {len(case.batch) for case in CASES}
    largest = float(Case("", spread=1.0).inputs().query.abs().max())
    assert Case("", spread=60.0).inputs().query.abs().max() == pytest.approx(60 * largest, rel=1e-5)
    for name in ("more queries than keys", "scattered padding"):  # some rows see nothing
        x = inputs[name]
        lse = regard.attend(x.query, x.key, x.value, **x.options).lse
        assert (lse == -INF).any() and lse.isfinite().any()


# ── budgets ──────────────────────────────────────────────────────────────────────────────────

EXACT = torch.tensor([1.0, -2.0, INF, NAN], dtype=torch.float64)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([1.0, -2.0, INF, NAN], None),
        ([1.09, -2.09, INF, NAN], None),
        ([1.2, -2.0, INF, NAN], "error"),  # too far
        ([1.0, -2.0, INF, 0.0], "error"),  # a number where NaN is right
        ([NAN, -2.0, INF, NAN], "error"),  # NaN where a number is right
        ([1.0, -2.0, 5.0, NAN], "error"),  # finite where ∞ is right
        ([1.0, -2.0, -INF, NAN], "error"),
        ([1.0, INF, INF, NAN], "error"),
        ([[1.0], [-2.0], [INF], [NAN]], r"shape \(4, 1\) ≠ \(4,\)"),
        ([], r"shape \(0,\) ≠ \(4,\)"),
    ],
    ids=str,
)
def test_a_budget_rejects_what_is_wrong(values: list[float], fault: str | None) -> None:
    budget, given = Budget(EXACT, 0.1), torch.tensor(values)
    if fault is None:
        budget.check(given)
        assert budget.excess(given) <= 1
        return
    with pytest.raises(AssertionError, match=f"entropy: {fault}"):
        budget.check(given, "entropy")


def test_the_message_says_how_much_too_far() -> None:
    with pytest.raises(AssertionError, match=r"result: error 0\.5 is 5\.00 × the allowed 0\.1"):
        Budget(torch.zeros(1, dtype=torch.float64), 0.1).check(torch.tensor([0.5]))
    Budget(torch.zeros(0, dtype=torch.float64), 0.1).check(torch.zeros(0))  # nothing of nothing


def call_of(dtype: torch.dtype, spread: float = 1.0, keys: int = 9) -> Call:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 8, generator=dice).to(dtype) for n in (9, keys, keys))
    shape = AttentionShape.of(q.shape, k.shape, v.shape)
    return Call(q * spread, k, v, Causal(), ScoreRule(0.4), shape)


def context(steps: Steps) -> torch.Tensor:
    return steps.context


def test_coarser_numbers_and_larger_scores_are_allowed_more() -> None:
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    allowed = [Yardstick(call_of(dtype)).budget(context).allowed for dtype in dtypes]
    assert allowed == sorted(allowed)
    assert allowed[3] > 1000 * allowed[1] > 1e6 * allowed[0] > 0
    small, large = (Yardstick(call_of(torch.float32, spread)) for spread in (1, 1000))
    lse = [right.budget(lambda steps: steps.lse).allowed for right in (small, large)]
    assert lse[1] > 10 * lse[0]
    exact = small.budget(lambda steps: steps.visible.sum(-1))  # what eager gets exactly
    assert exact.allowed == pytest.approx(GRAINS * torch.finfo(torch.float32).eps * 9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_eager_is_within_its_own_budget_and_twice_the_budget_is_not(dtype: torch.dtype) -> None:
    right = Yardstick(call_of(dtype))
    budget = right.budget(lambda steps: steps.lse)
    budget.check(right.eager.lse)
    assert budget.excess(right.exact.lse + 2 * budget.allowed) > 1
    assert right.exact.lse.dtype == torch.float64 and right.eager.lse.dtype == dtype


@pytest.mark.parametrize("keys", [50, 5000])
def test_double_precision_may_lose_what_its_sums_lose(keys: int) -> None:
    """Backwards is as right a way to add as forwards; 1e-13 of what there is may not go missing."""
    right = Yardstick(call_of(torch.float64, keys=keys))
    x = torch.linspace(-1, 1, keys).double()
    budget = right.budget(lambda steps: steps.weights @ x.to(steps.weights.dtype))
    terms = right.exact.weights * x
    budget.check(terms.flip(-1).cumsum(-1)[..., -1])
    budget.check(terms.cumsum(-1)[..., -1])
    assert budget.excess(terms.sum(-1) + 1e-13) > 1


def test_where_eager_overflows_it_is_no_yardstick() -> None:
    call = call_of(torch.float16, 500.0)
    far = Call(call.query * 100, call.key * 100, call.value, None, ScoreRule(1.0), call.shape)
    right = Yardstick(far)
    assert not right.eager.scores.isfinite().all()
    budget = right.budget(context)
    assert budget.allowed < 0.1 and budget.excess(right.eager.context) > 1


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
def test_fresh_memory_is_rubbish_and_what_is_written_is_not(dtype: torch.dtype) -> None:
    with poisoned_memory():
        assert torch.empty(100, dtype=dtype).isnan().all()
        assert torch.zeros(3).new_empty(5, dtype=dtype).isnan().all()
        assert torch.empty_like(torch.ones(4, dtype=dtype)).isnan().all()
        assert (torch.empty(9, dtype=torch.int64) == torch.iinfo(torch.int64).max).all()
        forgetful = torch.empty(5, dtype=dtype)
        forgetful[:4] = 0.0
        assert forgetful.isnan().tolist() == [False] * 4 + [True]
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def _settings() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.mark.parametrize("own", [False, True])
def test_settings_come_back_after_an_error_too(own: bool) -> None:
    before = _settings()
    torch.use_deterministic_algorithms(own)
    try:
        mine = _settings()
        with pytest.raises(ZeroDivisionError), poisoned_memory():
            assert _settings() == (True, True, True)
            raise ZeroDivisionError
        assert _settings() == mine and mine[0] is own
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def test_what_they_catch(monkeypatch: Any) -> None:
    """All three against an attention that forgets its last row."""
    inputs = CASES[0].inputs()

    def forgetful() -> torch.Tensor:
        output = regard.attend(inputs.query, inputs.key, inputs.value).output
        left = torch.empty_like(output)
        left[..., :-1, :] = output[..., :-1, :]
        return left

    shape = AttentionShape.of(inputs.query.shape, inputs.key.shape, inputs.value.shape)
    call = Call(inputs.query, inputs.key, inputs.value, None, ScoreRule(0.25), shape)
    with poisoned_memory(), pytest.raises(AssertionError, match="output: error inf"):
        Yardstick(call).budget(context).check(forgetful(), "output")
