"""`rec.view()` in a real JupyterLab: live with its kernel; words and a picture without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser.conftest import HERE
from support.recordings import make_state

VIEW = 'import regard\nrec = regard.open("run.regard")\nrec.view()'  # without torch, at once
EXACT = 'print(float(rec["L0H1"][30, 12]))'
BUSY = "import time\ntime.sleep(600)"
QUIET = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
}
TOKEN = "t" * 32
CONNECTED = """() => {
    const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
LIVE = "iframe.regard-live"


class Lab:
    """A JupyterLab over a folder, and one browser's window on it."""

    def __init__(self, address: str, folder: Path, context: Any) -> None:
        self.address, self.folder, self.context = address, folder, context
        self.asked: list[str] = []  # by any page
        context.on("request", lambda request: self.asked.append(request.url))

    def write(self, name: str, notebook: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps(notebook))

    def read(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name).read_text())

    def open(self, name: str) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{self.address}/doc/tree/{name}?token={TOKEN}")
        page.wait_for_function(CONNECTED)
        return page


@pytest.fixture
def lab(chromium, tmp_path) -> Iterator[Lab]:
    names = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
             "JUPYTER_RUNTIME_DIR": "run", "IPYTHONDIR": "ipython"}  # fmt: skip
    settings = tmp_path / "config" / "labconfig" / "default_setting_overrides.json"
    for folder in (settings.parent, tmp_path / "notebooks"):
        folder.mkdir(parents=True)
    settings.write_text(json.dumps(QUIET))
    log = (tmp_path / "log").open("w")
    child = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0",
         "--allow-root", f"--IdentityProvider.token={TOKEN}", "--expose-app-in-browser",
         f"--ServerApp.root_dir={tmp_path / 'notebooks'}", "--LabApp.extension_manager=readonly"],
        env=os.environ | {name: str(tmp_path / part) for name, part in names.items()},
        stdout=subprocess.DEVNULL, stderr=log,
    )  # fmt: skip
    context = chromium.new_context(viewport={"width": 1280, "height": 1100})
    try:
        yield Lab(_address_in(tmp_path / "log"), tmp_path / "notebooks", context)
    finally:
        context.close()
        child.terminate()
        child.wait()
        log.close()


def _address_in(log: Path) -> str:
    """What it writes of itself on the way up."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


def notebook_of(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"cell-{n}", "source": source, "metadata": {}, "outputs": [],
         "execution_count": None}
        for n, source in enumerate(sources)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def run(page: Any, cell: int) -> Any:
    """Run a cell as a reader does; its outputs."""
    one = page.locator(".jp-CodeCell").nth(cell)
    one.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    return one.locator(".jp-OutputArea-child")


def check_still(page: Any) -> None:
    """Words and a picture are on the screen, and nothing else."""
    shown = page.locator(".jp-CodeCell").first
    shown.get_by_text("Recording(tiny, 1 prompt, heads 3×4)").wait_for()
    shown.get_by_text("Run the cell again for the live view").wait_for()
    size = shown.locator("img").evaluate("one => [one.naturalWidth, one.offsetWidth]")
    assert min(size) > 100
    for never in (page.locator(LIVE), page.get_by_text("model not found")):
        never.first.wait_for(state="hidden")


def test_a_view_lives_with_its_kernel_and_is_words_and_a_picture_without(lab):
    make_state(lab.folder / "run.regard", "exact")
    lab.write("run.ipynb", notebook_of(VIEW, EXACT, BUSY))
    page = lab.open("run.ipynb")
    run(page, 0)
    frame = page.frame_locator(LIVE)
    frame.locator("html[data-ready=overview]").wait_for()
    for still in page.locator(".jp-CodeCell").first.locator("pre, img").all():
        assert not still.is_visible()
    exact = run(page, 1)
    exact.wait_for()
    check_zoom(page, frame, float(exact.inner_text()))
    check_theme(page, frame)

    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("() => { jupyterapp.commands.execute('notebook:restart-kernel'); }")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    check_still(page)
    page.close()

    check_still(lab.open("run.ipynb"))  # trusted; the kernel knows nothing of the widget

    sent = lab.read("run.ipynb")
    sent["cells"][1]["source"] += "  # as somebody else wrote it"
    lab.write("sent.ipynb", sent)
    page = lab.open("sent.ipynb")
    assert page.locator(".jp-mod-trusted").count() == 0
    check_still(page)

    hosts = {urlsplit(url).hostname for url in lab.asked}
    assert hosts <= {*HERE, None}


def check_zoom(page: Any, frame: Any, expected: float) -> None:
    """From the grid to one weight, while the kernel runs a cell."""
    run(page, 2)
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=busy]").wait_for()
    grid = frame.locator("[data-part=head-grid]")
    step, left, top = (float(grid.get_attribute(f"data-{one}")) for one in ("step", "left", "top"))
    box = grid.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + left + 1.5 * step, box["y"] + top + 0.5 * step)
    frame.locator("[data-part=head-page][data-head=L0H1]").wait_for()
    frame.locator("html[data-ready=head]").wait_for()
    page.keyboard.press("g")
    frame.get_by_label("row", exact=True).fill("30")
    frame.get_by_label("key", exact=True).fill("12")
    page.keyboard.press("Enter")
    weight = frame.locator("[data-part=readout-weight]")
    weight.wait_for()
    assert float(weight.get_attribute("data-value")) == pytest.approx(expected, rel=1e-6)


def check_theme(page: Any, frame: Any) -> None:
    """The page follows the notebook, whatever the system's theme is."""
    assert frame.locator("html").get_attribute("data-theme") == "light"
    page.evaluate(
        "() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    frame.locator("html[data-theme=dark]").wait_for()
