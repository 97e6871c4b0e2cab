"""Every answer × dtype × implementation × ugly sizes, over poisoned memory, against the definition:
what a change of any kernel must pass on a GPU. `make test-gpu` runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

import regard
from each.conftest import call_of
from engine.backends.gpu.answers import (
    ANSWERS,
    QUESTIONS,
    expect_gradients,
    expect_right,
    expect_top,
    serves,
)
from outcomes import REFUSED
from regard.testing import Inputs, Yardstick

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
BY = ("default", "hopper", "triton", "library", "tiled")
# queries, keys, head dim: no multiple of a tile, one behind it, rows that the copy engine cannot
# fetch, few queries, one key, heads of Hopper's widths and of none
SIZES = (
    (65, 3, 33), (64, 1, 64), (129, 33, 128), (65, 200, 200), (1, 300, 64), (3, 2300, 80),
    (300, 257, 64), (257, 300, 5), (130, 130, 256),
)  # fmt: skip
BATCH, HEADS = 2, 3
RULES = ("plain", "causal", "sink", "bias", "table", "two intervals", "rule")


def inputs_of(size: tuple[int, int, int], rule: str, dtype: torch.dtype) -> Inputs:
    """Random numbers of a size under a rule."""
    queries, keys, dim = size
    dice = torch.Generator().manual_seed(queries * keys + dim)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=dice, dtype=torch.float64)

    q, k, v = (draw(BATCH, HEADS, n, dim).to("cuda", dtype) for n in (queries, keys, keys))
    exact = torch.promote_types(dtype, torch.float32)
    lengths = torch.tensor([max(keys // 2, 1), keys], device="cuda")
    options: dict[str, Any] = {
        "plain": {},
        "causal": {"mask": regard.Causal()},
        "sink": {"sink": draw(HEADS).to("cuda", exact)},
        "bias": {"bias": draw(HEADS, queries, keys).to("cuda", dtype)},
        "table": {"mask": draw(BATCH, 1, queries, keys).to("cuda") > -0.5},
        "two intervals": {"mask": regard.Window(1) | regard.Prefix(lengths)},
        "rule": {"mask": regard.Rule(lambda i, j: (i + j) % 3 > 0)},
    }[rule]
    return Inputs(q, k, v, options)


def problems(
    size: Any, rules: Iterable[str], dtype: torch.dtype, by: str
) -> list[tuple[Inputs, Yardstick]]:
    """Those that an implementation takes; the test ends as refused where there are none."""
    given = (inputs_of(size, rule, dtype) for rule in rules)
    taken = [(inputs, Yardstick(call_of(inputs))) for inputs in given if serves(inputs, by)]
    if not taken:
        pytest.skip(f"{REFUSED}{by}")
    return taken


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_answer(size: Any, by: str, dtype: torch.dtype) -> None:
    """Three times: launched by Triton, watched, and by the steps that were kept."""
    for inputs, right in problems(size, RULES, dtype, by):
        for _ in range(3):
            expect_right(inputs, by, right, ANSWERS)
        expect_top(inputs, by, right, 3)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("size", SIZES[:6], ids=str)
def test_every_gradient(size: Any, by: str, dtype: torch.dtype) -> None:
    for inputs, right in problems(size, ("causal", "two intervals", "sink"), dtype, by):
        for question in QUESTIONS:
            expect_gradients(inputs, by, right, question)
