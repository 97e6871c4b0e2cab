"""How soon a row lies over its picture, and whether a recording with a picture opens as fast.

A tower of 24 layers × 16 heads reads a picture; the overlay of one head, and those of all heads of
its layer, are asked for as the page asks. The ratio is to the budget, or to the recording without.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

import regard
from bench.page import _ready, _served, browser
from regard.bench.results import Result, timed
from regard.bench.timing import Samples
from regard.errors import InputError
from regard.viewer import answers
from regard.viewer.opened import Opened

_LAYERS, _HEADS, _DIM, _PATCH = 24, 16, 32, 8
_ROUNDS: Final = 30  # rows that are asked for
_OPENED: Final = 5
_BUDGET: Final = 150.0  # ms, after the first


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(_DIM, 3 * _HEADS * _DIM)

    def forward(self, x: Tensor) -> Tensor:  # (1, n, DIM)
        q, k, v = self.qkv(x).unflatten(-1, (3, _HEADS, _DIM)).permute(2, 0, 3, 1, 4)
        return x + regard.attend(q, k, v).output.mean(1)


class _Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, _DIM, _PATCH, _PATCH)
        self.layers = nn.Sequential(*(_Layer() for _ in range(_LAYERS)))

    def forward(self, pixel_values: Tensor) -> Tensor:
        found: Tensor = self.layers(self.patches(pixel_values).flatten(2).mT)
        return found


def measure(patches: int, rounds: int = _OPENED) -> list[Result]:
    """Overlays of so many patches, and the time until the overview is there with and without."""
    side = round(patches**0.5)
    if side * side != patches:
        raise InputError(f"{patches} patches are no square picture; give 4096 or 1024")
    with tempfile.TemporaryDirectory() as folder:
        with_one, without = (_recorded(Path(folder), side, images) for images in (None, False))
        one, all_heads = _overlays(with_one, patches)
        with browser() as chromium:
            times = {path: _opened(chromium, path, rounds) for path in (without, with_one)}
    base = times[without].median
    return [
        _result("one head", patches, one, _BUDGET / 1e3, f"budget of {_BUDGET:.0f} ms"),
        _result("heads of a layer", patches, all_heads, _BUDGET / 1e3, "the same budget"),
        _result("opened without", patches, times[without], base, "the one without a picture"),
        _result("opened with", patches, times[with_one], base, "the one without a picture"),
    ]


def _recorded(folder: Path, side: int, images: Any) -> Path:
    path = folder / f"{'with' if images is None else 'without'}.regard"
    torch.manual_seed(0)
    model, pixels = _Tower(), torch.rand(1, 3, side * _PATCH, side * _PATCH)
    with torch.no_grad(), regard.record(model, path, images=images, budget="4GB"):
        model(pixels)
    return path


def _overlays(path: Path, patches: int) -> tuple[Samples, Samples]:
    """Of rows drawn at random, in a layer that was read before."""
    dice = np.random.default_rng(0)
    heads = [f"L{_LAYERS // 2}H{head}" for head in range(_HEADS)]
    with regard.open(path) as recording:
        opened = Opened(recording)
        found: list[list[float]] = [[], []]
        for n, query in enumerate(dice.integers(0, patches, _ROUNDS + 1).tolist()):
            for taken, labels in zip(found, (heads[:1], heads), strict=True):
                start = time.perf_counter()
                answers.overlays(opened, 0, labels, query=query, key=None)
                if n:  # the first one reads q and k
                    taken.append(time.perf_counter() - start)
    return Samples(found[0]), Samples(found[1])


def _opened(chromium: Any, path: Path, rounds: int) -> Samples:
    times = []
    for _ in range(rounds):
        with _served(path) as address:
            times.append(_ready(chromium, address) / 1e3)
    return Samples(times)


def _result(what: str, patches: int, taken: Samples, base: float, peer: str) -> Result:
    return timed(
        taken, 1, taken.median / base, suite="sight", what=what, implementation="answers",
        tokens=patches, dim=_DIM, heads=_LAYERS * _HEADS, causal=False, dtype="float32", peer=peer,
    )  # fmt: skip
