"""What it costs to train one attention to imitate another, against the attention's own backward.

backward     cuDNN's gradients of the teacher's attention: the yardstick
kl           `regard.divergence` of a student with as many heads and its gradients, lse included
kl of sums   the same of all heads summed up, with a student of one head
flex         the gradients of kl by FlexAttention: lse of the student − scale·q·(P K), whose value
             lacks the teacher's entropy
dense        log softmax and their difference in torch, where that fits
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import regard
from bench.gpu.reference import expect
from bench.gpu.size import Size
from bench.gpu.stage import Stage
from regard.bench.results import Result, timed
from regard.bench.timing import take_turns

_ALLOWED = 2e-2  # of gradients in half precision
_VALUE = 1e-3
_CHUNK = 512  # rows of the reference at a time
_DENSE = 7  # matrices in single precision that autograd keeps
_ROUNDS = 7


def measure(stage: Stage, size: Size, seconds: float, with_flex: bool = False) -> list[Result]:
    """Values and gradients are compared with double precision before anything is timed."""
    q, k, v = size.inputs(stage.device)
    dice = torch.Generator(device=stage.device).manual_seed(2)
    student = [torch.randn(t.shape, generator=dice, device=t.device).to(t).requires_grad_()
               for t in (q, k)]  # fmt: skip
    one = [t[:, :1].detach().clone().requires_grad_() for t in student]
    mask = regard.Causal() if size.causal else None
    teacher = regard.attend(q, k, v, mask=mask)
    teacher.lse  # noqa: B018 - the forward's, not a part of what is timed
    runs: dict[str, Callable[[], tuple[Tensor, ...]]] = {
        "backward": _backward(stage, size, q, k, v),
        "kl": lambda: _divergence(teacher, student, mask, "each"),
        "kl of sums": lambda: _divergence(teacher, one, mask, "sum"),
    }
    if with_flex:
        runs["flex"] = _flex(size, q, k, student)
    if _DENSE * 2 * size.weights < stage.free():
        runs["dense"] = lambda: _dense(size, q, k, student)
    _check(size, q, k, student, one, runs)
    extra = {name: stage.peak(run) for name, run in runs.items()}
    taken = take_turns(
        runs, seconds=seconds, rounds=_ROUNDS, clock=lambda run: stage.seconds(run, 2)
    )
    peer = taken["backward"]
    return [
        timed(
            taken[name], 4, taken[name].ratio_to(peer), suite="gpu distance", what=name,
            implementation="regard" if name.startswith("kl") else "torch", tokens=size.tokens,
            dim=size.dim, heads=size.heads, causal=size.causal, dtype="bfloat16", peer="backward",
            machine=stage.name, batch=size.batch, extra_mib=_mib(extra[name]),
        )
        for name in taken
    ]  # fmt: skip


def _mib(count: int | None) -> float | None:
    return None if count is None else round(count / 2**20, 1)


def _divergence(
    teacher: regard.Attention, student: list[Tensor], mask: Any, heads: Any
) -> tuple[Tensor, ...]:
    apart = regard.divergence(teacher, regard.replay(*student, mask=mask), heads=heads)
    return apart.detach(), *torch.autograd.grad(apart.sum(), student)


def _backward(
    stage: Stage, size: Size, q: Tensor, k: Tensor, v: Tensor
) -> Callable[[], tuple[Tensor, ...]]:
    leaves = q, k, v = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    backend = stage.backends.get("cudnn")
    with torch.nn.attention.sdpa_kernel([backend] if backend is not None else list(_ANY)):
        output = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=size.causal, enable_gqa=size.groups > 1
        )
    outer = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, leaves, outer, retain_graph=True)


_ANY = (torch.nn.attention.SDPBackend.MATH,)


def _flex(
    size: Size, q: Tensor, k: Tensor, student: list[Tensor]
) -> Callable[[], tuple[Tensor, ...]]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n, scale = size.tokens, size.dim**-0.5
    blocks = None
    if size.causal:
        blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device=q.device)
    compiled: Any = torch.compile(flex_attention)

    def run() -> tuple[Tensor, ...]:
        sq, sk = student
        mixed = compiled(q, k, sk, block_mask=blocks)  # P K
        _, lse = compiled(sq, sk, sk.detach(), block_mask=blocks, return_lse=True)
        loss = lse.sum() - scale * (sq.float() * mixed.float()).sum()
        return lse.detach(), *torch.autograd.grad(loss, student)

    return run


def _dense(size: Size, q: Tensor, k: Tensor, student: list[Tensor]) -> tuple[Tensor, ...]:
    p, lq = _log_rows(size, q, k), _log_rows(size, student[0], student[1])
    seen = p > -torch.inf
    apart = (p.exp() * (p.where(seen, 0.0) - lq.where(seen, 0.0))).sum(-1)
    return apart.detach(), *torch.autograd.grad(apart.sum(), student)


def _log_rows(size: Size, q: Tensor, k: Tensor) -> Tensor:
    scores = q.float() @ k.float().mT * size.dim**-0.5
    if size.causal:
        i = torch.arange(size.tokens, device=q.device)
        scores = scores.masked_fill(i[:, None] < i, -torch.inf)
    return scores.log_softmax(-1)


def _check(
    size: Size,
    q: Tensor,
    k: Tensor,
    student: list[Tensor],
    one: list[Tensor],
    runs: Mapping[str, Callable[[], tuple[Tensor, ...]]],
) -> None:
    """The last head of the last batch entry, and the sum of all, in double precision."""
    last = [t[-1, -1].detach().double() for t in (q, k, *student)]
    right = _exact(size, [last[0]], [last[1]], last[2], last[3])
    names = ("value", "gradient of q", "gradient of k")
    for name in ("kl", "dense", "flex"):
        for what, got, want, allowed in zip(
            names, runs[name]() if name in runs else (), right, (_VALUE, _ALLOWED, _ALLOWED),
            strict=False,
        ):  # fmt: skip
            if name != "flex" or what != "value":
                expect(got[-1, -1], want, allowed, f"{what} by {name}, {size},")
    heads = [[t[-1, h].detach().double() for h in range(size.heads)] for t in (q, k)]
    summed = _exact(size, heads[0], heads[1], *(t[-1, 0].detach().double() for t in one))
    for what, got, want, allowed in zip(
        names, runs["kl of sums"](), summed, (_VALUE, _ALLOWED, _ALLOWED), strict=True
    ):
        expect(got[-1, 0], want, allowed, f"{what} by kl of sums, {size},")


def _exact(
    size: Size, qs: list[Tensor], ks: list[Tensor], sq: Tensor, sk: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Value (N,), dq and dk, a few rows at a time."""
    scale, j = size.dim**-0.5, torch.arange(size.tokens, device=sq.device)
    values, dqs, dk = [], [], torch.zeros_like(sk)
    for start in range(0, size.tokens, _CHUNK):
        rows = slice(start, start + _CHUNK)
        hidden = (
            j[rows, None] < j if size.causal else torch.zeros(1, 1, dtype=torch.bool).to(j.device)
        )

        def weights(q: Tensor, k: Tensor, rows: slice = rows, hidden: Tensor = hidden) -> Tensor:
            return (q[rows] @ k.mT * scale).masked_fill(hidden, -torch.inf).log_softmax(-1)

        p = sum(weights(q, k).exp() for q, k in zip(qs, ks, strict=True)) / len(qs)
        lq = weights(sq, sk).masked_fill(hidden, 0.0)
        assert isinstance(p, Tensor)
        values.append((torch.xlogy(p, p) - p * lq).sum(-1))
        ds = (lq.exp().masked_fill(hidden, 0.0) - p) * scale
        dqs.append(ds @ sk)
        dk += ds.mT @ sq[rows]
    return torch.cat(values), torch.cat(dqs), dk
