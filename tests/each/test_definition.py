"""Output and every statistic of every implementation, against the definition in float64."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch

from each.conftest import DEVICE, HERE, WIDE, attend, inputs_and_truth, must_serve
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Offsets,
    Peak,
    Pooled,
    Received,
    Top,
    Visible,
    Weighted,
)
from regard.testing import Case, poisoned_memory

NUMBERS = (Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible())
REGIONS = (
    Pooled(7), Pooled(16), Pooled(40, "max"), Received(), Received(9, "visible"),
    Received(how="max"), Received(9, groups="max", how="max"),
)  # fmt: skip
if DEVICE == "cuda":
    REGIONS += (Pooled(80),)  # wider than the kernels' tiles
HALF = (torch.bfloat16, torch.float16)
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@lru_cache(maxsize=16)
def marks(case: Case) -> tuple[Matching, Matching]:
    """The same marks for all batch entries, and others for each."""
    q, k = (torch.arange(count, device=DEVICE) for count in (case.queries, case.keys))
    q, k = q % 5, k % 7 % 5
    first, *_ = *case.batch, 1
    lead = (first, *[1] * (len(case.batch) - 1), 1) if case.batch else (1,)
    each = torch.arange(first, device=DEVICE).reshape(lead)
    return Matching(q, k), Matching((q + each) % 3, (k + 2 * each) % 3)


@lru_cache(maxsize=16)
def weightings(case: Case, dtype: torch.dtype) -> tuple[Weighted, ...]:
    """One number a query, of either sign and 0 among them; one a head and query."""
    by = torch.linspace(-0.5, 2, case.queries, dtype=dtype, device=DEVICE)
    by = torch.where(torch.arange(case.queries, device=DEVICE) % 5 == 0, 0, by)
    each = by.abs() * torch.arange(1, case.heads + 1, device=DEVICE)[:, None]
    asked = Received(), Received(9, how="mean"), Received(how="max")
    return *(Weighted(one, by) for one in asked), Weighted(Received(7, how="max"), each)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_output_and_statistics(case: Case, dtype: torch.dtype, implementation: str) -> None:
    inputs, right = inputs_and_truth(case, dtype)
    must_serve(implementation, inputs)
    shape = right.call.shape
    with poisoned_memory():
        a = attend(inputs, implementation)
        weighted = weightings(case, a.dtype)
        found: dict[Any, Any] = a.summarize(*NUMBERS, *REGIONS, Offsets(), *marks(case), *weighted)
        x = torch.linspace(-1, 1, case.keys, dtype=a.dtype, device=DEVICE)
        y = torch.linspace(-1, 1, case.queries, dtype=a.dtype, device=DEVICE)
        products = a @ x, a.T @ y
    assert a.output.dtype == dtype
    assert a.lse.dtype == torch.promote_types(dtype, torch.float32)
    right.once("output", lambda steps: steps.context).check(a.output, "output")
    right.once("lse", lambda steps: steps.lse).check(a.lse, "lse")
    for summary, value in found.items():
        budget = right.once(summary, lambda steps, s=summary: s.define(steps, shape))
        budget.check(value, repr(summary))
    budgets = (
        right.once("a @ x", lambda s: s.weights @ x.to(s.weights.dtype)),
        right.once("a.T @ y", lambda s: s.weights.mT @ y.to(s.weights.dtype)),
    )
    for budget, product, name in zip(budgets, products, ("a @ x", "a.T @ y"), strict=True):
        budget.check(product, name)


# in half precision, as heads of this width are used
NATIVE = "cpu" if DEVICE == "cpu" else "hopper"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", HALF, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("case", WIDE, ids=lambda case: case.name)
@pytest.mark.parametrize("implementation", [NATIVE], indirect=True)
def test_wide_heads(case: Case, dtype: torch.dtype, implementation: str) -> None:
    test_output_and_statistics(case, dtype, implementation)
    inputs, right = inputs_and_truth(case, dtype)
    top = attend(inputs, implementation).top(5)
    right.budget(lambda s: Top(5).define(s, right.call.shape).weights).check(top.weights, "top")


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_top_keys(case: Case, implementation: str) -> None:
    inputs, right = inputs_and_truth(case, torch.float64)
    must_serve(implementation, inputs)
    shape = right.call.shape
    a = attend(inputs, implementation)
    top, peak = a.top(5), a.peak()
    right.once("top", lambda s: Top(5).define(s, shape).weights).check(top.weights, "top")
    right.once("peak", lambda s: Peak().define(s, shape).weights).check(peak.weights, "peak")
    # in float64 no two scores are near enough to swap places
    exact = Top(5).define(right.exact, shape)
    assert torch.equal(top.keys, exact.keys)
    assert torch.equal(peak.keys, exact.keys[..., 0])


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_cells_agree_to_the_bit(case: Case, implementation: str) -> None:
    inputs, right = inputs_and_truth(case, torch.float32)
    must_serve(implementation, inputs)
    a = attend(inputs, implementation)
    every = a.dense()
    assert every.shape == a.shape
    if 0 in every.shape:
        return
    last, middle = case.queries - 1, case.keys // 2
    assert torch.equal(a[..., last, :], every[..., last, :])
    assert torch.equal(a.rows([last, 0]), every[..., [last, 0], :])
    assert torch.equal(a[..., middle], every[..., middle])
    assert torch.equal(a[..., ::3, 1::2], every[..., ::3, 1::2])
    assert torch.equal(a.scores[..., last, middle], a.scores[...][..., last, middle])
    right.once("dense", lambda steps: steps.weights).check(every, "dense")
