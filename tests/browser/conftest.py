"""A real browser: what a page says in its console or asks from elsewhere fails the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from regard.learn import Options, make_lesson
from regard.viewer.notebook import lesson_page
from regard.viewer.serve import serve
from support.recordings.planted import mixed, record_planted, targets, text

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from chromium import find_browser

HERE = ("127.0.0.1", "localhost", "")  # no host: file:, data: and blob: addresses
NOTES = Options("The cat sat")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """One browser for all tests of this folder, and no longer: while it is open, its driver keeps
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
    """Opens pages, at a view where one is named. At the end: no error, no warning, no request to
    anywhere else."""
    contexts, said = [], list[str]()

    def open_tab(
        address: str = "", view: str = "", *, width: int = 1280, height: int = 800, **options: Any
    ) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda line: _heard(said, line))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: _asked(said, request.url))
        if address:
            page.goto(address)
        if view:
            page.wait_for_selector(f"html[data-ready={view}]")
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
def view() -> Callable[..., str]:
    """Serves files as `regard view` does, from a thread until the tests end; the address."""

    def start(*files: os.PathLike[str] | str) -> str:
        said: SimpleQueue[Any] = SimpleQueue()

        def run() -> None:
            try:
                serve(files, say=said.put)
            except BaseException as error:  # noqa: BLE001 - raised where it was started
                said.put(error)

        Thread(target=run, daemon=True).start()
        answer = said.get(timeout=60)
        if isinstance(answer, BaseException):
            raise answer
        address: str = answer
        return address

    return start


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of heads that do what is expected of them."""
    path: Path = tmp_path_factory.mktemp("planted") / "planted.regard"
    ids = text(160)
    aims = targets(ids)
    layers = [[mixed(aims[kind], noise=0.3, seed=n) for kind in ("previous", "uniform", "self")]
              for n in range(2)]  # fmt: skip
    record_planted(np.array(layers), ids, path)
    return path


@pytest.fixture(scope="session")
def lesson_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Options], str]:
    """The address of a lesson's page, a file; each is made once."""
    folder = tmp_path_factory.mktemp("lessons")

    @cache
    def address(options: Options) -> str:
        path = folder / f"{len(list(folder.iterdir()))}.html"
        path.write_text(lesson_page(make_lesson(options)), encoding="utf-8")
        return path.as_uri()

    return address


@pytest.fixture
def lesson(tab: Any, lesson_file: Any) -> Callable[..., Any]:
    """Opens a lesson at a place; the notes' one where no options are given."""

    def open_lesson(place: str = "step=1", options: Options = NOTES, **how: Any) -> Any:
        page = tab(f"{lesson_file(options)}#{place}", **how)
        page.wait_for_selector("[data-part=learner-room]")
        return page

    return open_lesson
