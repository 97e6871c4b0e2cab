"""Judge a hand calculation: each step is recomputed from the step before it, as it was given.

Printed numbers are rounded or cut, so a printed cell is right within one unit of its last place
of what the step before allows. Whoever goes on with the printed number and whoever goes on with
the unrounded one are both right, and so is whoever rounds a step that is not printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.arrays import Array
from regard.errors import ShapeError
from regard.learn.grading.bands import ALLOWED, Band
from regard.learn.grading.blocks import STEPS
from regard.learn.grading.submission import Assigned, Printed, Submission
from regard.learn.grading.working import HIDDEN_FROM, Working, size_of
from regard.learn.text import labels_of

_SHEET_PLACES = 4  # decimals of a sheet's own numbers


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
    """One step: what was printed and what it should be; None where nothing leads to it.

    `hidden` are the cells that a causal mask hides: −∞ is as good there as a blank.
    """

    step: str
    printed: Printed
    right: Band | None
    hidden: NDArray[np.bool_]

    @cached_property
    def given(self) -> NDArray[np.bool_]:
        """Which cells were filled in."""
        values = self.printed.values
        return ~np.isnan(values) & ~(self.hidden & (values <= HIDDEN_FROM))

    @cached_property
    def checked(self) -> NDArray[np.bool_]:
        """Which of them could be recomputed."""
        if self.right is None:
            return np.zeros_like(self.given)
        is_hidden = np.isneginf(self.right.high)
        return self.given & (np.isfinite(self.right.low) & np.isfinite(self.right.high) | is_hidden)

    @cached_property
    def wrong(self) -> NDArray[np.bool_]:
        """Which of those are wrong."""
        if self.right is None:
            return np.zeros_like(self.given)
        return self.checked & ~self.right.allows(self.printed)

    @property
    def blank(self) -> int:
        """How many cells of this step were left open."""
        return int((np.isnan(self.printed.values) & ~self.hidden).sum()) - self.printed.unread

    def cells(self) -> Iterator[Cell]:
        """The wrong cells in reading order."""
        if self.right is not None:
            for row, column in np.argwhere(self.wrong).tolist():
                at = (row, column)
                given, right = float(self.printed.values[at]), float(self.right.value[at])
                yield Cell(self.step, row, column, given, right, float(self.printed.units[at]))


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Mark:
    """A whole submission, judged."""

    steps: tuple[StepMark, ...]
    working: Working

    @property
    def submission(self) -> Submission:
        """What was judged."""
        return self.working.submission

    @property
    def known(self) -> dict[str, Band]:
        """What each step is taken to be further on."""
        return self.working.known

    @property
    def d_k(self) -> int | None:
        """The width of queries and keys, where anything tells it."""
        return self.working.d_k

    @property
    def causal(self) -> bool:
        """Whether no query sees the keys after it."""
        return self.working.causal

    @property
    def first_wrong(self) -> StepMark | None:
        """The first step that does not follow from what stands before it."""
        return next((step for step in self.steps if step.wrong.any()), None)

    @property
    def checked(self) -> int:
        """How many cells were recomputed; those that the sheet had filled in do not count."""
        own = (step for step in self.steps if step.step not in self.submission.filled)
        return sum(int(step.checked.sum()) for step in own)

    @property
    def blank(self) -> int:
        """How many cells were left open; of a sheet all that it asks for, also what was deleted."""
        assigned = self.submission.assigned
        if assigned is None:
            return sum(step.blank for step in self.steps)
        own = {step.step: step.blank for step in self.steps if step.step not in assigned.given}
        sizes = {step: rows * columns for step, (rows, columns) in assigned.asked.items()}
        return sum((sizes | own).values())

    @property
    def verdict(self) -> str:
        """wrong, not all read, right, nothing filled in, or (where no step leads to another)
        nothing to check."""
        if self.first_wrong:
            return "wrong"
        if self.submission.unread:
            return "not all read"
        if self.checked:
            return "right"
        return "nothing filled in" if self.blank else "nothing to check"

    def token(self, index: int) -> str:
        """The name of a token; its number where the file names none."""
        labels = labels_of(self.submission.tokens)
        return labels[index] if index < len(labels) else f"token {index + 1}"

    def place(self, cell: Cell) -> str:
        """Where a cell stands: its row's token, then its column's token or dimension."""
        if cell.step.startswith("w_"):
            return f"row {cell.row + 1}, column {cell.column + 1}"
        if cell.step in ("scores", "scaled", "masked", "weights"):
            return f"{self.token(cell.row)} → {self.token(cell.column)}"
        return f"{self.token(cell.row)}, dimension {cell.column + 1}"


def mark(submission: Submission) -> Mark:
    """Judge every step that is given."""
    working = Working(submission)
    with np.errstate(all="ignore"):  # unknown cells are NaN and stay NaN
        steps = [judged for step in STEPS if (judged := _judge(working, step)) is not None]
    return Mark(tuple(steps), working)


def _judge(working: Working, step: str) -> StepMark | None:
    """The step by its exact sources or, where it is wrong by them, by the best rounded ones."""
    printed = working.submission.steps.get(step)
    assigned = working.submission.assigned
    if assigned and step in assigned.given:
        return _given(working, step, printed, assigned)
    right = working.recompute(step)
    if printed is None:
        if right is not None:
            working.known[step] = right
        return None
    printed = _fit(step, printed, right, _confused(working, step, printed))
    hidden = working.hidden(step, printed.values.shape)
    judged = StepMark(step, printed, right, hidden)
    if right is not None and judged.wrong.any():
        judged = StepMark(step, printed, _best(working, judged, right), hidden)
    working.keep(step, _carry(judged), judged.given, printed.units)
    return judged


def _given(
    working: Working, step: str, printed: Printed | None, assigned: Assigned
) -> StepMark | None:
    """A step that the sheet gives: compared with the exercise, whose numbers are gone on with."""
    right = Band.around(assigned.given[step])
    units = np.where(right.value == right.value.round(), 0.0, 10.0**-_SHEET_PLACES)
    working.keep(step, Band.around(right.value, units / 2), ~np.isnan(right.value), units)
    if printed is None:
        return None
    rows, columns = printed.values.shape
    if rows > right.shape[0] or columns != right.shape[1]:
        raise ShapeError(
            f"{step} is {size_of(printed.values.shape)}, but the exercise gives "
            f"{size_of(right.shape)}; restore what the sheet gave"
        )
    return StepMark(step, _fit(step, printed, right), right, np.zeros(right.shape, bool))


def _best(working: Working, judged: StepMark, right: Band) -> Band:
    """The way with the fewest wrong cells, the exact one first.

    Another way must give the printed number rounded or cut, not one unit more. That exponentials
    were rounded takes whole rows to tell: two units in a single cell are a slip.
    """
    printed, checked = judged.printed, judged.checked
    is_whole = bool((judged.given | judged.hidden)[judged.wrong.any(axis=1)].all())
    spare = (ALLOWED - 1.0) * printed.units
    ways = (
        Band(right.value, way.low + spare, way.high - spare)
        for way in working.ways_to(judged.step, exponentials=is_whole)
    )
    return min((right, *ways), key=lambda way: int((checked & ~way.allows(printed)).sum()))


def _confused(working: Working, step: str, printed: Printed) -> str:
    """The matrix that was taken for another, where the size of what is printed gives it away."""
    used = {"output": [("K", "V"), ("Q", "V"), ("embeddings", "V")],
            "V": [("w_k", "w_v"), ("w_q", "w_v")], "Q": [("w_v", "w_q")],
            "K": [("w_v", "w_k")]}  # fmt: skip
    left = working.known.get("weights" if step == "output" else "embeddings")
    for wrong, right in used.get(step, []):
        other = working.known.get(wrong)
        if left is None or other is None or left.shape[1] != other.shape[0]:
            continue
        made = left @ other
        if made.shape == printed.values.shape and made.allows(printed)[~_blank(printed)].all():
            return f"; these are the numbers with {wrong} in place of {right}"
    return ""


def _blank(printed: Printed) -> NDArray[np.bool_]:
    return np.isnan(printed.values)


def _fit(step: str, printed: Printed, right: Band | None, hint: str = "") -> Printed:
    """Rows that were not given are blank; more rows or other columns are errors."""
    if right is None or printed.values.shape == right.shape:
        return printed
    rows, columns = printed.values.shape
    if rows > right.shape[0] or columns != right.shape[1]:
        if step == "weights":
            hint = "; the softmax runs over the tokens, one column each"
        raise ShapeError(
            f"{step} is {size_of(printed.values.shape)}, but what stands before it gives "
            f"{size_of(right.shape)}{hint}"
        )
    values, units = np.full(right.shape, np.nan), np.zeros(right.shape)
    values[:rows], units[:rows] = printed.values, printed.units
    return Printed(values, units, printed.unread)


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
