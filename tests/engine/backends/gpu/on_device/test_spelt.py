"""Long masks that are spelt out: what is seen in whole squares takes next to nothing."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

import regard
from regard.engine import api
from regard.engine.backends.gpu import spelt
from regard.engine.backends.gpu.sweeps import TRITON
from regard.errors import UnavailableError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

TOKENS = 65_536


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelt, "_KEPT", OrderedDict())


def near(i: Any, j: Any) -> Any:
    """Blocks of 1,000 before oneself, and the very first one."""
    back = i // 1000 - j // 1000
    return ((back >= 0) & (back < 2)) | (j < 100)


def test_long_and_sparse_is_served() -> None:
    dice = torch.Generator("cuda").manual_seed(0)
    q, k, v = (
        torch.randn(1, 1, TOKENS, 64, generator=dice, device="cuda", dtype=torch.bfloat16)
        for _ in range(3)
    )
    mask = regard.Rule(near)
    a = regard.attend(q, k, v, mask=mask, implementation="triton", summaries=(regard.Entropy(),))
    (made,) = spelt._KEPT.values()
    assert isinstance(made, spelt.Spelt) and made.size < 2**25
    for start in (0, 30_000, TOKENS - 500):
        rows = slice(start, start + 500)
        i, j = torch.arange(start, start + 500, device="cuda"), torch.arange(TOKENS, device="cuda")
        scores = (q[0, 0, rows].float() @ k[0, 0].float().T / 8).masked_fill(
            ~near(i[:, None], j), -torch.inf
        )
        right = scores.softmax(-1) @ v[0, 0].float()
        torch.testing.assert_close(a.output[0, 0, rows].float(), right, rtol=0.02, atol=0.02)
    assert a.received().sum().item() == pytest.approx(TOKENS, rel=1e-4)


def test_long_and_scattered_is_refused() -> None:
    q = torch.zeros(1, 1, TOKENS, 64, device="cuda", dtype=torch.bfloat16)
    mask = regard.Rule(lambda i, j: (i + j) % 2 == 0)
    with pytest.raises(UnavailableError, match="as a table it takes 515 MiB of 256"):
        regard.attend(q, q, q, mask=mask, implementation="triton")
    problem = api._call(q, q, q, mask, None, None, None, None, 0.0).problem()
    assert len(TRITON.reasons(problem)) == 1
