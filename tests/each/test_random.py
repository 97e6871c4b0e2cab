"""Problems drawn at random: whatever fits together is right, or refused beforehand in words.

A seed names a problem, so that one that fails can be run again alone: `-k seed-317`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from each.conftest import DEVICE, attend, inputs_and_truth, must_serve
from regard.mask import Causal, Documents, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi
from regard.summary import Concentration, Distance, Entropy, MaxScore, Pooled, Received, Visible
from regard.testing import Case, poisoned_memory

MANY = int(os.environ.get("REGARD_TEST_RANDOM", "520" if DEVICE == "cuda" else "40"))
NAMES = ("default", "triton") if DEVICE == "cuda" else ("cpu", "tiled")
TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
SIZES = (1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 200, 257, 300)
DIMS = (8, 16, 32, 40, 64, 80, 96, 128, 160, 256)
NUMBERS = (Entropy(), MaxScore(), Concentration(), Distance(), Visible())


def mask_of(dice: random.Random) -> Callable[[Case], Mask | torch.Tensor] | None:
    left, n = dice.randrange(1, 90), dice.randrange(1, 40)

    def flags(case: Case) -> Mask:
        keys = torch.arange(case.keys) % 3 != 1
        return Padding(keys.expand(case.batch[0], -1))

    def documents(case: Case) -> Mask:
        return Documents(torch.arange(case.queries) // n, torch.arange(case.keys) // n)

    def table(case: Case) -> torch.Tensor:
        rows, keys = torch.arange(case.queries)[:, None], torch.arange(case.keys)
        heads = torch.arange(case.heads)[:, None, None]
        return (rows + keys + heads) % 4 > 0

    kinds: list[Callable[[Case], Mask | torch.Tensor] | None] = [
        None,
        lambda _: Causal(),
        lambda _: Causal("start"),
        lambda _: Window(left, n),
        lambda case: Padding([max(case.keys - n, 0)] * case.batch[0]),
        flags,
        documents,
        lambda case: Causal() & documents(case),
        lambda case: Window(left) & flags(case),
        lambda _: Causal() | Prefix(n),
        lambda _: ~Window(left),
        lambda _: Rule(lambda i, j: (i * 3 + j) % n != 1),
        table,
    ]
    return dice.choice(kinds)


def options_of(dice: random.Random) -> Callable[..., dict[str, Any]] | None:
    has_cap, has_sink = dice.random() < 0.2, dice.random() < 0.2
    bias = dice.choice(("none", "none", "alibi", "table"))

    def options(case: Case, numbers: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
        exact = torch.promote_types(dtype, torch.float32)
        made: dict[str, Any] = {"softcap": 4.0} if has_cap else {}
        if has_sink:
            made["sink"] = torch.randn(case.heads, generator=numbers).to(exact)
        if bias == "alibi":
            made["bias"] = ALiBi(torch.rand(case.heads, generator=numbers).to(exact))
        if bias == "table":
            made["bias"] = torch.randn(case.queries, case.keys, generator=numbers).to(dtype)
        return made

    return options


def problem(seed: int) -> tuple[Case, torch.dtype]:
    dice = random.Random(seed)
    group = dice.choice((1, 2, 4))
    key_heads = dice.choice((1, 2, 3))
    dim = dice.choice(DIMS)
    case = Case(
        f"seed {seed}", batch=(dice.choice((1, 2, 3)),), heads=group * key_heads,
        key_heads=key_heads, queries=dice.choice(SIZES), keys=dice.choice(SIZES), dim=dim,
        value_dim=dim if dice.random() < 0.7 else dice.choice(DIMS), mask=mask_of(dice),
        options=options_of(dice),
    )  # fmt: skip
    return case, dice.choice(TYPES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(MANY), ids=lambda seed: f"seed-{seed}")
def test_right_or_refused(seed: int, name: str) -> None:
    case, dtype = problem(seed)
    inputs, right = inputs_and_truth(case, dtype)
    must_serve(name, inputs)
    shape, dice = right.call.shape, random.Random(seed)
    columns = [Received(), Received(dice.choice((1, 9, 64))), Pooled(dice.choice((7, 16)))]
    asked = [*dice.sample(NUMBERS, 2), dice.choice(columns)]
    with poisoned_memory():
        a = attend(inputs, name)
        found = a.summarize(*asked)
    right.budget(lambda steps: steps.context).check(a.output, f"{case}: output")
    for summary, value in found.items():
        budget = right.budget(lambda steps, s=summary: s.define(steps, shape))
        budget.check(value, f"{case}: {summary!r}")
