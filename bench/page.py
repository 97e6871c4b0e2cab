"""How soon the page is there: from opening its address to its picture, in a real browser.

The ratio is to the budget: below 1 is within it. A server is started anew for each round, so that
nothing is warm; the browser is not.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

import regard
from bench.long_recording import write_large
from regard.bench.results import Result, timed
from regard.bench.timing import Samples
from regard.errors import MissingExtraError, UnavailableError

_LAYERS = _HEADS = 12
_ROUNDS: Final = 5
_READY: Final = "() => performance.getEntriesByName('regard-ready')[0]?.startTime"
_PAGES: Final = {"overview": "", "head": "&view=head&head=L0H1"}
_BUDGET: Final = 1000.0  # ms, of a recording of any length
_FILE_BUDGET: Final = 500.0  # ms, of a self-contained page
_FILE_TOKENS: Final = 128
_FILE_BYTES: Final = 2_000_000


def measure(tokens: list[int], rounds: int = _ROUNDS) -> list[Result]:
    """Overview and head page of recordings of 12 × 12 heads, and the page of 128 tokens in one
    file of at most 2 MB."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        found = [row for n in tokens for row in _recording(chromium, Path(folder), n, rounds)]
        page = _file(Path(folder))
        times = [_ready(chromium, page.as_uri()) for _ in range(rounds)]
    return [*found, _result("file", _FILE_TOKENS, times, _FILE_BUDGET)]


def _recording(chromium: Any, folder: Path, tokens: int, rounds: int) -> Iterator[Result]:
    from regard.recording import Writer

    path = folder / f"{tokens}.regard"
    with Writer(path) as writer:
        write_large(writer, tokens, _LAYERS, _HEADS)
    for what, place in _PAGES.items():
        times = []
        for _ in range(rounds):
            with _served(path) as address:
                times.append(_ready(chromium, address + place))
        yield _result(what, tokens, times, _BUDGET)


def _file(folder: Path) -> Path:
    """Bidirectional heads of q and k drawn at random, which deflate badly: the worst case."""
    from regard.viewer.notebook import recording_page

    dice = np.random.default_rng(0)
    recording = _drawn(dice)
    path = folder / "page.html"
    text = recording_page(recording, limit=_FILE_BYTES)
    path.write_text(text, encoding="utf-8")
    return path


def _drawn(dice: Any) -> Any:
    import torch
    from torch import nn

    shape = _LAYERS, 3, 1, _HEADS, _FILE_TOKENS, 64
    numbers = torch.tensor(dice.standard_normal(shape, np.float32))

    class Layer(nn.Module):
        def __init__(self, qkv: Any) -> None:
            super().__init__()
            self.qkv = qkv

        def forward(self) -> Any:
            return regard.attend(*(one * 1.5 for one in self.qkv)).output

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(map(Layer, numbers))

        def forward(self, inputs_embeds: Any) -> None:
            for layer in self.layers:
                layer()

    model = Model()
    with torch.no_grad(), regard.record(model) as recorder:
        model(torch.zeros(1, _FILE_TOKENS, 1))
    return recorder.recording


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """The address of `regard view`."""
    words = [sys.executable, "-m", "regard", "view", "--no-open", str(path)]
    quiet: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(words, env=os.environ | {"OMP_NUM_THREADS": "1"}, **quiet) as child:
        try:
            assert child.stdout is not None
            if not select.select([child.stdout], [], [], 60)[0]:
                raise UnavailableError("`regard view` did not start within a minute")
            yield child.stdout.readline().strip()
        finally:
            child.kill()


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingExtraError("timing the page", "playwright", "dev") from None
    import shutil

    path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if path is None:
        raise UnavailableError("no Chromium on PATH; Debian: apt-get install chromium")
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


def _ready(chromium: Any, address: str) -> float:
    """ms from the start of the navigation until the picture is drawn."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return float(page.evaluate(_READY))
    finally:
        context.close()


def _result(what: str, tokens: int, times: list[float], budget: float) -> Result:
    taken = Samples([one / 1e3 for one in times])
    return timed(
        taken, 1, taken.median * 1e3 / budget, suite="page", what=what, implementation="chromium",
        tokens=tokens, dim=64, heads=_LAYERS * _HEADS, causal=what != "file", dtype="float32",
        peer=f"budget of {budget:.0f} ms",
    )  # fmt: skip
