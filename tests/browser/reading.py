"""Numbers and pixels, read from a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["figures", "go_to", "matrix", "overflow", "pixel", "pixels", "put", "value", "values"]

_MATRIX = """(name) => [...document.querySelectorAll(`[data-part=cell][data-matrix="${name}"]`)]
    .map((cell) => [cell.dataset.row, cell.dataset.column, cell.dataset.value].map(Number))"""
# A copy of the canvas is read: reading the page's own again and again makes Chromium warn.
_PIXELS = """(canvas, places) => {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    return places.map(([x, y]) => [...pen.getImageData(x, y, 1, 1).data]);
}"""
_NUMBERS = "all => all.map(one => Number(one.dataset.value))"


def matrix(page: Any, name: str) -> np.ndarray:
    """A matrix of the lesson, wherever its cells stand; NaN where a cell is not on the page."""
    cells = np.array(page.evaluate(_MATRIX, name))
    assert cells.size, f"no cell of {name} is on the page"
    numbers = np.full((int(cells[:, 0].max()) + 1, int(cells[:, 1].max()) + 1), np.nan)
    numbers[cells[:, 0].astype(int), cells[:, 1].astype(int)] = cells[:, 2]
    return numbers


def value(page: Any, selector: str) -> float:
    """The number of one element, with every digit."""
    return float(page.locator(selector).first.get_attribute("data-value"))


def values(page: Any, selector: str) -> list[float]:
    """The numbers of these elements, in their order."""
    numbers: list[float] = page.locator(selector).evaluate_all(_NUMBERS)
    return numbers


def figures(page: Any, selector: str) -> list[float]:
    """The numbers inside an element."""
    return values(page, f"{selector} [data-value]")


def pixels(
    page: Any, selector: str, places: Iterable[tuple[float, float]]
) -> list[tuple[int, ...]]:
    """Red, green, blue of a canvas at its own pixels (x, y)."""
    whole = [[int(x), int(y)] for x, y in places]
    return [tuple(rgba[:3]) for rgba in page.locator(selector).first.evaluate(_PIXELS, whole)]


def pixel(page: Any, selector: str, x: float, y: float) -> tuple[int, ...]:
    """The same of one."""
    return pixels(page, selector, [(x, y)])[0]


def overflow(page: Any) -> int:
    """How many pixels the page is wider than its window."""
    wider: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return wider


def go_to(page: Any, step: int) -> None:
    """Another step of the lesson."""
    page.locator(f"[data-part=step-{step}]").click()
    page.wait_for_selector(f'[data-part=stage][data-step="{step}"]')


def put(page: Any, name: str, row: int, column: int, text: str) -> Any:
    """Write into a cell of the lesson's matrices."""
    cell = page.locator(
        f'[data-part=cell][data-matrix="{name}"][data-row="{row}"][data-column="{column}"]'
    ).first
    cell.click()
    cell.fill(text)
    cell.press("Enter")
    return cell
