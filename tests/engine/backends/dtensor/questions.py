"""Every question of an attention over DTensors, beside the same attention on one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor

import regard

QUESTIONS: dict[str, Callable[[regard.Attention], Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse,
    "entropy": lambda a: a.entropy(),
    "normalized": lambda a: a.entropy(normalized=True),
    "top weights": lambda a: a.top(3).weights,
    "peak": lambda a: a.peak().weights,
    "mass": lambda a: a.received(),
    "mass of some": lambda a: a.received(queries=[0, 3, -1]),
    "mass of the last": lambda a: a.received(queries=2, per="visible"),
    "mass of groups": lambda a: a.received(groups="mean"),
    "mass per visible of groups": lambda a: a.received(per="visible", groups="sum"),
    "weighted mass": lambda a: a.received(weighted_by=torch.arange(a.shape[-2]) / 3),
    "product": lambda a: a @ torch.arange(a.shape[-1], dtype=a.dtype),
    "transposed": lambda a: a.T @ torch.arange(a.shape[-2], dtype=a.dtype),
    "row": lambda a: a[..., 2, :],
    "cells": lambda a: a[0, [0, 1], [1, 0], [0, 0]],
}
WITHOUT_GRADIENT: dict[str, Callable[[regard.Attention], Tensor]] = {
    "top keys": lambda a: a.top(3).keys,
    "max score": lambda a: a.max_score(),
    "largest": lambda a: a.received(how="max"),
    "largest of some groups": lambda a: a.received(queries=3, how="max", groups="max"),
    "largest weighted": lambda a: a.received(
        4, how="max", weighted_by=torch.arange(a.shape[-2]) / 3
    ),
    "max logit": lambda a: a.max_logit(),
    "distance": lambda a: a.distance(),
    "concentration": lambda a: a.concentration(),
    "sink": lambda a: a.sink_mass(),
    "pooled": lambda a: a.pooled(3),
    "diagonals": lambda a: a.summarize(regard.Offsets())[regard.Offsets()],
    "scores": lambda a: a.scores[..., 1:4, ::2],
}


def tensors(
    heads: int = 4, key_heads: int = 2, queries: int = 9, keys: int = 9, batch: int = 2
) -> list[Tensor]:
    """q, k, v, the same on every rank."""
    dice = torch.Generator().manual_seed(0)
    sizes = ((heads, queries), (key_heads, keys), (key_heads, keys))
    return [
        torch.randn(batch, h, n, 8, generator=dice, dtype=torch.float64).requires_grad_()
        for h, n in sizes
    ]


def line() -> DeviceMesh:
    """All ranks in a row."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def spread(given: Sequence[Tensor], mesh: DeviceMesh, placements: Sequence[Placement]) -> list[Any]:
    """The tensors as DTensors that are leaves of their own."""
    made = [distribute_tensor(t.detach(), mesh, list(placements)) for t in given]
    return [t.requires_grad_() for t in made]


def whole(found: Tensor) -> Tensor:
    """What all ranks say together."""
    return found.full_tensor() if isinstance(found, DTensor) else found


def near(found: Tensor, right: Tensor, name: str) -> None:
    torch.testing.assert_close(
        whole(found), right, rtol=1e-9, atol=1e-11, msg=lambda text: f"{name}: {text}"
    )


def compare(
    given: list[Tensor], sharded: list[Any], options: dict[str, Any], apart: bool = False
) -> None:
    """All questions, and their gradients: of each by itself where `apart`, else of all at once."""
    learnt = [name for name, t in options.items() if isinstance(t, Tensor) and t.requires_grad]
    twins = options | {name: options[name].detach().requires_grad_() for name in learnt}
    right, found = regard.attend(*given, **options), regard.attend(*sharded, **twins)
    losses: dict[str, tuple[Tensor, Tensor]] = {}
    for name, ask in (QUESTIONS | WITHOUT_GRADIENT).items():
        a, b = ask(right), ask(found)
        near(b, a, name)
        if name in QUESTIONS:
            losses[name] = weighed(a), weighed(whole(b))
    if not apart:
        pairs = list(losses.values())
        losses = {"all": (sum(p[0] for p in pairs), sum(p[1] for p in pairs))}  # type: ignore
    leaves = [*given, *(options[name] for name in learnt)]
    others = [*sharded, *(twins[name] for name in learnt)]
    for name, (one, many) in losses.items():
        exact = torch.autograd.grad(one, leaves, retain_graph=True, allow_unused=True)
        grads = torch.autograd.grad(many, others, retain_graph=True, allow_unused=True)
        for n, (x, y) in enumerate(zip(exact, grads, strict=True)):
            if x is not None and y is not None:
                near(y, x, f"gradient {n} of {name}")
            else:
                assert x is None and (y is None or not whole(y).any()), name


def weighed(found: Tensor) -> Tensor:
    """One number, to which every finite entry adds a different share."""
    weight = torch.linspace(0.5, 1.5, found.numel(), dtype=found.dtype).reshape(found.shape)
    return (torch.where(found.isfinite(), found, 0.0) * weight).sum()
