"""Whatever fits together is right in every dtype, or refused beforehand in words: backends ×
masks × biases × shapes × sinks, values and statistics, over fresh memory full of rubbish.
Gradients are in `packed`, whose entry points have this one among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

import regard
from fuzz import DEVICE
from regard.engine import api
from regard.errors import UnavailableError
from regard.mask import Causal, Documents, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi, RelativeBias
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    MaxLogit,
    MaxScore,
    Pooled,
    Received,
    Visible,
)
from regard.testing import Case, Yardstick, poisoned_memory

SEEDS = 520 if DEVICE == "cuda" else 40
NAMES = (None, "triton") if DEVICE == "cuda" else ("cpu", "tiled")
TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
SIZES = (0, 1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 200, 257, 300)
DIMS = (8, 16, 32, 40, 64, 80, 96, 128, 160, 256)
NUMBERS = (Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible())


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
    bias = dice.choice(("none", "none", "alibi", "table", "buckets"))
    gone = dice.choice((0.0, 0.5, 1.0))  # of sinks that are −∞

    def options(case: Case, numbers: torch.Generator, dtype: torch.dtype) -> dict[str, Any]:
        exact = torch.promote_types(dtype, torch.float32)
        made: dict[str, Any] = {"softcap": 4.0} if has_cap else {}
        if has_sink:
            sink = torch.randn(case.heads, generator=numbers)
            hidden = torch.rand(case.heads, generator=numbers) < gone
            made["sink"] = sink.masked_fill(hidden, -torch.inf).to(exact)
        if bias == "alibi":
            made["bias"] = ALiBi(torch.rand(case.heads, generator=numbers).to(exact))
        if bias == "table":
            made["bias"] = torch.randn(case.queries, case.keys, generator=numbers).to(dtype)
        if bias == "buckets":
            table = torch.randn(32, case.heads, generator=numbers)
            made["bias"] = RelativeBias(table.to(exact))
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


def check(seed: int) -> None:
    """One problem by one backend: the output, and as many statistics as come along."""
    case, dtype = problem(seed)
    dice = random.Random(seed)
    inputs, name = case.inputs(dtype, device=DEVICE), dice.choice(NAMES)
    options = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None}
    options |= inputs.options
    tensors = inputs.query, inputs.key, inputs.value
    right = Yardstick(api._call(*tensors, *options.values(), 0.0))
    shape = right.call.shape
    columns = [Received(), Received(dice.choice((1, 9, 64))), Pooled(dice.choice((7, 16)))]
    asked = [*dice.sample(NUMBERS, 2), dice.choice(columns)]
    try:
        with poisoned_memory():
            a = regard.attend(*tensors, implementation=name, **inputs.options)
            answers, share = a.summarize(*asked), a.sink_mass()
    except UnavailableError as error:
        assert error.reasons.get(str(name)), error
        return
    words = f"{case} in {dtype} by {name}"
    right.budget(lambda steps: steps.weights @ steps.values).check(a.output, f"{words}: output")
    right.budget(lambda steps: steps.sink).check(share, f"{words}: sink mass")
    for summary, value in answers.items():
        assert not value.isnan().any(), f"{words}: {summary!r} is NaN"
        budget = right.budget(lambda steps, s=summary: s.define(steps, shape))
        budget.check(value, f"{words}: {summary!r}")
