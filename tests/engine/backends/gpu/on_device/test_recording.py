"""A recording made on a GPU, whose host is a layer behind, is the one made on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import Stack
from regard.recorder.prompt import Prompts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

DEVICE = "cuda"


def recorded(path: Path, device: str, **options: Any) -> Any:
    """Three layers read 337 tokens."""
    torch.manual_seed(0)
    model, x = Stack(layers=3), torch.randn(1, 337, 32)
    model, x = model.to(device), x.to(device)
    with torch.no_grad(), regard.record(model, path, **options):
        model(x)
    return regard.open(path)


def words(path: Path) -> dict[str, bytes]:
    with regard.recording.Reader(path) as reader:
        return {name: reader.words(name).tobytes() for name in reader.entries}


@pytest.mark.parametrize("budget", [2_000_000_000, 250_000], ids=["whole", "in bins"])
def test_on_a_gpu_as_on_the_host(tmp_path: Path, budget: int) -> None:
    there, here = (recorded(tmp_path / name, name, budget=budget) for name in (DEVICE, "cpu"))
    with there, here:
        for name in ("L0H0", "L1H3", "L2H2"):
            a, b = there[name], here[name]
            assert a.place == b.place and (a.place.row_bin > 1) is (budget < 1_000_000)
            assert set(a.stored) == set(b.stored)
            for what in ("entropy", "received", "peak"):
                if what in a.stored:
                    found, right = (one.stored[what].values for one in (a, b))
                    np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("budget", [2_000_000_000, 250_000], ids=["whole", "in bins"])
def test_late_or_at_once(tmp_path: Path, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "late", DEVICE, budget=budget).close()
    plain = Prompts.take
    monkeypatch.setattr(Prompts, "take", lambda self, *given, late: plain(self, *given, late=False))
    recorded(tmp_path / "at once", DEVICE, budget=budget).close()
    assert words(tmp_path / "late") == words(tmp_path / "at once")
