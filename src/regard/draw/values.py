"""A small region of the matrix in figures, cut into blocks of columns where it is too wide."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from regard.colour.shades import codes
from regard.draw.heat import Axis
from regard.draw.palette import shaded
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import cells, label, padded

_ROW_LABEL = 12
_FIGURE = 5  # characters of a weight, as 0.123


def value_table(
    weights: ArrayLike, shares: ArrayLike, rows: Axis, keys: Axis, paper: Paper
) -> list[StyledLine]:
    """Weights to three decimals, shaded by their shares of a scale; a NaN share is masked."""
    given, shaded = np.asarray(weights, np.float64), np.asarray(shares, np.float64)
    names = [_row_name(rows, n, paper) for n in range(len(given))]
    left = max(map(cells, names), default=0)
    blocks = -(-given.shape[1] // max((paper.width - left) // (_FIGURE + 1), 1))
    across = max(-(-given.shape[1] // max(blocks, 1)), 1)
    lines: list[StyledLine] = []
    for start in range(0, given.shape[1], across):
        last = min(start + across, given.shape[1])
        lines += _heading(keys, start, last, left, paper)
        for n, name in enumerate(names):
            line: StyledLine = [(padded(name, left), "dim")]
            for value, share in zip(given[n, start:last], shaded[n, start:last], strict=True):
                line += [(" ", ""), _figure(float(value), float(share), paper)]
            lines.append(line)
    return lines


def _heading(keys: Axis, start: int, last: int, left: int, paper: Paper) -> list[StyledLine]:
    """Positions, and below them tokens where they are known."""
    places = [keys.at(n) for n in range(start, last)]
    texts = [places]
    if keys.tokens is not None:
        texts.append([label(keys.tokens[n], _FIGURE, paper) for n in range(start, last)])
    return [
        [
            (
                " " * left
                + "".join(" " + padded(one[-_FIGURE:], _FIGURE, right=True) for one in line),
                "dim",
            )
        ]
        for line in texts
    ]


def _row_name(rows: Axis, n: int, paper: Paper) -> str:
    if rows.tokens is None:
        return rows.at(n)
    return f"{rows.at(n)} {label(rows.tokens[n], _ROW_LABEL, paper)}"


def _figure(value: float, share: float, paper: Paper) -> tuple[str, str]:
    if math.isnan(share):
        return paper.hidden.rjust(_FIGURE), "dim"
    text = f"{value:.3f}".rjust(_FIGURE)
    return text, shaded(int(codes(share)), paper.colours)
