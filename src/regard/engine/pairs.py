"""Two attentions in one sweep, where a backend has that: `regard.divergence` without strips.

A backend compares keys. What is the same for all of them is added here: the sink, which is one more
key of every row, and the number z by which a row's weights are divided to make a distribution.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from regard.divergences import How, Pairing, divergence_cells, mixed, student_slopes
from regard.engine.backend import Pairs, PairSide, PairSums
from regard.engine.call import Call, RowState
from regard.engine.plan import sweeps_for


class Native(NamedTuple):
    """Both sides as a backend takes them, and their sinks (B, pairs, L, 1) as logarithms."""

    sweeps: Pairs
    how: How
    teacher: PairSide
    student: PairSide
    sinks: tuple[Tensor, Tensor] | None

    def sums(self, learns: bool) -> PairSums:
        """Of all keys, the sink among them."""
        extra = torch.zeros_like(self.student.z)
        if self.sinks is not None:
            extra = student_slopes(self.how, *self.sinks)[..., 0]
        sides = self.teacher, self.student
        found = self.sweeps.pair_sums(self.how, *sides, extra, learns)
        value = found.value
        if self.sinks is not None:
            value = value + divergence_cells(self.how, *self.sinks)[..., 0]
        if self.how in ("js", "tv"):
            empty = [self._is_empty(side) for side in sides]
            value = torch.where(empty[0] ^ empty[1], torch.inf, value)
        return found._replace(value=value)

    @staticmethod
    def _is_empty(side: PairSide) -> Tensor:
        """(B, pairs, L): all heads of a pair see nothing where one does."""
        peak = side.state.peak.reshape(-1, *side.state.peak.shape[-2:])
        return peak[:, side.heads[:, 0].long()] == -torch.inf

    def gradients(self, grad: Tensor, gains: Tensor, unit: Tensor) -> list[Tensor]:
        """q, k and the arrays of the student's rule, from (B, pairs, L) and what q gains by 1."""
        call, heads = self.student.call, self.student.heads[:, 0].long()
        sides, shape = (self.teacher, self.student), call.shape
        dk = self.sweeps.pair_key_gradient(self.how, *sides, grad, gains)
        g = grad.to(dk.dtype)[..., None]
        dq = torch.where(g == 0, 0.0, unit.to(dk.dtype) * g)
        query, key = (t.new_zeros((dk.shape[0], n, *t.shape[2:]))
                      for t, n in ((dq, shape.query_heads), (dk, shape.key_heads)))  # fmt: skip
        query.index_add_(1, heads, dq)
        key.index_add_(1, heads // shape.group, dk)
        rule = [torch.zeros_like(array) for array in call.score.arrays()]
        if call.score.sink is not None and self.sinks is not None:
            own = student_slopes(self.how, *self.sinks) - self.sinks[1].exp() * gains[..., None]
            own = torch.where(g == 0, 0.0, own * g)
            rule[-1] = rule[-1].to(own.dtype).index_add(0, heads, own.sum((0, 2, 3)))
        return [query.reshape(call.query.shape), key.reshape(call.key.shape), *rule]


def natively(
    how: How, pairing: Pairing, sides: tuple[tuple[Call, RowState, str], ...], rows: range
) -> Native | None:
    """For these rows; None where no backend compares them in one sweep."""
    one, other = (sweeps_for(call, name) for call, _, name in sides)
    if not (isinstance(one, Pairs) and isinstance(other, Pairs)):
        return None
    sizes = [len({len(of) for of in side}) for side in pairing[:2]]
    if type(one).pair_sums is not type(other).pair_sums or max(sizes) > 1:
        return None
    made, sinks = [], []
    for (call, state, _), heads in zip(sides, pairing[:2], strict=True):
        if len(rows) < call.shape.queries:
            here = slice(rows.start, rows.stop)
            call = call.of_rows(rows)
            state = RowState(*(part[..., here].contiguous() for part in state))
        sink = _sink(call, state)
        index = torch.tensor(heads, dtype=torch.int32, device=call.query.device)
        made.append(PairSide(call, state, index, _divisor(sink, heads, pairing.over_keys)))
        sinks.append(mixed(sink, heads, False))
    if other.pair_reasons(how, *made):
        return None
    has_sink = any(call.score.sink is not None for call, *_ in sides) and not pairing.over_keys
    return Native(other, how, made[0], made[1], (sinks[0], sinks[1]) if has_sink else None)


def _sink(call: Call, state: RowState) -> Tensor:
    """(B, H, L, 1): the logarithm of the sink's weight; −∞ without one."""
    lse = state.lse.reshape(prod(call.shape.batch), *state.lse.shape[-2:])
    if call.score.sink is None:
        return torch.full_like(lse, -torch.inf)[..., None]
    return (call.score.sink.detach().to(lse.dtype)[:, None] - lse)[..., None]


def _divisor(sink: Tensor, heads: tuple[tuple[int, ...], ...], over_keys: bool) -> Tensor:
    """(B, pairs, L): log of the number of heads, less what their sinks have."""
    own = sink[..., 0].exp() if over_keys else torch.zeros_like(sink[..., 0])
    return torch.stack([(1 - own[:, list(of)]).sum(1).log() for of in heads], 1)
