"""What one rank of a monitored training run does; for test_sample.py, in a world of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

import regard
from recorder.models import Stack

__all__ = ["AGREE", "STEPS", "TWO", "batch", "loss_of", "train"]

STEPS = 3
COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "reduce",
    "reduce_scatter", "scatter", "send", "recv",
)  # fmt: skip
TWO = ["all_reduce RedOpType.MAX", "all_reduce RedOpType.SUM"]  # of a step
AGREE = "all_gather_object"  # on a place that is new to some rank


def batch(step: int, rank: int) -> torch.Tensor:
    """Batches of different lengths: rows have to be weighted."""
    dice = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(1 + rank, 10 + 7 * rank, 32, generator=dice)


def loss_of(step: int, rank: int) -> torch.Tensor | float | None:
    """Of all ranks, of some, and one that is NaN on one of them."""
    if step == 1:
        return None if rank else 3.0
    return torch.tensor(float("nan") if step == 2 and rank else 1.0 + rank)


class Skipping(Stack):
    """The second rank runs the second layer from the second step on, the first never does."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.step = rank, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, L, 32)."""
        self.step += 1
        some = self.layers if self.rank and self.step > 1 else self.layers[:1]
        for layer in some:
            x = x + layer(x, mask=regard.Causal())
        return x


def train(how: str, log: str) -> dict[str, Any]:
    """Train, and return what was sampled."""
    torch.manual_seed(0)
    rank = dist.get_rank()
    model = Skipping(rank) if how == "skipping" else Stack()
    inner = model
    wrapped = _wrapped(model, how)
    samples, collectives = [], []
    with regard.Monitor(wrapped, log=log) as monitor:
        for step in range(STEPS):
            wrapped(batch(step, rank)).square().sum().backward()
            with counting() as names:
                samples.append(monitor.step(loss=loss_of(step, rank)))
            collectives.append(names)
            inner.zero_grad()
        gamma = regard.monitor.qk_clip_(monitor, 0.5)
    weights = [_whole(layer.w_q.weight) for layer in inner.layers]
    return {
        "samples": [(one.places, one.values) for one in samples],
        "losses": [one.loss for one in samples], "collectives": collectives,
        "reasons": monitor.reasons, "gamma": gamma, "weights": weights,
    }  # fmt: skip


@contextmanager
def counting() -> Iterator[list[str]]:
    """Every collective that is called meanwhile, by name."""
    names: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(dist, name)

        def call(*given: Any, **options: Any) -> Any:
            names.append(f"{name} {given[1]}" if name == "all_reduce" else name)
            return real(*given, **options)

        return call

    with ExitStack() as stack:
        for name in COLLECTIVES:
            stack.enter_context(patch.object(dist, name, counted(name)))
        yield names


def _wrapped(model: Any, how: str) -> Any:
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    return model


def _whole(weight: Any) -> torch.Tensor:
    found = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
    return found.detach().clone()
