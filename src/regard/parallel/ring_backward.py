"""The ring of gradients: those of keys and values follow their shards and end at the owners.

With the whole row's lse and entropy known, dS = p (dP − shift − slope (s − lse)) is true in every
block by itself (see `engine/gradients.py`), so each rank takes the engine's backward of its queries
against the current shard.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.engine import ops
from regard.engine.call import RowState
from regard.errors import GradientError
from regard.parallel.problem import ShardedProblem
from regard.parallel.shards import EMPTY, Piece
from regard.parallel.transport import RingReduceScatter, all_reduce, circulate


class RingGradients(torch.autograd.Function):
    """Known output, lse and entropy of a ring, with their gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        problem: ShardedProblem,
        output: Tensor,
        state: RowState,
        entropy: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        """The values as they are. tensors: query, key, value, then the score rule's arrays."""
        ctx.problem = problem
        ctx.save_for_backward(output, *state, entropy, *tensors)
        ctx.set_materialize_grads(False)
        # views, because saved tensors must not be returned themselves
        kept = (output.view_as(output), state.lse)
        return kept if entropy is None else (*kept, entropy.view_as(entropy))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """A collective: every rank must run it."""
        output, peak, log, entropy, *tensors = ctx.saved_tensors
        row_gradients = _row_gradients(grads, output, peak.dtype, entropy)
        trip = _BackwardTrip(ctx.problem, tensors, RowState(peak, log), row_gradients)
        return None, None, None, None, *trip.run(ctx.needs_input_grad[4:])


class RefusedGradient(torch.autograd.Function):
    """A known value; asking for its gradient is an error, not a silent zero."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, what: str, *tensors: Tensor) -> Tensor:
        """The value as it is; tensors: what a gradient would have to reach."""
        ctx.what = what
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Raise GradientError."""
        raise GradientError(
            f"{ctx.what} has no gradient over a ring; output, lse and entropy have one. Detach it, "
            "or use regard.attend on one rank"
        )


def _row_gradients(
    grads: tuple[Tensor | None, ...], output: Tensor, exact: torch.dtype, entropy: Tensor | None
) -> list[Tensor]:
    """The gradient of the output, the shift and perhaps the slope of every row."""
    g_output, g_lse, g_entropy = (*grads, None)[:3]
    g_output = torch.zeros_like(output) if g_output is None else g_output
    shift = (g_output.to(exact) * output.to(exact)).sum(-1)
    if g_lse is not None:
        shift = shift - g_lse
    if g_entropy is None or entropy is None:
        return [g_output, shift]
    return [g_output, shift + g_entropy * entropy, g_entropy]


class _BackwardTrip:
    """One trip of keys, values and their gradients."""

    def __init__(
        self,
        problem: ShardedProblem,
        tensors: list[Tensor],
        state: RowState,
        row_gradients: list[Tensor],
    ) -> None:
        self.problem, self.state, self.row_gradients = problem, state, row_gradients
        self.query, self.key, self.value, *self.arrays = (t.detach() for t in tensors)
        self.exact = state.peak.dtype
        self.grad_query = torch.zeros_like(self.query, dtype=self.exact)
        self.grad_arrays = [torch.zeros_like(a, dtype=self.exact) for a in self.arrays]

    def run(self, needed: tuple[bool, ...]) -> list[Tensor | None]:
        """Gradients of query, key, value and the arrays."""
        peers, lengths = self.problem.peers, self.problem.shards.lengths
        of_shards = RingReduceScatter(peers, lengths, axis=-2)
        with closing(circulate(peers, [self.key, self.value], lengths)) as tour:
            for owner, shard in tour:
                of_shards.add(self._shard(owner, shard))
        self._sink()
        grads = [self.grad_query, *of_shards.result(), *self.grad_arrays]
        for grad, wanted in zip(grads[3:], needed[3:], strict=True):
            if wanted:
                all_reduce(peers, grad, "adding up gradients")
        tensors = [self.query, self.key, self.value, *self.arrays]
        return [
            grad.to(tensor.dtype) if wanted else None
            for grad, tensor, wanted in zip(grads, tensors, needed, strict=True)
        ]

    def _shard(self, owner: int, shard: list[Tensor]) -> list[Tensor]:
        """Gradients of a shard's keys and values from this rank's queries."""
        sums = [torch.zeros_like(tensor, dtype=self.exact) for tensor in shard]
        for rows, at, cols, there in self.problem.blocks(owner):
            key, value = (tensor[..., there, :] for tensor in shard)
            dq, dk, dv, *arrays = self._block(rows, at, key, value, cols, sink=False)
            self.grad_query[..., at, :] += dq
            sums[0][..., there, :] += dk
            sums[1][..., there, :] += dv
            for total, part in zip(self.grad_arrays, arrays, strict=False):
                total += part
        return sums

    def _block(
        self, rows: Piece, at: slice, key: Tensor, value: Tensor, cols: Piece, sink: bool
    ) -> list[Tensor]:
        """Gradients of one block: its queries, keys and values, then the rule's arrays."""
        call = self.problem.call(self.query[..., at, :], key, value, rows, cols, sink)
        arrays, spec = self.problem.operands(call)
        state = [part[..., at].contiguous() for part in self.state]
        grad_output, shift, *slope = (
            t[..., at, :] if t.ndim == self.query.ndim else t[..., at] for t in self.row_gradients
        )
        given = [grad_output, shift, shift.new_empty(0), *slope]
        grads = ops.gradient(call.query, key, value, arrays, state, given, "output", spec)
        return [*grads[:3], *grads[3 + len(arrays) - len(list(call.score.arrays())) :]]

    def _sink(self) -> None:
        """The sink is a key of no block: its gradient comes from a block without keys."""
        if self.problem.score.sink is None:
            return
        nothing = self.key[..., :0, :], self.value[..., :0, :]
        for rows, at in self.problem.shards.local(self.problem.peers.rank):
            self.grad_arrays[-1] += self._block(rows, at, *nothing, EMPTY, sink=True)[-1]
