"""Whatever fits together is right in every dtype, or refused in words: every kernel under masks of
all kinds, whole or given per batch entry, biases and sinks, over tensors that lie anywhere in
memory full of NaN.

On a GPU the kernels are compiled. Elsewhere every fifth problem is a small one, for which those of
Triton are interpreted in a process of its own, unless this one interprets; there they may touch
nothing but their tensors. Gradients are those of small problems.
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

DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")
SEEDS = 520 if DEVICE == "cuda" else 50
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NAMES = ("default", "triton", "tiled") if DEVICE == "cuda" else ("cpu", "tiled", "triton")
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SIZES = (0, 1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 200, 257, 300)
DIMS = (1, 8, 16, 33, 40, 64, 80, 128, 160, 200, 256)
SMALL_SIZES, SMALL_DIMS = (0, 1, 2, 3, 17, 33, 65), (1, 5, 16, 33, 40, 64)
BATCHES = ((), (1,), (2,), (3,), (2, 2), (1, 3), (0,))
RARE = 0.04  # how often anything is 0 where a problem is empty


def check(seed: int) -> None:
    """The problem of a seed; AssertionError where an answer is wrong."""
    if seed % 5 or DEVICE == "cuda" or INTERPRETED:
        _check(seed)
        return
    folder = str(Path(__file__).resolve().parents[1])
    run = warm.run(Path(__file__), str(seed), interpret=True, searched=folder)
    if run.returncode:
        raise AssertionError(f"seed {seed}: {run.stderr[-3000:]}")


def _check(seed: int) -> None:
    dice, is_small = random.Random(seed), DEVICE == "cpu" and seed % 5 == 0
    inputs = _problem(dice, is_small)
    right = Yardstick(call_of(inputs))
    asked = ["output", *dice.sample([name for name in ANSWERS if name != "output"], 4)]
    question, k, name = dice.choice(sorted(QUESTIONS)), dice.choice((1, 3, 9)), ""
    try:
        for name in NAMES:
            if (name == "triton" and DEVICE == "cpu" and not is_small) or not serves(inputs, name):
                continue
            with _bounded(name):
                expect_right(inputs, name, right, asked, seed)
                if dice.random() < 0.3:
                    expect_top(inputs, name, right, k)
                if not (is_small or DEVICE == "cuda"):
                    continue  # the budget of gradients is for sums of few terms; `packed` has them
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

    def __init__(self, dice: random.Random, is_small: bool) -> None:
        def some(choices: tuple[Any, ...], empty: Any) -> Any:
            return dice.choice(choices) if dice.random() < RARE else dice.choice(
                [choice for choice in choices if choice != empty]
            )  # fmt: skip

        self.dice = dice
        self.numbers = torch.Generator().manual_seed(dice.randrange(2**31))
        self.batch: tuple[int, ...] = some(BATCHES, (0,))
        self.key_heads = dice.choice((1, 1, 2, 3)) if dice.random() > RARE / 2 else 0
        self.heads = self.key_heads * dice.choice((1, 1, 2, 3))
        sizes = SMALL_SIZES if is_small else SIZES
        self.queries, self.keys = some(sizes, 0), some((*sizes, 130), 0)
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


def _problem(dice: random.Random, is_small: bool) -> Inputs:
    sizes, dims = Sizes(dice, is_small), SMALL_DIMS if is_small else DIMS
    dtype, dim = dice.choice(TYPES), dice.choice(dims)
    value_dim = dim if dice.random() < 0.6 else dice.choice((0, *dims))
    query = sizes.normal(*sizes.batch, sizes.heads, sizes.queries, dim) * dice.choice((0.3, 1, 3))
    key = sizes.normal(*sizes.batch, sizes.key_heads, sizes.keys, dim)
    value = sizes.normal(*sizes.batch, sizes.key_heads, sizes.keys, value_dim)
    tensors = [placed(t.to(dtype).to(DEVICE), dice) for t in (query, key, value)]
    options = _options(sizes, dtype, dim)
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


def _options(sizes: Sizes, dtype: torch.dtype, dim: int) -> dict[str, Any]:
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
        gone = torch.rand(sizes.heads, generator=sizes.numbers) < dice.choice((0, 0, 0.5, 1))
        sink = (sizes.normal(sizes.heads) * 2).masked_fill(gone, -torch.inf)
        made["sink"] = placed(sink.to(DEVICE, exact), dice)
    if dice.random() < 0.2:
        made["softcap"] = dice.choice((2.0, 30.0))
    if dice.random() < 0.2:
        made["scale"] = dice.choice((0.04, 2, 4, 10, -2.8)) * dim**-0.5
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
