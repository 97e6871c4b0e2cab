"""Batches and steps to monitor, and the statistics they should have, from the whole matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regard
from regard.engine.call import Call
from regard.engine.observers import Request, listening

__all__ = ["Observer", "batch", "calls_of", "hooks", "train", "truth"]


def batch(seed: int = 0, size: int = 2, tokens: int = 20) -> Tensor:
    """(size, tokens, 32)."""
    return torch.randn(size, tokens, 32, generator=torch.Generator().manual_seed(seed))


def train(model: nn.Module, *batches: Tensor) -> None:
    """Forward and backward."""
    for x in batches:
        model(x).square().mean().backward()


def hooks(model: nn.Module) -> int:
    """Forward hooks on all modules."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


class Observer:
    """Keeps copies of all calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def wants(self, call: Call) -> Request[None]:
        """Nothing."""
        return Request()

    def heard(self, attention: regard.Attention, request: Request[None]) -> None:
        """q, k and the rules."""
        self.calls.append(attention._call.map(lambda tensor: tensor.detach().clone()))


def calls_of(model: Any, *given: Any, **options: Any) -> list[Call]:
    """The attention calls of one forward."""
    observer = Observer()
    with torch.no_grad(), listening(observer):
        model(*given, **options)
    return observer.calls


def truth(calls: list[Call], real: list[Tensor | None] | None = None) -> dict[str, np.ndarray]:
    """(heads,) each, over the rows of all these calls of one place. Causal and plain masks,
    without cap, bias and sink."""
    found: dict[str, list[Tensor]] = {"normalized_entropy": [], "peak": [], "sink_mass": []}
    largest = []
    for call, rows in zip(calls, real or [None] * len(calls), strict=True):
        q = call.query.double().flatten(0, -4)
        k = call.key.double().flatten(0, -4).repeat_interleave(call.shape.group, 1)
        scores = q @ k.mT * call.score.scale
        if call.mask is not None:
            i, j = (torch.arange(n) for n in scores.shape[-2:])
            hidden = ~call.mask.allows(i, j, call.shape.extent).expand(scores.shape)
            scores = scores.masked_fill(hidden, -math.inf)
        keep = torch.ones(scores.shape[0], scores.shape[2], dtype=torch.bool)
        keep = keep if rows is None else rows
        start = keep.int().argmax(-1)
        weights = scores.softmax(-1)
        entropy = torch.special.entr(weights).sum(-1)
        choices = (scores > -math.inf).sum(-1)
        even = entropy / choices.clamp(min=2).log()
        for b in range(scores.shape[0]):
            found["normalized_entropy"].append(even[b][:, keep[b] & (choices[b, 0] > 1)])
            found["peak"].append(weights[b].amax(-1)[:, keep[b]])
            found["sink_mass"].append(weights[b, :, keep[b], int(start[b])])
            largest.append(scores[b, :, keep[b]].amax((1, 2)))
    means = {name: torch.cat(parts, 1).mean(1).numpy() for name, parts in found.items()}
    return means | {"max_score": torch.stack(largest).amax(0).numpy()}
