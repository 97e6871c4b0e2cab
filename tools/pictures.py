"""Takes the pictures of README and docs: the page as it is, never a mock-up.

    python tools/pictures.py [FOLDER]     docs/pictures by default

Needs the page (`make page`), Chromium, and demo.regard (`make demo`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chromium import find_browser

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "demo.regard"
WIDE, PHONE = (1280, 800), (390, 844)


@dataclass(frozen=True)
class Shot:
    """One picture: which page, at which place, how wide, light or dark."""

    name: str
    room: str  # lesson, recording or play
    place: str  # what stands behind the # of the address
    size: tuple[int, int] = WIDE
    scheme: str = "light"
    ready: str = ""  # what must be on the page before it is taken
    click: str = ""  # what is clicked first
    scroll: str = ""  # what is brought to the top of the window


SHOTS = (
    Shot("lesson", "lesson", "step=5", ready='[data-part="heat-map"]'),
    Shot(
        "lesson-scaling",
        "lesson",
        "step=4",
        click="[data-part=guess] [data-choice=width]",
        ready='[data-part=scaling-chart][aria-busy="false"]',
        scroll="[data-part=scaling-lab]",
    ),
    Shot("lesson-phone", "lesson", "step=3", PHONE, ready='[data-part="grid"]'),
    Shot("overview", "recording", "view=overview"),
    Shot("findings", "recording", "view=findings"),
    Shot("head", "recording", "view=head&head=L17H3"),
    Shot("head-dark", "recording", "view=head&head=L17H3", scheme="dark"),
    Shot("row", "recording", "view=row&head=L17H3&row=671"),
    Shot(
        "play",
        "play",
        "p=The+silver+otter+sang+to+the+moon.+The+lantern+went+out.+The+silver+otter",
        (1280, 1180),
        ready="[data-part=card] .play-card-note:has-text('→')",
    ),
    Shot("row-phone", "recording", "view=row&head=L17H3&row=671", PHONE),
)


@contextmanager
def served(*verb: str) -> Iterator[str]:
    """The address of `regard view demo.regard`, or of `regard play`."""
    words = [sys.executable, "-m", "regard", *verb, "--no-open", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child.stdout.readline().strip()
        finally:
            child.terminate()


def lesson_file(folder: Path) -> Path:
    """The lesson as one file."""
    path = folder / "lesson.html"
    words = [sys.executable, "-m", "regard", "learn", "The cat sat", "--save", str(path)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return path


def take(browser: Any, shot: Shot, address: str, folder: Path) -> None:
    """Open, wait until the page says that it is drawn, and keep what is on the screen."""
    width, height = shot.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=shot.scheme,
        device_scale_factor=1, reduced_motion="reduce",
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    if shot.click:
        page.locator(shot.click).click()
    if shot.ready:
        page.wait_for_selector(shot.ready)
    else:
        page.wait_for_function("() => document.documentElement.dataset.ready")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(600)  # tiles fade in after the page is ready
    if shot.scroll:
        page.locator(shot.scroll).evaluate("one => one.scrollIntoView()")
    page.screenshot(path=str(folder / f"{shot.name}.png"))
    context.close()


def main(folder: Path) -> None:
    """All of them."""
    from playwright.sync_api import sync_playwright

    if not RECORDING.is_file():
        sys.exit("no demo.regard; run `make demo` first")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        served("view", str(RECORDING)) as viewed,
        served("play") as played,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"]) as browser,
    ):
        lesson = lesson_file(Path(scratch)).as_uri()
        for shot in SHOTS:
            bases = {"lesson": f"{lesson}#", "recording": f"{viewed}&", "play": f"{played}&"}
            take(browser, shot, bases[shot.room] + shot.place, folder)
            print(f"{folder / shot.name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "pictures")
