"""Matrices as grids of text; large ones keep their first and last rows and say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Language
from regard.learn.story.document import Grid, Role
from regard.learn.text import figures

LARGEST = 40  # rows or columns shown whole
_FIRST, _LAST = 6, 3

_T = TypeVar("_T")


def grid(
    title: str,
    matrix: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    role: Role,
    *,
    say: Language,
    shaded: bool = False,
    most: int = LARGEST,
) -> Grid:
    """The matrix with its labels, folded where it has more rows or columns than `most`."""
    down, across = _kept(len(rows), most), _kept(len(columns), most)
    part = matrix[np.ix_(_present(down), _present(across))]
    texts = np.array(figures(part), dtype=object).reshape(part.shape).tolist()
    shades = np.where(np.isfinite(part), part, 0.0).tolist() if shaded else None
    return Grid(
        title=title,
        role=role,
        rows=tuple("⋮" if r is None else rows[r] for r in down),
        columns=tuple("…" if c is None else columns[c] for c in across),
        cells=_spread(texts, down, across, "…"),
        shades=None if shades is None else _spread(shades, down, across, 0.0),
        remark=_remark(
            say, (len(rows), len(_present(down))), (len(columns), len(_present(across)))
        ),
    )


def dims(letter: str, count: int) -> tuple[str, ...]:
    """q1, q2, …: names of dimensions."""
    return tuple(f"{letter}{d + 1}" for d in range(count))


def _kept(count: int, most: int) -> list[int | None]:
    """Indices to show; None stands for those left out."""
    if count <= most:
        return list(range(count))
    return [*range(_FIRST), None, *range(count - _LAST, count)]


def _present(kept: list[int | None]) -> list[int]:
    return [i for i in kept if i is not None]


def _spread(
    cells: list[list[_T]], down: list[int | None], across: list[int | None], gap: _T
) -> tuple[tuple[_T, ...], ...]:
    """Cells with a gap wherever indices were left out."""
    rows = iter(cells)
    spread = []
    for r in down:
        row = iter(next(rows)) if r is not None else None
        spread.append(tuple(gap if row is None or c is None else next(row) for c in across))
    return tuple(spread)


def _remark(say: Language, rows: tuple[int, int], columns: tuple[int, int]) -> str:
    """Of rows and of columns: how many there are, and how many are shown."""
    sizes = dict(
        zip(("rows", "shown_rows", "columns", "shown_columns"), rows + columns, strict=True)
    )
    is_cut = (rows[1] < rows[0], columns[1] < columns[0])
    if is_cut == (False, False):
        return ""
    if is_cut == (True, True):
        return say("story.shown_both", **sizes)
    return say("story.shown_rows" if is_cut[0] else "story.shown_columns", **sizes)
