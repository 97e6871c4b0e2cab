"""A real browser: what a page says in its console or asks from elsewhere fails the test."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from chromium import find_browser

HERE = ("127.0.0.1", "localhost", "")  # no host: file:, data: and blob: addresses


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for the tests of a file. Not for all of them: while it is open, its driver keeps
    an event loop running in this thread, and other tests run loops of their own."""
    from playwright.sync_api import sync_playwright

    path = find_browser()
    assert path, "no Chromium on PATH; `make test` installs it (Debian: apt-get install chromium)"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages. At the end: no error, no warning, no request to anywhere else."""
    contexts, said = [], list[str]()

    def open_tab(address: str = "", *, width: int = 1280, height: int = 800, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda line: _heard(said, line))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: _asked(said, request.url))
        if address:
            page.goto(address)
        return page

    open_tab.said = said  # type: ignore[attr-defined]
    yield open_tab
    for context in contexts:
        context.close()
    assert not said


def _heard(said: list[str], line: Any) -> None:
    if line.type in ("error", "warning"):
        said.append(f"{line.type}: {line.text}")


def _asked(said: list[str], url: str) -> None:
    if urlsplit(url).hostname not in (*HERE, None):
        said.append(f"asked elsewhere: {url}")


@pytest.fixture(scope="session")
def view() -> Iterator[Callable[..., str]]:
    """Starts `regard view` on files; the address it printed."""
    children = []

    def start(*files: os.PathLike[str] | str) -> str:
        child = subprocess.Popen(
            [sys.executable, "-m", "regard", "view", "--no-open", *map(str, files)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        children.append(child)
        start.last = child  # type: ignore[attr-defined]
        ready, _, _ = select.select([child.stdout], [], [], 60)
        assert ready and child.stdout is not None, "the server did not start"
        return child.stdout.readline().strip()

    yield start
    for child in children:
        child.kill()
        child.communicate()
