"""The ring of gradients: those of keys and values travel with them and come home.

With the whole row's lse and entropy known, dS = p (dP − shift − slope (s − lse)) is true in every
block by itself (see `engine/carry.py`), so each rank takes the engine's backward of its queries
against the shard that is here.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.engine import ops
from regard.engine.call import RowState
from regard.errors import GradientError
from regard.mask import Verdict
from regard.parallel.failure import named
from regard.parallel.group import Peers
from regard.parallel.shards import Piece, Shards
from regard.parallel.travel import Luggage, around
from regard.parallel.whole import Whole

__all__ = ["Joint", "Refusal"]


class Joint(torch.autograd.Function):
    """Known output, lse and entropy of a ring, with their gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        ring: tuple[Peers, Shards, Whole],
        output: Tensor,
        state: RowState,
        entropy: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        """The values as they are. tensors: query, key, value, then the score rule's arrays."""
        ctx.ring = ring
        ctx.save_for_backward(output, *state, entropy, *tensors)
        ctx.set_materialize_grads(False)
        # views, so that what is saved is not what is given away
        kept = (output.view_as(output), state.lse)
        return kept if entropy is None else (*kept, entropy.view_as(entropy))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """Every rank must come here."""
        output, peak, log, entropy, *tensors = ctx.saved_tensors
        told = _told(grads, output, peak.dtype, entropy)
        ring = _Backward(ctx.ring, tensors, RowState(peak, log), told)
        return None, None, None, None, *ring.run(ctx.needs_input_grad[4:])


class Refusal(torch.autograd.Function):
    """A known value; asking for its gradient is an error, not a silent zero."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, what: str, *tensors: Tensor) -> Tensor:
        """The value as it is; tensors: what a gradient would have to reach."""
        ctx.what = what
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """There is none."""
        raise GradientError(
            f"{ctx.what} has no gradient over a ring; output, lse and entropy have one. Detach it, "
            "or use regard.attend on one rank"
        )


def _told(
    grads: tuple[Tensor | None, ...], output: Tensor, exact: torch.dtype, entropy: Tensor | None
) -> list[Tensor]:
    """What the engine's backward is told of every row: the gradient of the output, the shift and
    perhaps the slope."""
    g_output, g_lse, g_entropy = (*grads, None)[:3]
    g_output = torch.zeros_like(output) if g_output is None else g_output
    shift = (g_output.to(exact) * output.to(exact)).sum(-1)
    if g_lse is not None:
        shift = shift - g_lse
    if g_entropy is None or entropy is None:
        return [g_output, shift]
    return [g_output, shift + g_entropy * entropy, g_entropy]


class _Backward:
    """One trip of the gradients."""

    def __init__(
        self,
        ring: tuple[Peers, Shards, Whole],
        tensors: list[Tensor],
        state: RowState,
        told: list[Tensor],
    ) -> None:
        self.peers, self.shards, self.whole = ring
        self.query, self.key, self.value, *self.arrays = (t.detach() for t in tensors)
        self.state, self.told, self.exact = state, told, state.peak.dtype
        self.grad_query = torch.zeros_like(self.query, dtype=self.exact)
        self.grad_arrays = [torch.zeros_like(a, dtype=self.exact) for a in self.arrays]

    def run(self, needed: tuple[bool, ...]) -> list[Tensor | None]:
        """Gradients of query, key, value and the arrays."""
        lengths = self.shards.lengths
        luggage = Luggage(self.peers, lengths, axis=-2)
        with closing(around(self.peers, [self.key, self.value], lengths)) as tour:
            for owner, held in tour:
                luggage.add(self._shard(owner, held))
        self._sink()
        found = [self.grad_query, *luggage.home(), *self.grad_arrays]
        given = [self.query, self.key, self.value, *self.arrays]
        for grad, wanted in list(zip(found, needed, strict=True))[3:]:
            if wanted and self.peers.world > 1:
                with named(self.peers, None, "adding up gradients"):
                    dist.all_reduce(grad, group=self.peers.group)
        return [
            grad.to(tensor.dtype) if wanted else None
            for grad, tensor, wanted in zip(found, given, needed, strict=True)
        ]

    def _shard(self, owner: int, held: list[Tensor]) -> list[Tensor]:
        """What this rank's queries say about a shard's keys and values."""
        sums = [torch.zeros_like(tensor, dtype=self.exact) for tensor in held]
        for rows, at in self.shards.local(self.peers.rank):
            for cols, there in self.shards.local(owner):
                if self.whole.verdict(rows, cols) is Verdict.NONE:
                    continue
                here = [tensor[..., there, :] for tensor in held]
                dq, dk, dv, *arrays = self._block(rows, at, here, cols, sink=False)
                self.grad_query[..., at, :] += dq
                sums[0][..., there, :] += dk
                sums[1][..., there, :] += dv
                for total, part in zip(self.grad_arrays, arrays, strict=False):
                    total += part
        return sums

    def _block(
        self, rows: Piece, at: slice, held: list[Tensor], cols: Piece, sink: bool
    ) -> list[Tensor]:
        """Gradients of one block: its queries, keys and values, then the rule's arrays."""
        call = self.whole.call(self.query[..., at, :], held[0], held[1], rows, cols, sink)
        arrays, spec = self.whole.asking(call)
        state = [part[..., at].contiguous() for part in self.state]
        rows_of = [t[..., at, :] if t.ndim == self.query.ndim else t[..., at] for t in self.told]
        grad_output, shift, *slope = rows_of
        told = [grad_output, shift, shift.new_empty(0), *slope]
        made = ops.gradient(call.query, call.key, call.value, arrays, state, told, "output", spec)
        return [*made[:3], *made[3 + len(arrays) - len(list(call.score.arrays())) :]]

    def _sink(self) -> None:
        """The sink is a key of no block: its gradient comes from a block without keys."""
        if self.whole.score.sink is None:
            return
        nothing = [self.key[..., :0, :], self.value[..., :0, :]]
        for rows, at in self.shards.local(self.peers.rank):
            found = self._block(rows, at, nothing, Piece(0, 0), sink=True)
            self.grad_arrays[-1] += found[-1]
