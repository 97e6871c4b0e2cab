"""Numbers and pixels, read from a page."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["figures", "matrix", "overflow", "pixel", "value"]

_MATRIX = """(name) => [...document.querySelectorAll(`[data-part=cell][data-matrix="${name}"]`)]
    .map((cell) => [cell.dataset.row, cell.dataset.column, cell.dataset.value].map(Number))"""
# A copy of the pixel is read: reading the page's own canvas again and again makes Chromium warn.
_PIXEL = """(canvas, [x, y]) => {
    const copy = document.createElement("canvas");
    copy.width = copy.height = 1;
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, x, y, 1, 1, 0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
}"""


def matrix(page: Any, name: str) -> np.ndarray:
    """A matrix of the lesson, wherever its cells stand; NaN where a cell is not on the page."""
    cells = np.array(page.evaluate(_MATRIX, name))
    assert cells.size, f"no cell of {name} is on the page"
    found = np.full((int(cells[:, 0].max()) + 1, int(cells[:, 1].max()) + 1), np.nan)
    found[cells[:, 0].astype(int), cells[:, 1].astype(int)] = cells[:, 2]
    return found


def value(page: Any, selector: str) -> float:
    """The number of one element, with every digit."""
    return float(page.locator(f"{selector}").first.get_attribute("data-value"))


def figures(page: Any, selector: str) -> list[float]:
    """The numbers inside an element, in their order."""
    inside = page.locator(f"{selector} [data-value]")
    return [float(one.get_attribute("data-value")) for one in inside.all()]


def pixel(page: Any, selector: str, x: float, y: float) -> tuple[int, ...]:
    """Red, green, blue, alpha of a canvas at its own pixel (x, y)."""
    return tuple(page.locator(selector).first.evaluate(_PIXEL, [int(x), int(y)]))


def overflow(page: Any) -> int:
    """How many pixels the page is wider than its window."""
    return page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
