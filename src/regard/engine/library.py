"""torch's own fused attention for the CPU, with every limit it has said out loud.

The operator is private, so this page is the only one that knows it, and asks whether it is
there. It checks nothing: wrong head ratios and an over-long V run silently, empty inputs kill the
process. Everything is therefore checked before, and what it cannot do is a reason. Questions are
answered by our own sweeps, which compute the lse again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, library

from regard.engine import ops
from regard.engine.problem import Answers, Call, Place, Problem, RowState, What
from regard.engine.spec import Spec
from regard.engine.swept import Swept
from regard.summary import Summary

__all__ = ["LIBRARY", "Library", "flash"]

_NAME = "_scaled_dot_product_flash_attention_for_cpu"


class Library:
    """torch's CPU flash attention; forward only, no statistics."""

    name = "library"

    def __init__(self) -> None:
        self._questions = Swept(None)  # whichever sweeps can serve

    def unavailable(self) -> list[str]:
        """Whether this torch has the operator."""
        return [] if hasattr(torch.ops.aten, _NAME) else [f"this torch has no aten.{_NAME}"]

    def reasons(self, problem: Problem) -> list[str]:
        """The operator's limits."""
        shape = problem.shape
        limits = {
            f"the tensors are on {problem.device}, it runs on the CPU": problem.device != "cpu",
            "it measures nothing on the way": bool(problem.summaries),
            f"value dim {shape.value_dim} ≠ query dim {shape.dim}": shape.value_dim != shape.dim,
            f"it takes four axes, not {len(shape.batch) + 3 - shape.headless}": (
                len(shape.batch) != 1
            ),
            "it has no soft cap": problem.softcap,
            "it has no sink": problem.sink,
            "it has no bias": bool(problem.bias),
            f"of masks it knows only causal ones, not {problem.mask}": not _is_causal(problem),
            "it has no dropout": problem.dropout,
            "empty inputs end the process": 0 in (shape.queries, shape.keys, *shape.batch),
        }
        return [said for said, so in limits.items() if so]

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """Output and lse."""
        spec = Spec.of(call.mask, call.score).asking(output=True)
        output, lse = flash(call.query, call.key, call.value, call.mask is not None, spec)
        return Answers(output, lse, {}, None)

    def state(self, call: Call) -> RowState:
        """By our own sweeps: the library's lse is not theirs to the bit."""
        return self._questions.state(call)

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: dict[Any, Any]
    ) -> dict[Summary, Any]:
        """By our own sweeps."""
        return self._questions.measure(call, state, summaries, known)

    def block(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """By our own sweeps."""
        return self._questions.block(call, state, place, what)

    def apply(self, call: Call, state: RowState, x: Tensor) -> Tensor:
        """By our own sweeps."""
        return self._questions.apply(call, state, x)

    def apply_transposed(self, call: Call, state: RowState, y: Tensor) -> Tensor:
        """By our own sweeps."""
        return self._questions.apply_transposed(call, state, y)


def _is_causal(problem: Problem) -> bool:
    """No mask, or the causal one that starts at key 0."""
    square = problem.shape.queries == problem.shape.keys
    causal = ["Causal(align='start')", *(["Causal(align='end')"] if square else [])]
    return problem.mask in ("", *causal)


@library.custom_op("regard::flash", mutates_args=())
def flash(q: Tensor, k: Tensor, v: Tensor, causal: bool, spec: str) -> list[Tensor]:
    """Output and lse of torch's operator; gradients come from our own backward."""
    run = getattr(torch.ops.aten, _NAME)
    scale = Spec.parse(spec).call(q, k, v, []).score.scale
    # it reads rows of numbers that stand together, whatever the strides say
    rows = [t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v)]
    output, lse = run(*rows, 0.0, causal, scale=scale)
    exact = torch.promote_types(q.dtype, torch.float32)
    if bool((lse == 0).any()):  # what it also says, with an output of 0, where all is NaN
        first = k[..., :1, :].repeat_interleave(q.shape[-3] // k.shape[-3], -3)  # seen by all
        lost = (q.to(exact) * first.to(exact)).sum(-1).isnan()
        output = output.masked_fill(lost.unsqueeze(-1), torch.nan)
        lse = lse.masked_fill(lost, torch.nan)
    return [output.contiguous(), lse.to(exact).contiguous()]


@flash.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, spec: str) -> list[Tensor]:
    exact = torch.promote_types(q.dtype, torch.float32)
    return [q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=exact)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    q, k, v, _, ctx.spec = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    q, k, v, output, lse = ctx.saved_tensors
    g_output = torch.zeros_like(output) if grads[0] is None else grads[0]
    shift = (g_output.to(lse.dtype) * output.to(lse.dtype)).sum(-1)
    shift = shift if grads[1] is None else shift - grads[1]
    told, state = [g_output, shift, lse.new_empty(0)], [lse, torch.zeros_like(lse)]
    found = ops.gradient(q, k, v, [], state, told, "output", ctx.spec)
    return found[0], found[1], found[2], None, None


flash.register_autograd(_backward, setup_context=_save)

LIBRARY = Library()
