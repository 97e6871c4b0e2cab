"""Looking at figures: their texts, the pixels of their images, and whether texts get in the way."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from regard.plot import About

__all__ = ["ABOUT", "axes_names", "covered", "image", "outside", "texts", "ticks"]

ABOUT = About("tiny", ["The", " cat", " sat"], "a text")


def _written(figure: Any) -> list[Any]:
    from matplotlib.text import Text

    return [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip()]


def texts(figure: Any) -> list[str]:
    """Everything that can be read, in no order."""
    return [one.get_text() for one in _written(figure)]


def ticks(axes: Any, which: str) -> list[str]:
    """The texts along the x or the y axis."""
    return [one.get_text() for one in getattr(axes, f"get_{which}ticklabels")()]


def image(axes: Any) -> np.ndarray:
    """(R, C, 3): the colours of the one image."""
    (found,) = axes.get_images()
    return np.asarray(found.get_array())


def outside(figure: Any) -> list[str]:
    """Texts that the sheet's edge cuts."""
    sheet, wrong = figure.bbox, []
    for one in _written(figure):
        box = one.get_window_extent()
        if box.x0 < sheet.x0 or box.y0 < sheet.y0 or box.x1 > sheet.x1 or box.y1 > sheet.y1:
            wrong.append(one.get_text())
    return wrong


def covered(figure: Any) -> list[tuple[str, str]]:
    """Texts that stand on one another by more than a pixel; an empty corner of a box counts."""
    boxes = [(one.get_text(), one.get_window_extent()) for one in _written(figure)]
    wrong = []
    for (a, first), (b, second) in combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        if wide > 1 and high > 1:
            wrong.append((a, b))
    return wrong


def axes_names(figure: Any) -> list[str]:
    """The title, the prompt and so on: texts that belong to no axes."""
    return [one.get_text() for one in figure.texts]


def read(path: Path) -> np.ndarray:
    """(height, width, 4): the pixels of a PNG."""
    from matplotlib.image import imread

    return imread(path)
