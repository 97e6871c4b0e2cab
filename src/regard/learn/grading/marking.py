"""Judge a hand calculation: each step is recomputed from the step before it, as it was given.

Printed numbers are rounded or cut, so a printed cell is right within one unit of its last place
of what the step before allows. Whoever goes on with the printed number and whoever goes on with
the unrounded one are both right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, ShapeError
from regard.learn.grading.bands import ALLOWED, Band
from regard.learn.grading.draft import STEPS
from regard.learn.grading.submission import Printed, Submission
from regard.learn.steps import Array
from regard.learn.text import labels_of

__all__ = ["Cell", "Mark", "StepMark", "mark"]


@dataclass(frozen=True)
class Cell:
    """One wrong cell."""

    step: str
    row: int
    column: int
    given: float
    right: float
    unit: float  # 0 where the given number is exact


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class StepMark:
    """One step: what was printed and what it should be; None where nothing leads to it."""

    step: str
    printed: Printed
    right: Band | None

    @cached_property
    def given(self) -> NDArray[np.bool_]:
        """Which cells were filled in."""
        return ~np.isnan(self.printed.values)

    @cached_property
    def checked(self) -> NDArray[np.bool_]:
        """Which of them could be recomputed."""
        if self.right is None:
            return np.zeros_like(self.given)
        return self.given & np.isfinite(self.right.low) & np.isfinite(self.right.high)

    @cached_property
    def wrong(self) -> NDArray[np.bool_]:
        """Which of those are wrong."""
        if self.right is None:
            return np.zeros_like(self.given)
        return self.checked & ~self.right.allows(self.printed)

    @property
    def blank(self) -> int:
        """How many cells of this step were left open."""
        return int((~self.given).sum())

    def cells(self) -> Iterator[Cell]:
        """The wrong cells in reading order."""
        if self.right is not None:
            for row, column in np.argwhere(self.wrong).tolist():
                at = (row, column)
                given, right = float(self.printed.values[at]), float(self.right.value[at])
                yield Cell(self.step, row, column, given, right, float(self.printed.units[at]))


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Mark:
    """A whole submission, judged. `known` is what each step is taken to be further on."""

    submission: Submission
    steps: tuple[StepMark, ...]
    known: dict[str, Band]
    d_k: int | None

    @property
    def first_wrong(self) -> StepMark | None:
        """The first step that does not follow from what stands before it."""
        return next((step for step in self.steps if step.wrong.any()), None)

    @property
    def checked(self) -> int:
        """How many cells were recomputed."""
        return sum(int(step.checked.sum()) for step in self.steps)

    @property
    def blank(self) -> int:
        """How many cells were left open."""
        return sum(step.blank for step in self.steps)

    @property
    def verdict(self) -> str:
        """wrong, right, nothing filled in, or (where no step leads to another) nothing to check."""
        if self.first_wrong:
            return "wrong"
        if self.checked:
            return "right"
        return "nothing filled in" if self.blank else "nothing to check"

    def token(self, index: int) -> str:
        """The name of a token; its number where the file names none."""
        labels = labels_of(self.submission.tokens)
        return labels[index] if index < len(labels) else f"token {index + 1}"

    def place(self, cell: Cell) -> str:
        """Where a cell stands: its row's token, then its column's token or dimension."""
        if cell.step in ("scores", "scaled", "weights"):
            return f"{self.token(cell.row)} → {self.token(cell.column)}"
        return f"{self.token(cell.row)}, dimension {cell.column + 1}"


def mark(submission: Submission) -> Mark:
    """Judge every step that is given."""
    d_k = _d_k(submission)
    known: dict[str, Band] = {}
    steps = []
    with np.errstate(all="ignore"):  # unknown cells are NaN and stay NaN
        for step in STEPS:
            right = _recompute(step, known, d_k)
            printed = submission.steps.get(step)
            if printed is not None:
                judged = StepMark(step, _fit(step, printed, right), right)
                known[step] = _carry(judged)
                steps.append(judged)
            elif right is not None:
                known[step] = right
    return Mark(submission, tuple(steps), known, d_k)


def _d_k(submission: Submission) -> int | None:
    widths = {
        name: submission.steps[name].values.shape[1]
        for name in ("K", "Q", "w_k", "w_q")
        if name in submission.steps
    }
    for name, width in widths.items():
        if submission.d_k not in (None, width):
            raise InputError(f"d_k is given as {submission.d_k}, but {name} has {width} columns")
    return next(iter(widths.values()), submission.d_k)


def _recompute(step: str, known: dict[str, Band], d_k: int | None) -> Band | None:
    def of(*names: str) -> list[Band]:
        found = [known[name] for name in names if name in known]
        return found if len(found) == len(names) else []

    if step in ("Q", "K", "V"):
        return _product(
            step, ("embeddings", f"w_{step.lower()}"), of("embeddings", f"w_{step.lower()}")
        )
    if step == "scores":
        return _product(step, ("Q", "Kᵀ"), [b.T if i else b for i, b in enumerate(of("Q", "K"))])
    if step == "output":
        return _product(step, ("weights", "V"), of("weights", "V"))
    if step == "scaled" and d_k and "scores" in known:
        return known["scores"] * (1 / np.sqrt(d_k))
    if step == "weights" and "scaled" in known:
        return known["scaled"].softmax()
    return None


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}×{shape[1]}"


def _product(step: str, names: tuple[str, str], factors: list[Band]) -> Band | None:
    if not factors:
        return None
    left, right = factors
    if left.shape[1] != right.shape[0]:
        sizes = f"{names[0]} is {_size(left.shape)} and {names[1]} is {_size(right.shape)}"
        raise ShapeError(
            f"{step} = {names[0]} · {names[1]} cannot be multiplied: {sizes}; "
            "the columns of the first must be as many as the rows of the second"
        )
    return left @ right


def _fit(step: str, printed: Printed, right: Band | None) -> Printed:
    """Rows that were not given are blank; more rows or other columns are errors."""
    if right is None or printed.values.shape == right.shape:
        return printed
    rows, columns = printed.values.shape
    if rows > right.shape[0] or columns != right.shape[1]:
        hint = "; the softmax runs over the tokens, one column each" if step == "weights" else ""
        raise ShapeError(
            f"{step} is {_size(printed.values.shape)}, but what stands before it gives "
            f"{_size(right.shape)}{hint}"
        )
    values, units = np.full(right.shape, np.nan), np.zeros(right.shape)
    values[:rows], units[:rows] = printed.values, printed.units
    return Printed(values, units)


def _carry(judged: StepMark) -> Band:
    """What the next step may build on: the printed number or, where it is right, the unrounded."""
    values, slack = judged.printed.values, ALLOWED * judged.printed.units
    if judged.right is None:
        return Band.around(values, _start(judged))
    right, good = judged.right, judged.checked & ~judged.wrong
    low = np.where(good, np.minimum(values, np.maximum(right.low, values - slack)), values - slack)
    high = np.where(
        good, np.maximum(values, np.minimum(right.high, values + slack)), values + slack
    )
    return Band(
        np.where(judged.given, values, right.value),
        np.where(judged.given, low, right.low),
        np.where(judged.given, high, right.high),
    )


def _start(judged: StepMark) -> Array:
    """How far numbers that nothing leads to may be from those that were meant.

    Embeddings and projections are the task's own and exact. Q, K, V are at worst rounded, and so
    are weights that add up to 1; anything else may have been cut.
    """
    values, units = judged.printed.values, judged.printed.units
    if judged.step == "embeddings" or judged.step.startswith("w_"):
        return np.zeros_like(units)
    if judged.step in ("Q", "K", "V"):
        return units / 2
    whole = np.isclose(values.sum(axis=1, keepdims=True), 1.0, rtol=0, atol=1e-9)
    return np.where(whole, units / 2, units) if judged.step == "weights" else units
