"""Several processes that train one model: every rank has the sample of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist

import regard
from parallel.world import run
from recorder.models import Stack
from regard.monitor import qk_clip_

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
    """What one rank does and samples."""
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


def _alone(size):
    """The same in one process: DDP and FSDP average the gradients of their ranks."""
    torch.manual_seed(0)
    model, samples = Stack(), []
    with regard.Monitor(model) as monitor:
        for step in range(STEPS):
            for rank in range(size):
                (model(batch(step, rank)).square().sum() / size).backward()
            samples.append(monitor.step())
            model.zero_grad()
        gamma = qk_clip_(monitor, 0.5)
    return samples, gamma, [layer.w_q.weight.detach() for layer in model.layers]


def _together(size, how, folder):
    """The result of each rank. Patient: ranks wait for each other's imports on a busy machine."""
    return run(size, train, how, f"{folder}/run.regard", timeout=300.0, patience=120.0)


def _without_agreeing(names):
    return [one for one in names if one in TWO]


def test_a_place_that_one_rank_comes_by_later(tmp_path):
    """All ranks take it up together, one sample later."""
    for found in _together(2, "skipping", tmp_path):
        assert [places for places, _ in found["samples"]] == [("L0",), ("L0",), ("L0", "L1")]
        assert [_without_agreeing(names) for names in found["collectives"]] == [TWO] * STEPS
        assert [AGREE in names for names in found["collectives"]] == [True, True, False]
        assert not np.isnan(found["samples"][-1][1]["max_score"]).any()


@pytest.mark.parametrize(("how", "size"), [("ddp", 1), ("ddp", 2), ("fsdp", 2)])
def test_all_ranks_have_the_sample_of_all(how, size, tmp_path):
    samples, gamma, weights = _alone(size)
    for found in _together(size, how, tmp_path):
        assert found["reasons"] == {}
        # two reductions a step and nothing else, once all know which places there are
        assert _without_agreeing(found["collectives"][0]) == ([] if size == 1 else TWO)
        assert found["collectives"][1:] == [[] if size == 1 else TWO] * (STEPS - 1)
        expected = [1.0, 3.0, 1.0] if size == 1 else [1.5, 3.0, np.nan]
        np.testing.assert_array_equal(found["losses"], expected)
        for (places, values), right in zip(found["samples"], samples, strict=True):
            assert places == right.places
            for name, value in values.items():
                np.testing.assert_allclose(value, right[name], rtol=1e-4, err_msg=f"{how} {name}")
        for label, one in gamma.items():
            torch.testing.assert_close(found["gamma"][label], one, rtol=1e-5, atol=0)
        for mine, right in zip(found["weights"], weights, strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-7)
    training = regard.open(tmp_path / "run.regard").training  # written by one of them
    np.testing.assert_allclose(training["peak"][-1], samples[-1]["peak"], rtol=1e-4)
