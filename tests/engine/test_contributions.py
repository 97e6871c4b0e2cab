"""Contributions and masses of groups, beside what the definition's weights say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from regard.errors import DTypeError, InputError, RegardError, ShapeError, StaleError

F64 = torch.float64
SEEDS = range(24)


class Problem:
    """A random attention in float64, its direction and values, and C by the definition."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.dice, numbers = random.Random(seed), torch.Generator().manual_seed(seed)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=numbers, dtype=F64).requires_grad_()

        choose = self.dice.choice
        batch, heads, group = choose(((), (2,), (2, 1))), choose((1, 2)), choose((1, 3))
        self.queries, self.keys, width = choose((1, 5, 70)), choose((1, 9, 130)), choose((1, 6))
        lead = (*batch, heads * group)
        self.q = normal(*lead, self.queries, 4)
        self.k, self.v = (normal(*batch, heads, self.keys, n) for n in (4, width))
        self.x = normal(*lead, choose((1, self.queries)), width)
        self.y = None if choose((0, 1)) else normal(*choose((lead, (*batch, heads))), self.keys, 3)
        if self.y is not None:
            self.x = normal(*self.x.shape[:-1], 3)
        self.options = {
            "mask": choose((None, regard.Causal(), regard.Window(3, 1), regard.Prefix(2))),
            "softcap": choose((None, 3.0)),
            "bias": choose((None, regard.ALiBi(torch.rand(lead[-1], dtype=F64)))),
            "sink": choose((None, torch.randn(lead[-1], dtype=F64))),
        } | options
        values = self.v if self.y is None else self.y
        shared = lead[-1] // values.shape[-3]
        self.values = values.repeat_interleave(shared, -3)
        weights = self.attend("dense")[...]
        self.weights, self.cells = weights, weights * (self.x @ self.values.mT)
        self.inputs = [self.q, self.k, self.x, values]

    def attend(self, implementation: str | None = None) -> regard.Attention:
        return regard.attend(self.q, self.k, self.v, implementation=implementation, **self.options)

    def contributions(self, implementation: str | None = None) -> Any:
        return self.attend(implementation).contributions(self.x, self.y)


def pooled(cells: Tensor, tall: int, wide: int) -> Tensor:
    rows = torch.stack([part.sum(-2) for part in cells.split(tall, -2)], -2)
    return torch.stack([part.sum(-1) for part in rows.split(wide, -1)], -1)


def drawn_groups(p: Problem) -> Tensor:
    return torch.tensor([p.dice.randrange(-1, 3) for _ in range(p.keys)])


def indicator(groups: Tensor) -> Tensor:
    return (groups[:, None] == torch.arange(int(groups.max()) + 1)).to(F64)


ANSWERS: dict[str, tuple[Callable[[Any], Tensor], Callable[[Problem], Tensor]]] = {
    "cells": (lambda c: c[..., ::2, 1:], lambda p: p.cells[..., ::2, 1:]),
    "total": (lambda c: c.total(), lambda p: p.cells.sum(-1)),
    "received": (lambda c: c.received(), lambda p: p.cells.sum(-2)),
    "map": (lambda c: c.map(16, 7), lambda p: pooled(p.cells, 16, 7)),
    "top": (lambda c: c.top(3).weights, lambda p: best(p, 3)[0]),
}  # fmt: skip


def best(p: Problem, k: int) -> tuple[Tensor, Tensor]:
    hidden = p.attend("dense").scores[...] == -torch.inf
    sizes = p.cells.detach().abs().masked_fill(hidden, -1)
    order = sizes.sort(dim=-1, descending=True, stable=True)
    keys = order.indices[..., :k].masked_fill(order.values[..., :k] < 0, -1)
    numbers = p.cells.gather(-1, keys.clamp(min=0)).masked_fill(keys < 0, 0)
    more = (0, k - keys.shape[-1])
    pad = torch.nn.functional.pad
    return pad(numbers, more), pad(keys, more, value=-1)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("implementation", ["dense", "tiled", None])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.sampled(90)
def test_every_answer_and_its_gradient(seed: int, implementation: str, name: str) -> None:
    p, (ask, define) = Problem(seed), ANSWERS[name]
    given, right = ask(p.contributions(implementation)), define(p)
    assert_close(given, right, atol=1e-12, rtol=1e-9)
    by = torch.randn(right.shape, dtype=F64, generator=torch.Generator().manual_seed(seed))
    grads, exact = (
        torch.autograd.grad((t * by).sum(), p.inputs, allow_unused=True, materialize_grads=True)
        for t in (given, right)
    )
    for mine, true in zip(grads, exact, strict=True):
        assert_close(mine, true, atol=1e-11, rtol=1e-8)
    with torch.no_grad():
        assert_close(ask(p.contributions(implementation)), right.detach(), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.sampled(8)
def test_groups_of_keys(seed: int) -> None:
    """By number, or as spans; of contributions and of weights alone."""
    p = Problem(seed)
    groups, middle = drawn_groups(p), p.keys // 2
    groups[0] = 2
    spans = [range(middle), slice(middle, None), (1, p.keys)]
    ends = [(0, middle), (middle, p.keys), (1, p.keys)]
    for given, members in (
        (groups, indicator(groups)),
        (groups.tolist(), indicator(groups)),
        (spans, torch.tensor([[a <= j < b for a, b in ends] for j in range(p.keys)]).to(F64)),
    ):
        assert_close(p.contributions().by(given), p.cells @ members)
        assert_close(p.attend().mass(given), p.weights @ members)
    by = torch.randn(p.weights.shape[-2], dtype=F64)[:, None]
    mine = torch.autograd.grad((p.attend().mass(groups) * by).sum(), [p.q, p.k])
    right = torch.autograd.grad((p.weights @ indicator(groups) * by).sum(), [p.q, p.k])
    assert_close(mine, right)


def test_rows_add_up_to_the_output_along_the_direction() -> None:
    q, k, v, x = (torch.randn(2, 4, 50, 8) for _ in range(4))
    a = regard.attend(q, k, v, mask=regard.Causal())
    c = a.contributions(x)
    along = (x * a.output).sum(-1)
    assert c.shape == (2, 4, 50, 50) and c.dtype == torch.float32
    assert_close(c.total(), along, atol=1e-5, rtol=1e-5)
    assert_close(c[...].sum(-1), along, atol=1e-5, rtol=1e-5)
    assert_close(c.map().sum((-2, -1)), c.received().sum(-1), atol=1e-4, rtol=1e-4)
    assert torch.equal(c.map(), c.map()) and torch.equal(c.top(3).keys, c.top(3).keys)


@pytest.mark.parametrize(("heads", "queries", "keys"), [(2, 2100, 2100), (5, 1300, 900)])
def test_of_more_cells_than_are_computed_at_once(heads: int, queries: int, keys: int) -> None:
    """Strips of rows, and several heads at a time."""
    q, x = (torch.randn(heads, queries, 4) for _ in range(2))
    k, v = (torch.randn(heads, keys, 4) for _ in range(2))
    a = regard.attend(q, k, v)
    c, cells = a.contributions(x), a.dense() * (x @ v.mT)
    assert_close(c.map(100, 70), pooled(cells, 100, 70), atol=1e-4, rtol=1e-3)
    assert_close(c.by([range(9, 800)]), cells[..., 9:800].sum(-1, True), atol=1e-5, rtol=1e-3)
    assert_close(c.top(1).weights.abs(), cells.abs().amax(-1, True), atol=1e-6, rtol=1e-4)


def test_equal_sizes_go_to_the_smaller_key() -> None:
    """Signs do not count for the order; keys that are hidden are none."""
    q = k = torch.zeros(1, 1, 6, 2)
    v = torch.tensor([1.0, -2.0, 2.0, 0.0, -1.0, 2.0]).view(1, 1, 6, 1)
    a = regard.attend(q, k, v, mask=regard.Causal())
    top = a.contributions(torch.ones(1, 1, 1, 1)).top(7)
    assert top.keys[0, 0, 5].tolist() == [1, 2, 5, 0, 4, 3, -1]
    assert_close(top.weights[0, 0, 5], torch.tensor([-2.0, 2, 2, 1, -1, 0, 0]) / 6)
    assert top.keys[0, 0, 0].tolist() == [0, *[-1] * 6]


@pytest.mark.parametrize("form", ["replay", "packed", "paged", "without a head", "counted"])
def test_of_every_attention(form: str) -> None:
    """What has no values is given them; rows of padding count in no sum."""
    q, k, v, x = (torch.randn(1, 2, 20, 4, dtype=F64) for _ in range(4))
    options: dict[str, Any] = {"mask": regard.Causal()}
    if form == "packed":
        starts = torch.tensor([0, 8, 20], dtype=torch.int32)
        given = (t[0].transpose(0, 1) for t in (q, k, v))
        a = regard.attend(*given, cu_seqlens_q=starts, **options)
        c, weights = a.contributions(x[0]), a[...]
        cells = weights * (x[0] @ v[0].mT)
        assert_close(c.total(), (x[0] * a.output.transpose(0, 1)).sum(-1))
    elif form == "paged":
        pages, lengths = (torch.tensor(n, dtype=torch.int32) for n in ([[1, 0]], [20]))
        cache = torch.cat([k[0].transpose(0, 1)[10:], k[0].transpose(0, 1)[:10]])
        cache = cache.reshape(2, 10, 2, 4)
        a = regard.replay(q.transpose(1, 2), cache, pages=pages, lengths=lengths, **options)
        c, cells = a.contributions(x[0], v[0]), a[...] * (x[0] @ v[0].mT)
    elif form == "without a head":
        a = regard.attend(q[0, 0], k[0, 0], v[0, 0], **options)
        c, cells = a.contributions(x[0, 0]), a[...] * (x[0, 0] @ v[0, 0].mT)
    elif form == "replay":
        a = regard.replay(q, k, regard.attend(q, k, v, **options).lse, **options)
        c, cells = a.contributions(x, v), a[...] * (x @ v.mT)
    else:
        from regard.engine.api import attend_counting

        rows = (torch.arange(20) < 13)[None]
        a = attend_counting(q, k, v, counted=rows, **options)
        c, cells = a.contributions(x), a[...] * (x @ v.mT) * rows[:, None, :, None]
        assert_close(a.mass([range(5)]), (a[...] * rows[:, None, :, None])[..., :5].sum(-1, True))
    for given, right in (
        (c.received(), cells.sum(-2)),
        (c.total(), cells.sum(-1)),
        (c.map(5, 5), pooled(cells, 5, 5)),
        (c.by([range(3, 9)]), cells[..., 3:9].sum(-1, True)),
    ):
        assert_close(given, right)


def refusals() -> dict[str, tuple[type[RegardError], Callable[[], Any]]]:
    q = torch.randn(1, 2, 6, 4)
    a = regard.attend(q, q, q)
    x = torch.ones(1, 2, 6, 4)
    return {
        "replay has no values": (InputError, lambda: regard.replay(q, q).contributions(x)),
        "numbers a row": (ShapeError, lambda: a.contributions(x[..., :3])),
        "6 or 1 rows": (ShapeError, lambda: a.contributions(x[..., :2, :])),
        "values has shape": (ShapeError, lambda: a.contributions(x, q[..., :2, :])),
        "whole number": (InputError, lambda: a.contributions(x).top(0)),
        "whole numbers": (InputError, lambda: a.contributions(x).map(0, 3)),
        "whole numbers, −1": (DTypeError, lambda: a.mass(torch.rand(6))),
        "groups has shape": (ShapeError, lambda: a.mass([0, 1])),
        "reaches past": (InputError, lambda: a.mass([(3, 9)])),
        "groups is a": (DTypeError, lambda: a.contributions(x).by("passages")),
    }


@pytest.mark.parametrize("words", refusals())
def test_what_is_refused(words: str) -> None:
    kind, ask = refusals()[words]
    with pytest.raises(kind, match=words):
        ask()


@pytest.mark.parametrize("sizes", [(0, 4, 3), (2, 0, 3), (2, 4, 0)])
def test_where_there_is_nothing(sizes: tuple[int, int, int]) -> None:
    heads, queries, keys = sizes
    q, k = (torch.randn(heads, n, 4, requires_grad=True) for n in (queries, keys))
    c = regard.attend(q, k, k).contributions(torch.ones(heads, 1, 4))
    top = c.top(2)
    assert top.weights.shape == top.keys.shape == (heads, queries, 2)
    assert top.keys.dtype == torch.int64 and (keys or bool((top.keys == -1).all()))
    assert c.by([range(keys)]).shape == (heads, queries, 1)
    assert c.map(3, 2).shape == (heads, -(-queries // 3), -(-keys // 2))
    assert c.received().shape == (heads, keys) and c.total().shape == (heads, queries)


def test_a_direction_that_changed_is_stale() -> None:
    q, x = torch.randn(1, 2, 6, 4), torch.ones(1, 2, 6, 4)
    c = regard.attend(q, q, q).contributions(x)
    x += 1
    with pytest.raises(StaleError, match="changed in place"):
        c.total()
