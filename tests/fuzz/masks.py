"""Every kernel under masks of all kinds, whole or told per batch entry, over tensors that lie
anywhere in memory full of NaN.

On a GPU the kernels are compiled. Elsewhere those of Triton are interpreted, in a process of its
own unless this one interprets, and may touch nothing but their tensors.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch import Tensor

import warm
from each.answers import (
    ANSWERS,
    OF_PLACES,
    QUESTIONS,
    expect_gradients,
    expect_right,
    expect_top,
    serves,
)
from each.conftest import call_of
from regard.mask import (
    Causal,
    Documents,
    Intervals,
    Mask,
    Packed,
    Padding,
    Prefix,
    Rule,
    Table,
    Window,
)
from regard.score import ALiBi, RelativeBias
from regard.testing import Inputs, Yardstick

SEEDS = 12
DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("default", "triton", "tiled") if DEVICE == "cuda" else ("cpu", "tiled", "triton")
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SIZES = (0, 1, 2, 3, 17, 33, 65) if DEVICE == "cpu" else (0, 1, 3, 63, 65, 129, 257, 300)
KEYS = (*SIZES, 130)
DIMS = (1, 5, 16, 33, 40, 64) if DEVICE == "cpu" else (1, 8, 16, 33, 64, 80, 128, 200)
BATCHES = ((), (1,), (2,), (3,), (2, 2), (1, 3), (0,))
RARE = 0.04  # how often anything is 0 where a problem is empty


def check(seed: int) -> None:
    """The problem of a seed; AssertionError where an answer is wrong."""
    if DEVICE == "cuda" or INTERPRETED:
        _check(seed)
        return
    folder = str(Path(__file__).resolve().parents[1])
    run = warm.run(Path(__file__), str(seed), interpret=True, searched=folder)
    if run.returncode:
        raise AssertionError(f"seed {seed}: {run.stderr[-3000:]}")


def _check(seed: int) -> None:
    dice = random.Random(seed)
    inputs = _problem(dice)
    right = Yardstick(call_of(inputs))
    asked = ["output", *dice.sample([name for name in ANSWERS if name != "output"], 4)]
    question, k, name = dice.choice(sorted(QUESTIONS)), dice.choice((1, 3, 9)), ""
    try:
        for name in NAMES:
            if not serves(inputs, name):
                continue
            with _bounded(name):
                expect_right(inputs, name, right, asked, seed)
                if dice.random() < 0.3:
                    expect_top(inputs, name, right, k)
                if inputs.query.dtype in (torch.float32, torch.float64) and dice.random() < 0.4:
                    if not (0 in (right.call.shape.queries, right.call.shape.keys)
                            and question in (*OF_PLACES, "top")):  # fmt: skip
                        expect_gradients(inputs, name, right, question, seed)
    except Exception as error:
        sizes = tuple(inputs.query.shape), tuple(inputs.key.shape), tuple(inputs.value.shape)
        options = {
            name: tuple(given.shape) if isinstance(given, Tensor) else given
            for name, given in inputs.options.items()
        }
        raise AssertionError(f"{name} {sizes} {inputs.query.dtype} {options}: {error}") from error


def _bounded(name: str) -> Any:
    if name != "triton" or DEVICE != "cpu":
        return nullcontext()
    from engine.backends.gpu.interpreter import within_bounds

    return within_bounds()


# ── problems ─────────────────────────────────────────────────────────────────────────────────


class Sizes:
    """Of a problem, and what draws arrays for it."""

    def __init__(self, dice: random.Random) -> None:
        def some(choices: tuple[Any, ...], empty: Any) -> Any:
            return dice.choice(choices) if dice.random() < RARE else dice.choice(
                [choice for choice in choices if choice != empty]
            )  # fmt: skip

        self.dice = dice
        self.numbers = torch.Generator().manual_seed(dice.randrange(2**31))
        self.batch: tuple[int, ...] = some(BATCHES, (0,))
        self.key_heads = dice.choice((1, 1, 2, 3)) if dice.random() > RARE / 2 else 0
        self.heads = self.key_heads * dice.choice((1, 1, 2, 3))
        self.queries, self.keys = some(SIZES, 0), some(KEYS, 0)
        if dice.random() < 0.3:
            self.keys = self.queries
        self.lead: tuple[int, ...] = ()

    def some_batch(self) -> tuple[int, ...]:
        """Axes that broadcast over the batch: all of it, part of it, or none."""
        if self.dice.random() < 0.35:
            return ()
        kept = tuple(n if self.dice.random() < 0.8 else 1 for n in self.batch)
        return kept[self.dice.randrange(2) if len(kept) > 1 else 0 :]

    def whole(self, size: tuple[int, ...], below: int) -> Tensor:
        """Numbers 0 … below − 1."""
        return torch.randint(max(below, 1), size, generator=self.numbers)

    def flags(self, *size: int) -> Tensor:
        """Booleans, some true."""
        return torch.rand(*size, generator=self.numbers) < self.dice.choice((0.1, 0.5, 0.9))

    def normal(self, *size: int) -> Tensor:
        """Doubles."""
        return torch.randn(*size, generator=self.numbers, dtype=torch.float64)


def _problem(dice: random.Random) -> Inputs:
    sizes = Sizes(dice)
    dtype, dim = dice.choice(TYPES), dice.choice(DIMS)
    value_dim = dim if dice.random() < 0.6 else dice.choice((0, *DIMS))
    query = sizes.normal(*sizes.batch, sizes.heads, sizes.queries, dim) * dice.choice((0.3, 1, 3))
    key = sizes.normal(*sizes.batch, sizes.key_heads, sizes.keys, dim)
    value = sizes.normal(*sizes.batch, sizes.key_heads, sizes.keys, value_dim)
    tensors = [placed(t.to(dtype).to(DEVICE), dice) for t in (query, key, value)]
    options = _options(sizes, dtype)
    mask = _mask(sizes, 2) if dice.random() < 0.9 else None
    if mask is not None:
        options["mask"] = mask.map(
            lambda array: placed(torch.as_tensor(array, device=DEVICE), dice)
        )
    return Inputs(*tensors, options)


def placed(tensor: Tensor, dice: random.Random) -> Tensor:
    """The same numbers with rubbish before, behind and between them, axes in any order."""
    if tensor.ndim == 0 or dice.random() < 0.3:
        return tensor
    order = list(range(tensor.ndim))
    if dice.random() < 0.4:
        dice.shuffle(order)
    apart, strides = 1, [0] * tensor.ndim
    for axis in reversed(order):
        strides[axis] = apart
        apart = apart * max(tensor.shape[axis], 1) + dice.choice((0, 0, 1, 8))
    before = dice.choice((0, 1, 3, 16))
    storage = torch.empty(before + apart + 64, dtype=tensor.dtype, device=tensor.device)
    if tensor.dtype == torch.bool:
        storage.fill_(True)
    else:
        storage.fill_(torch.nan if tensor.is_floating_point() else 2**30)
    made = storage.as_strided(tensor.shape, strides, before)
    return made.copy_(tensor)


def _options(sizes: Sizes, dtype: torch.dtype) -> dict[str, Any]:
    dice, exact, made = sizes.dice, torch.promote_types(dtype, torch.float32), dict[str, Any]()
    bias = dice.choice(("none",) * 4 + ("table", "alibi", "relative"))
    if bias == "table":
        size = [n if dice.random() < 0.7 else 1 for n in (sizes.heads, sizes.queries, sizes.keys)]
        table = sizes.normal(*sizes.some_batch(), *size)
        hidden = table.masked_fill(table > 1.3, -torch.inf) if dice.random() < 0.5 else table
        made["bias"] = placed(hidden.to(DEVICE, dice.choice((dtype, exact))), dice)
    elif bias == "alibi":
        made["bias"] = ALiBi(sizes.normal(sizes.heads).abs().to(DEVICE, exact))
    elif bias == "relative":
        made["bias"] = RelativeBias(sizes.normal(32, sizes.heads).to(DEVICE, exact))
    if dice.random() < 0.2:
        made["sink"] = placed((sizes.normal(sizes.heads) * 2).to(DEVICE, exact), dice)
    if dice.random() < 0.2:
        made["softcap"] = dice.choice((2.0, 30.0))
    if dice.random() < 0.2:
        made["scale"] = dice.choice((0.01, 0.5, 1, 2.5, -0.7))
    return made


# ── masks ────────────────────────────────────────────────────────────────────────────────────


def _mask(sizes: Sizes, depth: int) -> Mask:
    dice = sizes.dice
    if depth and dice.random() < 0.55:
        kind = dice.choice("&&|~")
        if kind == "~":
            return ~_mask(sizes, depth - 1)
        left, right = _mask(sizes, depth - 1), _mask(sizes, depth - 1)
        return left & right if kind == "&" else left | right
    return dice.choice(LEAVES)(sizes)


def _align(sizes: Sizes) -> Any:
    return sizes.dice.choice(("end", "end", "start"))


def _window(sizes: Sizes) -> Mask:
    left, right = (sizes.dice.choice((None, 0, 1, 5, 40, 200)) for _ in range(2))
    return Window(left, right, _align(sizes))


def _padding(sizes: Sizes) -> Mask:
    dice = sizes.dice
    sides: list[Any] = []
    for count in (sizes.keys, sizes.queries):
        batch = sizes.some_batch()
        is_flags = dice.random() < 0.5
        sides.append(sizes.flags(*batch, count) if is_flags else sizes.whole(batch, count + 1))
    return Padding(*sides) if dice.random() < 0.3 else Padding(sides[0])


def _documents(sizes: Sizes) -> Mask:
    kinds = sizes.dice.choice((2, 3, 9))
    queries, keys = (
        sizes.whole((*sizes.some_batch(), n), kinds) for n in (sizes.queries, sizes.keys)
    )
    if sizes.dice.random() < 0.5:
        queries, keys = (ids.sort(-1).values for ids in (queries, keys))
    return Documents(queries, keys)


def _packed(sizes: Sizes) -> Mask:
    n = sizes.dice.choice((1, 2, 4))
    starts = []
    for count in (sizes.queries, sizes.keys):
        inner = sizes.whole((n - 1,), count + 1).sort().values
        starts.append(torch.cat([torch.tensor([0]), inner, torch.tensor([count])]))
    return Packed(*starts, sizes.dice.choice((None, Causal(), Window(3), Causal() & Window(9))))


def _table(sizes: Sizes) -> Mask:
    size = (sizes.heads, sizes.queries, sizes.keys)
    kept = (n if sizes.dice.random() < 0.7 else 1 for n in size)
    return Table(sizes.flags(*sizes.some_batch(), *kept))


def _rule(sizes: Sizes) -> Mask:
    n, step = sizes.dice.choice((2, 3, 128)), sizes.dice.choice((1, 3))
    rules: tuple[Callable[..., Any], ...] = (
        lambda i, j: (i * step + j) % n != 1,
        lambda b, h, i, j: (i + j * step + b + h) % (n + 1) > 0,
    )
    return Rule(sizes.dice.choice(rules))


def _intervals(sizes: Sizes) -> Mask:
    return Intervals(*(sizes.whole((sizes.queries,), sizes.keys + 1) for _ in range(2)))


LEAVES: tuple[Callable[[Sizes], Mask], ...] = (
    lambda sizes: Causal(_align(sizes)), _window, _window,
    lambda sizes: Prefix(sizes.whole(sizes.some_batch(), sizes.keys + 2)),
    _padding, _padding, _documents, _packed, _table, _rule, _intervals,
)  # fmt: skip


if __name__ == "__main__":
    check(int(sys.argv[1]))
