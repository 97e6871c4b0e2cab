"""The heaviest keys by pruning are those of the sweep that looks at every score, in every row."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from engine.backends.gpu.on_device.conftest import tensors
from regard.engine import api
from regard.engine.backends.gpu import prune
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.forward import forward
from regard.engine.backends.gpu.hopper import forward as hopper
from regard.engine.backends.gpu.top import top
from regard.testing import poisoned_memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def bound(tokens: int, dim: int, mask: Any) -> Bound:
    """A call; some keys are there twice."""
    query, key, value = tensors(tokens=tokens, dim=dim)
    key[..., 1000:1100, :] = key[..., 10:110, :]
    return bind(api._call(query, key, value, mask, None, None, None, None, 0.0))


@pytest.mark.parametrize(("count", "dim"), [(8, 64), (8, 128), (3, 128)])
@pytest.mark.parametrize("room", [2**28, 2**22], ids=["at once", "some rows at a time"])
@pytest.mark.parametrize(
    ("tokens", "mask"), [(2100, regard.Causal()), (4096, None), (4096, regard.Window(700))]
)
def test_pruning_loses_nothing(
    implementation: str, tokens: int, mask: Any, room: int, count: int, dim: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A block of keys is wanted by hundreds of rows, several tiles of them."""
    monkeypatch.setattr(prune, "_BUFFER", room)
    given = bound(tokens, dim, mask)
    for _ in range(2):
        with poisoned_memory():
            pruner = prune.Pruner(given, count)
            if implementation == "hopper":
                assert hopper.fits(given, True, pruner)
                found = hopper.forward(given, True, set(), None, pruner)
            else:
                found = forward(given, True, set(), None, pruner)
        right = top(given, found.state, count)
        assert torch.equal(pruner.best.keys, right.keys)
        torch.testing.assert_close(pruner.best.weights, right.weights)
