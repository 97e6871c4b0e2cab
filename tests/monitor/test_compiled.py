"""Compiled models: sampled steps run as written, all others as compiled, which stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.testing import CompileCounter

import regard
from installed import needs
from recorder.models import tiny, tokens

IDS = tokens(9, batch=2)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def trained(model: nn.Module, run: nn.Module, steps: int, **options: Any) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with regard.Monitor(run, **options) as monitor:
        samples = []
        for _ in range(steps):
            run(input_ids=IDS, labels=IDS).loss.backward()
            samples.append(monitor.step())
            optimizer.step()
            optimizer.zero_grad()
    return samples


@pytest.mark.sampled(5)
@pytest.mark.parametrize("implementation", ["sdpa", "eager", "regard"])
@pytest.mark.parametrize("how", ["wrapped", "fullgraph", "in place", "by layer"])
def test_samples_are_those_of_the_plain_model_and_nothing_is_compiled_again(
    how: str, implementation: str
) -> None:
    if how == "fullgraph":
        needs("torch", "2.11", "torch.compile takes a whole model of transformers into one graph")
    counter = CompileCounter()
    plain, model = (tiny("llama", attn_implementation=implementation) for _ in range(2))
    run: Any = model
    if how in ("wrapped", "fullgraph"):
        run = torch.compile(model, backend=counter, fullgraph=how == "fullgraph")
    elif how == "in place":
        model.compile(backend=counter)
    else:
        for layer in model.model.layers:
            layer.compile(backend=counter)
    every = trained(model, run, 1, every=3)
    assert counter.frame_count == 0 and every[0] is not None  # the first step was sampled
    run(input_ids=IDS, labels=IDS).loss.backward()
    model.zero_grad()
    frames = counter.frame_count
    assert frames > 0
    more = trained(model, run, 7, every=3)
    assert [sample is not None for sample in more] == [True, False, False, True, False, False, True]
    assert counter.frame_count == frames
    right = trained(plain, plain, 8)
    for sample, other in zip([every[0], *more[::3]], [right[n] for n in (0, 1, 4, 7)], strict=True):
        for name in ("peak", "normalized_entropy", "max_score"):
            np.testing.assert_allclose(sample[name], other[name], rtol=2e-3, atol=1e-4)
