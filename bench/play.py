"""How `regard play` feels: from Enter to the picture, from pointing to arcs, from a switch to moved
bars, and frames while a layer is scrubbed; in a real browser, against their budgets.

The ratio is to the budget: below 1 is within it. Each round has a prompt of its own, so that
nothing is kept from the one before.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bench.page import browser
from regard.bench.results import Result, timed
from regard.bench.timing import Samples
from regard.errors import UnavailableError

_ROUNDS: Final = 7
_LONG: Final = 512  # tokens from which on a round takes long, and one has to do
_WORDS: Final = (
    "the old harbour lamp burned while grey boats came home and nobody on the quiet quay could say "
    "which captain had first seen the storm before it turned north"
).split()
# what is measured → its budget in ms
BUDGETS: Final = {"first picture": 1000.0, "hover": 50.0, "knock-out": 400.0, "frame": 1000 / 60}

_UNTIL: Final = """(done) => new Promise((resolve, fail) => {
    const start = performance.now();
    const look = () => {
        if (done()) resolve(performance.now() - start);
        else if (performance.now() - start > 120000) fail(new Error("nothing came of it"));
        else requestAnimationFrame(look);
    };
    look();
})"""
_READ: Final = f"""([text, before]) => {{
    const box = document.querySelector("[data-part=prompt]");
    box.value = text;
    box.dispatchEvent(new Event("input", {{ bubbles: true }}));
    const enter = new KeyboardEvent("keydown", {{ key: "Enter", bubbles: true }});
    box.dispatchEvent(enter);
    return ({_UNTIL})(() => location.hash.includes(before)
        && document.querySelector("[data-part=play-room]").dataset.busy === "false"
        && document.querySelector("[data-part=words]")?.textContent.startsWith(before)
        && document.querySelector("[data-part=bar]")
        && document.querySelector("[data-part=arcs] .arc"));
}}"""
_HOVER: Final = f"""(word) => {{
    const at = document.querySelector(`[data-word="${{word}}"]`);
    at.dispatchEvent(new PointerEvent("pointermove", {{ bubbles: true, pointerType: "mouse" }}));
    return ({_UNTIL})(() =>
        document.querySelector("[data-part=reads] h2").textContent.includes(`(word ${{word + 1}})`)
        && document.querySelector("[data-part=read-key]"));
}}"""
_SWITCH: Final = f"""() => {{
    document.querySelector("[data-part=switch]").click();
    return ({_UNTIL})(() => document.querySelector("[data-part=moved]"));
}}"""
_SCRUB: Final = """() => new Promise((resolve) => {
    const slider = document.querySelector("[data-part=layer-slider]");
    const most = Number(slider.max), frames = [];
    let last = 0;
    const step = (now) => {
        if (last) frames.push(now - last);
        last = now;
        slider.value = String(frames.length % (most + 1));
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        if (frames.length < 120) requestAnimationFrame(step);
        else resolve(frames);
    };
    requestAnimationFrame(step);
})"""


def measure(tokens: int, model: str = "smollm2", rounds: int = _ROUNDS) -> list[Result]:
    """Prompts of about so many tokens."""
    times: dict[str, list[float]] = {what: [] for what in BUDGETS}
    with _played(model) as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(240_000)
        page.goto(address)
        page.wait_for_selector("[data-part=start]")
        page.evaluate(_READ, [f"Warm {_prompt(tokens, 0)}", "Warm"])
        page.wait_for_selector("[data-part=card]")
        for n in range(1, (1 if tokens >= _LONG else rounds) + 1):
            _round(page, tokens, n, times)
    return [_result(what, tokens, own) for what, own in times.items()]


def _round(page: Any, tokens: int, number: int, times: dict[str, list[float]]) -> None:
    first = f"Round{number}"
    times["first picture"].append(
        page.evaluate(_READ, [f"{first} {_prompt(tokens, number)}", first])
    )
    page.wait_for_selector("[data-part=card]:has([data-part=switch])")
    for word in range(2, min(12, tokens - 3)):
        times["hover"].append(page.evaluate(_HOVER, word))
    times["frame"] += page.evaluate(_SCRUB)
    times["knock-out"].append(page.evaluate(_SWITCH))
    page.locator("[data-part=restore]").click()
    page.wait_for_selector("[data-part=moved]", state="detached")


def _prompt(tokens: int, number: int) -> str:
    """Words that take about one token each, in another order every round."""
    words = [_WORDS[(n * 7 + number * 5) % len(_WORDS)] for n in range(max(tokens - 3, 1))]
    return " ".join(words)


@contextmanager
def _played(model: str) -> Iterator[str]:
    """The address of `regard play`."""
    words = [sys.executable, "-m", "regard", "play", model, "--no-open", "--port", "0"]
    quiet: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(words, env=os.environ, **quiet) as child:
        try:
            assert child.stdout is not None
            if not select.select([child.stdout], [], [], 180)[0]:
                raise UnavailableError("`regard play` did not start within three minutes")
            yield child.stdout.readline().strip()
        finally:
            child.kill()


def _result(what: str, tokens: int, times: list[float]) -> Result:
    taken, budget = Samples([one / 1e3 for one in times]), BUDGETS[what]
    return timed(
        taken, 1, taken.median * 1e3 / budget, suite="play", what=what, implementation="chromium",
        tokens=tokens, dim=64, heads=270, causal=True, dtype="float32",
        peer=f"budget of {budget:.0f} ms", note=f"load average {os.getloadavg()[0]:.1f}",
    )  # fmt: skip
