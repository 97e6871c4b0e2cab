"""The cases that implementations are compared on: distinct, reproducible, and of every kind."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.testing import CASES, Case
from regard.testing.cases import Inputs

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def same(a: Inputs, b: Inputs) -> bool:
    mine, theirs = (
        [x.query, x.key, x.value, *(o for o in x.options.values() if isinstance(o, torch.Tensor))]
        for x in (a, b)
    )
    return all(torch.equal(s, t) for s, t in zip(mine, theirs, strict=True))


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_seed_gives_the_same_numbers(case: Case) -> None:
    assert same(case.inputs(seed=3), case.inputs(seed=3))
    if case.queries and case.keys:
        assert not same(case.inputs(seed=3), case.inputs(seed=4))


@pytest.mark.parametrize("dtype", TYPES[1:], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_dtype_has_the_same_numbers_rounded(case: Case, dtype: torch.dtype) -> None:
    fine, coarse = case.inputs(torch.float64), case.inputs(dtype)
    assert coarse.query.dtype == coarse.key.dtype == coarse.value.dtype == dtype
    assert torch.equal(coarse.key, fine.key.to(dtype))
    assert torch.equal(coarse.value, fine.value.to(dtype))
    assert coarse.query.isfinite().all()
    if case.spread <= 1000:
        torch.testing.assert_close(
            coarse.query.double(), fine.query, rtol=4 * torch.finfo(dtype).eps, atol=1e-6
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_inputs_have_the_shape_the_case_says(case: Case) -> None:
    inputs = case.inputs()
    assert inputs.query.shape == (*case.batch, case.heads, case.queries, case.dim)
    assert inputs.key.shape == (*case.batch, case.key_heads, case.keys, case.dim)
    assert inputs.value.shape == (*case.batch, case.key_heads, case.keys, case.value_dim)
    a = regard.attend(inputs.query, inputs.key, inputs.value, **inputs.options)
    assert a.shape == (*case.batch, case.heads, case.queries, case.keys)


def test_a_larger_spread_makes_larger_scores() -> None:
    def largest(spread: float) -> float:
        return float(Case("", spread=spread).inputs().query.abs().max())

    assert largest(60.0) == pytest.approx(60 * largest(1.0), rel=1e-5)


def test_there_is_something_of_every_kind() -> None:
    options = {name for case in CASES for name in case.inputs().options}
    assert options == {"mask", "bias", "softcap", "sink", "scale"}
    masks = " ".join(repr(case.inputs().options.get("mask")) for case in CASES)
    for kind in ("Causal", "Window", "Padding", "Documents", "Prefix", "Rule", "~", "tensor"):
        assert kind in masks, kind
    assert {0, 1} <= {case.queries for case in CASES} & {case.keys for case in CASES}
    assert {0, 1, 2} <= {len(case.batch) for case in CASES}


def test_some_rows_see_nothing_and_some_everything() -> None:
    by_name = {case.name: case.inputs() for case in CASES}
    for name in ("more queries than keys", "scattered padding"):
        x = by_name[name]
        lse = regard.attend(x.query, x.key, x.value, **x.options).lse
        assert (lse == -torch.inf).any() and lse.isfinite().any()
