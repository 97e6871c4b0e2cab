"""One rank of a monitored training run, in a process of its own; for test_ranks.py."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

import regard
from recorder.models import Stack

__all__ = ["train"]

STEPS = 3


def batch(step: int, rank: int) -> torch.Tensor:
    """Batches of different lengths: rows have to be weighed."""
    dice = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(1 + rank, 10 + 7 * rank, 32, generator=dice)


class Skipping(Stack):
    """The second rank comes by the second layer from the second step on, the first never does."""

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


def train(rank: int, size: int, how: str, folder: str) -> None:
    """Train and write what was sampled to a file of this rank."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "USE_LIBUV": "0"}
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    torch.manual_seed(0)
    model = Skipping(rank) if how == "skipping" else Stack()
    inner = model
    wrapped = _wrapped(model, how)
    counted: list[str] = []
    real = dist.all_reduce

    def count(*given: Any, **options: Any) -> Any:
        counted.append(str(given[1]))
        return real(*given, **options)

    samples = []
    with regard.Monitor(wrapped, log=f"{folder}/run.regard") as monitor:
        for step in range(STEPS):
            wrapped(batch(step, rank)).square().sum().backward()
            with patch.object(dist, "all_reduce", count):
                samples.append(monitor.step())
            inner.zero_grad()
        gamma = regard.monitor.qk_clip_(monitor, 0.5)
    weights = [_whole(layer.w_q.weight) for layer in inner.layers]
    found = {
        "samples": [(one.places, one.values) for one in samples], "counted": counted,
        "reasons": monitor.reasons, "gamma": gamma, "weights": weights,
    }  # fmt: skip
    Path(folder, f"{rank}.pickle").write_bytes(pickle.dumps(found))
    dist.barrier()  # nobody leaves while another still speaks
    dist.destroy_process_group()


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
