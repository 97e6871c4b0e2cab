"""torch's own fused attention, with every limit it has said out loud.

The operators are private, so this page is the only one that knows them, and asks whether they
are there. They check little: on the CPU wrong head ratios and an over-long V run silently, empty
inputs kill the process. Everything is therefore checked before, and what they cannot do is a
reason. Questions are answered by our own sweeps, which compute the lse again.

    cpu    flash                   gradients by our own backward
    cuda   cuDNN, else flash       gradients by theirs, unless the lse has one
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.engine import ops
from regard.engine.answers import Swept
from regard.engine.call import NO_DOT, Answers, Call, Known, Place, Problem, RowState, What
from regard.engine.codec import Spec
from regard.engine.operator import operator
from regard.engine.torch_state import torch_attention, unwatched
from regard.mask import Causal
from regard.summary import Summary

_NAME = "_scaled_dot_product_flash_attention_for_cpu"
_CUDA = {  # in order of preference, by what was measured
    "cudnn": "_scaled_dot_product_cudnn_attention",
    "flash": "_scaled_dot_product_flash_attention",
}
_LARGEST = {"cudnn": 128, "flash": 256}  # head dims


class Library:
    """torch's fused attention; no statistics."""

    name = "library"

    def __init__(self) -> None:
        self._questions = Swept(None)  # whichever sweeps can serve

    def unavailable(self) -> list[str]:
        """Whether this torch has the operator."""
        return [] if hasattr(torch.ops.aten, _NAME) else [f"this torch has no aten.{_NAME}"]

    def reasons(self, problem: Problem) -> list[str]:
        """The operator's limits."""
        shape = problem.shape
        on_gpu = problem.device == "cuda"
        limits = {
            f"the tensors are on {problem.device}, it runs on the CPU and on CUDA": (
                problem.device not in ("cpu", "cuda")
            ),
            **(_gpu_limits(problem) if on_gpu else {}),
            "it measures nothing on the way": bool(problem.summaries),
            f"value dim {shape.value_dim} ≠ query dim {shape.dim}": shape.value_dim != shape.dim,
            f"it takes four axes, not {len(shape.batch) + 3 - shape.headless}": (
                len(shape.batch) != 1
            ),
            NO_DOT: not problem.dot,
            "it has no soft cap": problem.softcap,
            "it has no sink": problem.sink,
            "it has no bias": problem.bias is not None,
            f"of masks it knows only causal ones, not {problem.mask!r}": not _is_causal(problem),
            "it has no dropout": problem.dropout,
            "empty inputs end the process": (
                0 in (shape.queries, shape.keys, shape.query_heads, *shape.batch)
            ),
        }
        return [said for said, so in limits.items() if so]

    def attend(self, call: Call, summaries: tuple[Summary, ...]) -> Answers:
        """Output and lse. Without gradients torch's operator is called as it is: the host's time
        around it shows where a call takes well under a millisecond."""
        q, k, v, causal = call.query, call.key, call.value, call.mask is not None
        on_gpu = q.device.type == "cuda"
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        if not learns and (on_gpu or unwatched((q, k, v))):
            output, lse = (_fused if on_gpu else _flash)(q, k, v, causal, call.score.scale)
            return Answers(output if on_gpu else output.contiguous(), lse, Known(), None)
        spec = Spec.of(call.mask, call.score).asking(output=True)
        output, lse = (fused if on_gpu else flash)(q, k, v, causal, spec)
        return Answers(output, lse, Known(), None)

    def alone(self, call: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
        """On a GPU by torch's own function; on the CPU by the operator that `attend` calls."""
        if call.query.device.type == "cuda":
            return by_torch(call)
        if not unwatched((call.query, call.key, call.value)):
            return None
        causal, scale = call.mask is not None, call.score.scale
        return lambda q, k, v: _flash(q, k, v, causal, scale)[0]

    def lse(self, call: Call, state: RowState | None = None) -> Tensor:
        """By our own sweeps."""
        return self._questions.lse(call, state)

    def state(
        self, call: Call, along: tuple[Summary, ...] = (), known: Known | None = None
    ) -> RowState:
        """By our own sweeps: the library's lse is not theirs to the bit."""
        return self._questions.state(call, along, known)

    def measure(
        self, call: Call, state: RowState, summaries: tuple[Summary, ...], known: Known
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
    """No mask, or the causal one that starts at key 0; GPU operators differ on where it starts."""
    square = problem.shape.queries == problem.shape.keys
    causal = [Causal("end")] if square else []
    causal += [Causal("start")] if square or problem.device == "cpu" else []
    return problem.mask is None or problem.mask in causal


def _gpu_limits(problem: Problem) -> dict[str, bool]:
    """What the operators for CUDA cannot do."""
    dim, half = problem.shape.dim, problem.dtype in (torch.bfloat16, torch.float16)
    able = [name for name in _CUDA if works(name)]
    largest = max((_LARGEST[name] for name in able), default=0)
    return {
        "no operator of this torch that returns the lse runs on this GPU": not able,
        f"it computes in half precision, not {str(problem.dtype).removeprefix('torch.')}": not half,
        f"head dim {dim} is not a multiple of 8 up to {largest}": bool(able)
        and (dim % 8 > 0 or dim > largest),
    }


def _flash(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Output and lse of torch's operator; strides are torch's."""
    run = getattr(torch.ops.aten, _NAME)
    # it reads rows of numbers that stand together, whatever the strides say
    rows = [t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v)]
    group = q.shape[-3] // k.shape[-3]
    if group > 1 and not _takes_groups():
        rows[1:] = [t.repeat_interleave(group, -3) for t in rows[1:]]
    output, lse = run(*rows, 0.0, causal, scale=scale)
    exact = torch.promote_types(q.dtype, torch.float32)
    if bool((lse == 0).any()):  # what it also says, with an output of 0, where all is NaN
        first = k[..., :1, :].repeat_interleave(q.shape[-3] // k.shape[-3], -3)  # seen by all
        lost = (q.to(exact) * first.to(exact)).sum(-1).isnan()
        output = output.masked_fill(lost.unsqueeze(-1), torch.nan)
        lse = lse.masked_fill(lost, torch.nan)
    return output, lse.to(exact).contiguous()


@cache
def _takes_groups() -> bool:
    """Whether the operator for the CPU goes from query heads to key heads by itself: older ones
    (torch 2.7) read what lies behind the keys. Here that is memory of the same tensor."""
    q = torch.ones(1, 4, 2, 8)
    keys = torch.cat([q[:, :2], torch.full((1, 2, 2, 8), 2.0)], 1)  # the last two are no keys
    output = getattr(torch.ops.aten, _NAME)(q, keys[:, :2], keys[:, :2], 0.0, False, scale=1.0)[0]
    return bool((output == 1).all())


@operator("flash")
def flash(q: Tensor, k: Tensor, v: Tensor, causal: bool, spec: str) -> list[Tensor]:
    """Output and lse of torch's operator; gradients come from our own backward."""
    output, lse = _flash(q, k, v, causal, Spec.parse(spec).call(q, k, v, []).score.scale)
    return [output.contiguous(), lse]


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
    none = torch.zeros_like(lse)
    shift = none if grads[1] is None else -grads[1]
    told = [g_output, output, shift, lse.new_empty(0)]
    found = ops.gradient(q, k, v, [], [lse, none], told, "rows", ctx.spec)
    return found[0], found[1], found[2], None, None


flash.register_autograd(_backward, setup_context=_save)


# ── on a GPU ─────────────────────────────────────────────────────────────────────────────────


def by_torch(call: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Torch's own function, with its own choice of a kernel and its own backward: the output has
    the bits of any module that calls it. cuDNN takes another kernel at some lengths where it has
    to bring the lse."""
    causal, scale, grouped = call.mask is not None, call.score.scale, call.shape.group > 1
    return lambda q, k, v: torch_attention(
        q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped
    )


@cache
def works(name: str) -> bool:
    """Whether an operator is there and right about a small problem with grouped heads."""
    if not torch.cuda.is_available() or not hasattr(torch.ops.aten, _CUDA[name]):
        return False
    dice = torch.Generator(device="cuda").manual_seed(0)
    q, k, v = (
        torch.randn(1, heads, 64, 64, generator=dice, device="cuda", dtype=torch.float16)
        for heads in (4, 2, 2)
    )
    try:
        output, lse = _run(name, q, k, v, False, 0.125)
    except (RuntimeError, TypeError):
        return False
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT * 0.125
    right = scores.softmax(-1) @ v.double().repeat_interleave(2, 1)
    near = float((output - right).abs().max()) < 1e-2
    return near and float((lse - scores.logsumexp(-1)).abs().max()) < 1e-2


def _run(
    name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Output, and lse (B, H, L) in natural logarithms."""
    operator = _operator(name)
    if name == "cudnn":
        found = operator(q, k, v, None, True, 0.0, causal, False, scale=scale)
    else:
        found = operator(q, k, v, 0.0, causal, False, scale=scale)
    return found[0], found[1].reshape(q.shape[:-1])


@cache
def _operator(name: str) -> Any:
    """torch's own binding is called in half the time of the operator's."""
    return getattr(torch, _CUDA[name], None) or getattr(torch.ops.aten, _CUDA[name])


@cache
def _pick(dim: int) -> str:
    return next(name for name in _CUDA if dim <= _LARGEST[name] and works(name))


def _fused(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The output's strides are torch's: those of q, where heads and tokens have changed places."""
    if not q.stride(-1) == k.stride(-1) == v.stride(-1) == 1:
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    return _run(_pick(q.shape[-1]), q, k, v, causal, scale)


@operator("fused")
def fused(q: Tensor, k: Tensor, v: Tensor, causal: bool, spec: str) -> list[Tensor]:
    """Output and lse of the operator that serves this head dim."""
    found = _fused(q, k, v, causal, Spec.parse(spec).call(q, k, v, []).score.scale)
    return [part.contiguous() for part in found]


@fused.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, spec: str) -> list[Tensor]:
    return [q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=torch.float32)]


@operator("fused_backward")
def fused_backward(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
) -> list[Tensor]:
    """dQ, dK, dV of the operator's own backward; without dropout it needs no random state."""
    name = _pick(q.shape[-1])
    operator = getattr(torch.ops.aten, f"{_CUDA[name]}_backward")
    state = torch.zeros((), dtype=torch.int64, device=q.device)
    sizes = (None, None, q.shape[-2], k.shape[-2], 0.0, causal)
    rows = [t if t.stride(-1) == 1 else t.contiguous() for t in (g, q, k, v)]
    if name == "cudnn":
        # it takes four axes of lse
        found = operator(*rows, output, lse.unsqueeze(-1), state, state, None, *sizes, scale=scale)
    else:
        found = operator(*rows, output, lse, *sizes, state, state, scale=scale)
    return [grad.contiguous() for grad in found[:3]]


@fused_backward.register_fake
def _(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in (q, k, v)]


def _save_fused(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    *_, ctx.causal, _ = inputs
    _save(ctx, inputs, output)


def _fused_backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    """Theirs where only the output has a gradient, ours where the lse has one."""
    if grads[1] is not None or grads[0] is None:
        return _backward(ctx, grads)
    q, k, v, output, lse = ctx.saved_tensors
    scale = Spec.parse(ctx.spec).call(q, k, v, []).score.scale
    found = fused_backward(grads[0], q, k, v, output, lse, ctx.causal, scale)
    return (*found, None, None)


fused_backward.register_autograd(ops.refuse_second)
fused.register_autograd(_fused_backward, setup_context=_save_fused)

LIBRARY = Library()
