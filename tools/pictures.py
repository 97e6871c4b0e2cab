"""Takes the pictures of README and docs: the page as it is, never a mock-up.

    python tools/pictures.py [FOLDER]            docs/pictures by default
    python tools/pictures.py --overlay [FOLDER]  attention over a picture alone
    python tools/pictures.py --served FILE [FOLDER]  a request of docs/serving.md, recorded by vLLM

Needs the page (`make page`), Chromium, and demo.regard (`make demo`). The overlay is of a captioner
that `examples/vision.py` trains into digits/ (minutes, once).
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
SEEN = ROOT / "digits" / "captioner.regard"  # by examples/vision.py
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
    Shot("lesson-why", "lesson", "step=0", (1280, 1000), ready="[data-part=why-lead]"),
    Shot(
        "lesson-film",
        "lesson",
        "step=6&row=3&sentence=The+cat+chased+the+mouse+because+it+was+hungry"
        "&vectors=features&heads=by-hand&head=2",
        ready="[data-part=motion]",
        click="[data-part=motion-forward]",
        scroll="[data-part=motion]",
    ),
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
    Shot(
        "paris",
        "play",
        "p=The+capital+of+France+is&off=L0H4&at=L0H4&pin=4",
        (1280, 810),
        ready="[data-part=card] .play-card-note:has-text('→')",
    ),
    Shot("row-phone", "recording", "view=row&head=L17H3&row=671", PHONE),
)


# the row of "shows" (64 patches, then "the picture shows"), which writes the first digit's name
OVERLAY = Shot(
    "overlay", "seen", "view=picture&head=L0H2&at=66&by=weight", ready="[data-part=picture]"
)


# a text that says one sentence four times: the third "a" looks at what followed it before
SERVED = Shot("served", "recording", "view=row&head=L17H3&prompt=1&row=66")


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


def make_seen() -> Path:
    """The recording of a captioner that looks at two digits; trained where it is not there yet."""
    if not SEEN.is_file():
        script = ROOT / "examples" / "vision.py"
        words = [sys.executable, str(script), "--folder", str(SEEN.parent)]
        subprocess.run(words, check=True)
    return SEEN


def take_alone(shot: Shot, recording: Path, folder: Path) -> None:
    """overlay.png, a word's row laid over the picture that it was written about, or served.png."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with (
        served("view", str(recording)) as viewed,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"]) as browser,
    ):
        take(browser, shot, f"{viewed}&{shot.place}", folder)
        print(f"{folder / shot.name}.png")


def main(folder: Path) -> None:
    """All of them, those taken alone aside."""
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
    flag, given = next((w for w in sys.argv if w in ("--overlay", "--served")), ""), sys.argv[1:]
    words = [word for word in given if word != flag]
    recording = Path(words.pop(0)) if flag == "--served" else None
    where = Path(words[0]) if words else ROOT / "docs" / "pictures"
    if recording is not None:
        take_alone(SERVED, recording, where)
    else:
        take_alone(OVERLAY, make_seen(), where) if flag else main(where)
