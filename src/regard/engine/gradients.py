"""Gradients that arrive at scores and weights, carried on to q, k, v and the rule's arrays.

Everything here is one of two things: the attention backward sweep, whose dS is
p (dP − shift − slope (s − lse)), and rectangles of final scores on which gradients fall cell by
cell. A weight is exp(s − lse), so a gradient g on p_ij puts g·p_ij
on its own score and −g·p_ij on the lse of its row; the latter is a sweep with shift = −g_lse.
Sweeps run below autograd, so a bias says how a tile's dS falls on its arrays; where it does not,
autograd differentiates its tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import cast

import torch
from torch import Tensor

from regard.engine.backend import RoundedBackward, Sweeps, is_rounded
from regard.engine.call import Call, Place, RowState, gap_of
from regard.engine.torch_state import recording
from regard.mask import Extent
from regard.score import Bias
from regard.summary import RowStatistic

_STRIP = 128  # rows at a time, where a gradient falls on a few scores of every row


def by_output(
    sweeps: Sweeps,
    call: Call,
    state: RowState,
    grad_output: Tensor,
    shift: Tensor,
    slope: Tensor | None,
    mass: bool = False,
    output: Tensor | None = None,
) -> list[Tensor]:
    """q, k, v, then one per array of the rule; last the mass, where asked for. With an `output`,
    Σ grad_output · output is yet to be added to the shift, and gradients go nowhere but to their
    tensors, so that they may be rounded as these are."""
    if output is not None and call.score.sink is None and is_rounded(type(sweeps)):
        own = cast(RoundedBackward, sweeps)
        found = own.rounded_backward(call, state, grad_output, output, shift, slope, mass)
    else:
        if output is not None:
            shift = shift + (grad_output.to(shift.dtype) * output.to(shift.dtype)).sum(-1)
        found = sweeps.backward(call, state, grad_output, shift, slope, mass)
    rule = [
        torch.zeros_like(array) if grad is None else grad
        for array, grad in zip(call.score.arrays(), found.rule, strict=True)
    ]
    if call.score.sink is not None:
        rule[-1] = _sink_gradient(call.score.sink, state, shift, slope)
    brought = [] if found.mass is None else [found.mass]
    return [found.query, found.key, found.value, *rule, *brought]


def _sink_gradient(sink: Tensor, state: RowState, shift: Tensor, slope: Tensor | None) -> Tensor:
    """The sink is a key whose value is zero: dP = 0. (Hq,)"""
    gap = gap_of(sink.detach(), state.lse)
    p = gap.exp()
    inner = shift if slope is None else shift + slope * torch.where(p > 0, gap, 0.0)
    return -(p * inner).flatten(0, -3).sum((0, -1)) if p.ndim > 2 else -(p * inner).sum(-1)


def by_product(
    sweeps: Sweeps, call: Call, state: RowState, g: Tensor, outer: Tensor
) -> list[Tensor]:
    """dP_ij = outer_i · g_j, with g (…, Hq, S, M) and outer (…, Hq, L, M): the attention backward
    with values g. Gives q, k, the arrays, and A @ g, which is the gradient of outer."""
    shape = call.shape
    # each query head has values of its own here
    apart = replace(
        call,
        key=call.key.detach().repeat_interleave(shape.group, -3),
        value=g,
        shape=replace(shape, key_heads=shape.query_heads, value_dim=g.shape[-1]),
        dropout=0.0,
    )
    product = multiply(sweeps, apart, state)
    shift = (outer * product).sum(-1)
    query, key, _, *rule = by_output(sweeps, apart, state, outer, shift, None)
    if shape.group > 1:
        *lead, heads, n, d = key.shape
        key = key.reshape(*lead, heads // shape.group, shape.group, n, d).sum(-3)
    return [query, key, *rule, product]


def multiply(sweeps: Sweeps, call: Call, state: RowState) -> Tensor:
    """A @ value, for the A that `state` defines."""
    found = sweeps.rows(call, True, (), state).output
    assert found is not None
    return found


def by_cells(
    sweeps: Sweeps, call: Call, state: RowState, place: Place, on_scores: Tensor, on_lse: Tensor
) -> list[Tensor]:
    """Gradients (units, rows, cols) on single scores, and (…, Hq, L) on lse: q, k, the arrays."""
    own = _through_scores(call, [(place, on_scores)])
    return _with_lse(sweeps, call, state, own, on_lse)


def by_top(
    sweeps: Sweeps, call: Call, state: RowState, keys: Tensor, on_scores: Tensor
) -> list[Tensor]:
    """Gradients (…, Hq, L, k) on the scores of these keys, and what that means for lse."""

    def strips() -> Iterator[tuple[Place, Tensor]]:
        shape, device = call.shape, keys.device
        if shape.keys == 0:
            return
        units = torch.arange(keys.flatten(0, -3).shape[0], device=device)
        cols = torch.arange(shape.keys, device=device)
        for start in range(0, shape.queries, _STRIP):
            rows = torch.arange(start, min(start + _STRIP, shape.queries), device=device)
            at = keys.flatten(0, -3)[:, rows]
            part = on_scores.flatten(0, -3)[:, rows].masked_fill(at < 0, 0.0)
            strip = part.new_zeros((len(units), len(rows), len(cols)))
            yield Place(units, rows, cols), strip.scatter_add_(-1, at.clamp(min=0), part)

    on_lse = -on_scores.masked_fill(keys < 0, 0.0).sum(-1)
    return _with_lse(sweeps, call, state, _through_scores(call, strips()), on_lse)


def by_slopes(
    sweeps: Sweeps,
    call: Call,
    state: RowState,
    statistic: RowStatistic,
    grad: Tensor,
    value: Tensor,
) -> list[Tensor]:
    """A statistic that says dvalue/dscore of whole rows; lse's part is in it."""

    def strips() -> Iterator[tuple[Place, Tensor]]:
        shape, device = call.shape, call.query.device
        units = torch.arange(math.prod(shape.batch) * shape.query_heads, device=device)
        cols = torch.arange(shape.keys, device=device)
        lse, values, grads = (t.flatten(0, -3) if t.ndim > 2 else t
                              for t in (state.lse.unsqueeze(-1), value.unsqueeze(-1),
                                        grad.unsqueeze(-1)))  # fmt: skip
        for start in range(0, shape.queries if shape.keys else 0, _STRIP):
            rows = torch.arange(start, min(start + _STRIP, shape.queries), device=device)
            place = Place(units, rows, cols)
            p = sweeps.cells(call, state, place, "weights")
            s = sweeps.cells(call, state, place, "scores")
            u = torch.where(p > 0, s - lse[:, rows], 0.0)
            yield place, grads[:, rows] * statistic.slopes(p, u, values[:, rows])

    return _through_scores(call, strips())


def _with_lse(
    sweeps: Sweeps, call: Call, state: RowState, own: list[Tensor], on_lse: Tensor
) -> list[Tensor]:
    matrix = call.with_value(call.value[..., :0])
    nothing = on_lse.new_zeros((*on_lse.shape, 0))
    query, key, _, *rule = by_output(sweeps, matrix, state, nothing, -on_lse, None)
    return [a + b for a, b in zip(own, [query, key, *rule], strict=True)]


def _through_scores(call: Call, parts: Iterable[tuple[Place, Tensor]]) -> list[Tensor]:
    """q, k and the rule's arrays, from gradients on rectangles of final scores."""
    found = ScoreGradients(call)
    for place, on_scores in parts:
        found.add(place, on_scores)
    return found.close()


class ScoreGradients:
    """Gradients of q, k and the rule's arrays, from those that fall on rectangles of final scores;
    a sink's score is no cell of any."""

    def __init__(self, call: Call) -> None:
        self.call = call
        exact, score = call.exact, call.score
        self.query, self.key = (t.detach().to(exact).flatten(0, -3) for t in (call.query, call.key))
        self.grad_q, self.grad_k = torch.zeros_like(self.query), torch.zeros_like(self.key)
        self.bias = BiasGradient(score.bias, call.shape.extent, exact)
        self.sink = None if score.sink is None else torch.zeros_like(score.sink, dtype=exact)

    def add(self, place: Place, on_scores: Tensor) -> None:
        """(units, rows, cols)."""
        shape, score = self.call.shape, self.call.score
        (units, rows, cols), ds = _distinct(place, on_scores)
        q, k = self.query[units][:, rows], self.key[units // shape.group][:, cols]
        if score.bias is not None:
            full = ds.new_zeros((self.query.shape[0], *ds.shape[1:])).index_add_(0, units, ds)
            lead = shape.extent.full[:-2]
            self.bias.add(rows, cols, full.reshape(*lead, len(rows), len(cols)))
        if score.softcap is not None:
            capped = score.cap(score.product(q, k) * score.scale)
            ds = ds * (1 - (capped / score.softcap).square())
        ds = ds * score.scale
        dq, dk = score.carry(q, k, ds)
        self.grad_q[units[:, None], rows] += dq
        shared = self.grad_k.new_zeros((len(self.key), len(cols), self.key.shape[-1]))
        self.grad_k[:, cols] += shared.index_add_(0, units // shape.group, dk)

    def add_rows(self, rows: Tensor, cols: range, ds: Tensor) -> None:
        """(units, R, C) on whole rows, each named once, of all heads: nothing is gathered. The
        queries of a group's heads stand one below the other, as one head's would."""
        shape, score = self.call.shape, self.call.score
        here = slice(cols.start, cols.stop)
        if score.bias is not None:
            j = torch.arange(cols.start, cols.stop, device=ds.device)
            self.bias.add(rows, j, ds.reshape(*shape.extent.full[:-2], *ds.shape[-2:]))
        tall = (len(self.key), shape.group * len(rows))
        q, k = self.query[:, rows].reshape(*tall, -1), self.key[:, here]
        ds = ds.reshape(*tall, -1)
        if score.softcap is not None:
            capped = score.cap(score.product(q, k) * score.scale)
            ds = ds * (1 - (capped / score.softcap).square())
        dq, dk = score.carry(q, k, ds * score.scale)
        self.grad_q[:, rows] += dq.reshape(-1, len(rows), dq.shape[-1])
        self.grad_k[:, here] += dk

    def close(self) -> list[Tensor]:
        """q, k, then one per array of the rule."""
        sink = [] if self.sink is None else [self.sink]
        query, key = self.call.query.shape, self.call.key.shape
        return [self.grad_q.reshape(query), self.grad_k.reshape(key), *self.bias.sums, *sink]


def _distinct(place: Place, ds: Tensor) -> tuple[Place, Tensor]:
    """Cells named twice become one, so that nothing is added up in an order of chance."""
    named = []
    for axis, index in enumerate(place):
        once, at = torch.unique(index, return_inverse=True)
        if len(once) < len(index):
            size = (*ds.shape[:axis], len(once), *ds.shape[axis + 1 :])
            ds = ds.new_zeros(size).index_add_(axis, at, ds)
        else:
            once = index
        named.append(once)
    return Place(*named), ds


class BiasGradient:
    """A running sum over tiles, one tensor per array of the bias."""

    def __init__(self, bias: Bias | None, extent: Extent, dtype: torch.dtype) -> None:
        self.bias, self.extent = bias, extent
        arrays = [] if bias is None else bias.arrays()
        self.sums = [torch.zeros_like(array, dtype=dtype) for array in arrays]

    def add(self, i: Tensor, j: Tensor, ds: Tensor) -> None:
        """dS of rows i (R,) and keys j (C,), for every batch entry and head: (*batch, Hq, R, C)."""
        if self.bias is None or self.bias.add_gradient(self.sums, i, j, ds, self.extent):
            return
        arrays = list(self.bias.arrays())
        floats = [n for n, array in enumerate(arrays) if array.is_floating_point()]
        if not floats:  # places and counts have no gradient
            return

        with recording():
            learned = {n: arrays[n].detach().requires_grad_() for n in floats}
            place = count()
            tile = self.bias.map(lambda array: learned.get(next(place), array)).tile(
                i, j, self.extent
            )
            if not tile.requires_grad:  # as between packed sequences
                return
            on_tile = ds.sum_to_size(tile.shape).to(tile.dtype)
            given = list(learned.values())
            grads = torch.autograd.grad(tile, given, on_tile, allow_unused=True)
        for n, grad in zip(floats, grads, strict=True):
            if grad is not None:
                self.sums[n] += grad.to(self.sums[n].dtype)
