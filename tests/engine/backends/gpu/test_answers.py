"""Every answer of the kernels is the definition's: on every path, at ugly sizes, over memory full
of rubbish, of which they touch nothing but their tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

import regard
from each import test_brought, test_definition, test_empty, test_infinities, test_stranger
from each.answers import (
    ANSWERS,
    QUESTIONS,
    expect_gradients,
    expect_right,
    expect_top,
    serves,
)
from each.conftest import DEVICE, call_of, inputs_and_truth
from engine.backends.gpu.interpreter import within_bounds
from engine.backends.gpu.paths import PATHS, SMALL
from outcomes import REFUSED
from regard.mask import Causal, Documents, Padding, Prefix, Rule, Table, Window
from regard.testing import Inputs, Yardstick

pytestmark = pytest.mark.kernels

BOTH = ("output, entropy and lse", "received")  # between them every kernel of the backward


@pytest.mark.parametrize("path", PATHS)
def test_every_statistic(path: str) -> None:
    case, dtype = PATHS[path]
    with within_bounds():
        test_definition.test_output_and_statistics(case, dtype, "triton")


@pytest.mark.parametrize("path", ["two spans", "ids and flags", "table", "squares", "packed"])
def test_top_keys_and_cells(path: str) -> None:
    case, _ = PATHS[path]
    with within_bounds():
        test_definition.test_top_keys(case, "triton")
        test_definition.test_cells_agree_to_the_bit(case, "triton")


@pytest.mark.parametrize(
    ("path", "questions"),
    [("band", BOTH[:1]), ("score rule", BOTH), ("two spans", BOTH[:1]), ("table", BOTH[:1]),
     ("squares", BOTH[1:]), ("packed", BOTH[1:])],
)  # fmt: skip
def test_gradients(path: str, questions: list[str]) -> None:
    inputs, right = inputs_and_truth(*PATHS[path])
    with within_bounds():
        for question in questions:
            expect_gradients(inputs, "triton", right, question)


@pytest.mark.parametrize("path", ["band", "two spans"])
def test_mass_from_the_backward(path: str) -> None:
    test_brought.test_mass_from_the_backward(*PATHS[path], "triton")


@pytest.mark.rest
@pytest.mark.parametrize("number", range(len(SMALL)), ids=lambda n: SMALL[n].name)
def test_the_shared_cases(number: int) -> None:
    """Statistics, cells, gradients."""
    case = SMALL[number]
    test_definition.test_output_and_statistics(case, torch.float32, "triton")
    test_definition.test_top_keys(case, "triton")
    test_definition.test_cells_agree_to_the_bit(case, "triton")
    test_brought.test_mass_from_the_backward(case, torch.float64, "triton")
    if case.queries and case.keys and case.spread <= 1:
        inputs, right = inputs_and_truth(case, torch.float64)
        for question in BOTH:
            expect_gradients(inputs, "triton", right, question)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("plant", test_infinities.PLANTS)
def test_infinities_in_queries_and_keys(plant: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    test_infinities.test_every_implementation_agrees(plant, "causal", kind, "triton")


# ── what the package does not define ─────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", test_stranger.RULES)
@pytest.mark.parametrize("mask", test_stranger.MASKS)
def test_a_mask_and_statistics_of_ones_own(mask: str, rule: str) -> None:
    test_stranger.test_every_implementation(mask, rule, "triton", 24)


def test_gradients_of_statistics_of_ones_own() -> None:
    test_stranger.test_gradients("triton", 24)


# ── squares ──────────────────────────────────────────────────────────────────────────────────


def test_squares_that_no_query_sees_are_not_read() -> None:
    """Their keys and values may hold anything. Maps whose cells begin with such a square, and the
    heaviest keys by block maxima, likewise."""
    queries, keys = 130, 390
    mask = Rule(lambda i, j: (j // 128 != 1) & ((i < 128) | (j >= 256) | (j % 5 == 0)))
    dice = torch.Generator().manual_seed(3)
    clean = [torch.randn(1, 1, n, 16, generator=dice).to(DEVICE) for n in (queries, keys, keys)]
    dirty = [t.clone() for t in clean]
    for t in dirty[1:]:
        t[..., 128:256, :] = torch.nan
    asked = (regard.Entropy(), regard.Received(), regard.Pooled(256), regard.Pooled(24))
    answers = []
    for given, name in ((dirty, "triton"), (clean, "dense")):
        leaves = [t.bfloat16().float().requires_grad_() for t in given]
        a = regard.attend(*leaves, mask=mask, implementation=name)
        few = regard.attend(*(t[..., -3:, :] if n == 0 else t for n, t in enumerate(leaves)),
                            mask=mask, implementation=name)  # fmt: skip
        answers.append([
            a.output, few.output, few.entropy(), *a.summarize(*asked).values(),
            *torch.autograd.grad(a.output.square().sum() + a.entropy().sum(), leaves),
        ])  # fmt: skip
    for mine, exact in zip(*answers, strict=True):
        assert_close(mine, exact, rtol=2e-5, atol=2e-5)


# ── sizes ────────────────────────────────────────────────────────────────────────────────────

TYPES = ("float32", "bfloat16", "float16", "float64")
BY = ("triton",) if DEVICE == "cpu" else ("default", "hopper", "triton", "library", "tiled")
# queries, keys, head dim: no multiple of a tile, one behind it, rows that the copy engine cannot
# fetch, few queries, one key, heads of Hopper's widths and of none
SIZES = ((65, 3, 33), (3, 70, 1)) if DEVICE == "cpu" else (
    (65, 3, 33), (64, 1, 64), (129, 33, 128), (65, 200, 200), (1, 300, 64), (3, 2300, 80),
    (300, 257, 64), (257, 300, 5), (130, 130, 256), (330, 300, 96), (330, 300, 100),
)  # fmt: skip
RULES = (
    "plain", "causal", "sink", "bias", "table", "two intervals", "rule", "flags", "documents",
    "everything",
)  # fmt: skip


def inputs_of(size: tuple[int, int, int], rule: str, dtype: torch.dtype) -> Inputs:
    """Random numbers of a size under a rule."""
    queries, keys, dim = size
    dice = torch.Generator().manual_seed(queries * keys + dim)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=dice, dtype=torch.float64)

    q, k, v = (draw(2, 3, n, dim).to(DEVICE, dtype) for n in (queries, keys, keys))
    exact = torch.promote_types(dtype, torch.float32)
    lengths = torch.tensor([max(keys // 2, 1), keys], device=DEVICE)
    flags = Padding(draw(2, keys).to(DEVICE) > -0.5)
    ids = Documents(*(torch.arange(n, device=DEVICE) // 50 for n in (queries, keys)))
    table = draw(2, 1, queries, keys).to(DEVICE) > -0.5
    bias = draw(3, queries, keys).to(DEVICE, dtype)
    options: dict[str, Any] = {
        "plain": {},
        "causal": {"mask": Causal()},
        "sink": {"sink": draw(3).to(DEVICE, exact)},
        "bias": {"bias": bias},
        "table": {"mask": table},
        "two intervals": {"mask": Window(1) | Prefix(lengths)},
        "rule": {"mask": Rule(lambda i, j: (i + j) % 3 > 0), "bias": bias},
        "flags": {"mask": flags},
        "documents": {"mask": Causal() & ids & flags},
        "everything": {"mask": Causal() & ids & flags & Table(table), "bias": bias},
    }[rule]
    return Inputs(q, k, v, options)


def problem(size: Any, rule: str, dtype: str, by: str) -> tuple[Inputs, Yardstick]:
    """What an implementation takes; the test ends as refused where it does not."""
    inputs = inputs_of(size, rule, getattr(torch, dtype))
    if not serves(inputs, by):
        pytest.skip(f"{REFUSED}{by}")
    return inputs, Yardstick(call_of(inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_ugly_sizes(size: Any, rule: str, by: str, dtype: str) -> None:
    """Three times on a GPU: launched by Triton, watched, and by the steps that were kept."""
    inputs, right = problem(size, rule, dtype, by)
    for _ in range(1 if DEVICE == "cpu" else 3):
        expect_right(inputs, by, right, ANSWERS)
    expect_top(inputs, by, right, 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("rule", ["causal", "two intervals", "sink"])
@pytest.mark.parametrize("size", SIZES[:6], ids=str)
def test_gradients_at_ugly_sizes(size: Any, rule: str, by: str, dtype: str) -> None:
    inputs, right = problem(size, rule, dtype, by)
    for question in QUESTIONS:
        expect_gradients(inputs, by, right, question)


@pytest.mark.parametrize("size", test_empty.SIZES)
def test_where_nothing_is_there(size: str) -> None:
    with within_bounds():
        test_empty.test_where_nothing_is_there(size, "triton")
