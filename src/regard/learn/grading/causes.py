"""Why the first wrong step is wrong, where a simple slip explains it.

A suspect explains the given numbers where they all agree with it: all cells of the step, or all
of the rows with a wrong cell, or the wrong cells alone. The widest agreement wins, then the
closest, then the order of the suspects. Agreement must be more than chance: a number that is off
by a few units of its last place agrees with too much to tell anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.learn.grading.bands import ALLOWED, Band
from regard.learn.grading.marking import Cell, Mark, StepMark
from regard.learn.grading.suspects import Cause, Suspect, suspects_of

_FEW_UNITS = 5  # off by this many in the last place is called rounding
_MOST_DIGITS = 12
_CHANGED = Cause(
    "given-changed", "a number that the sheet gives was changed",
    "Everything after it is judged by the exercise's own numbers.",
)  # fmt: skip


def explain(mark: Mark) -> Cause | None:
    """The likeliest cause of the first wrong step; None where nothing is wrong."""
    return next(iter(causes(mark)), None)


def causes(mark: Mark) -> list[Cause]:
    """All that explain the first wrong step, the likeliest first; the last says only "a slip"."""
    step = mark.first_wrong
    if step is None or step.right is None:
        return []
    if step.step in mark.submission.filled:
        return [_CHANGED]
    with np.errstate(all="ignore"):  # a suspect may divide by 0 or overflow; then it fits nothing
        return causes_among(step, step.right, suspects_of(mark, step.step))


def causes_among(step: StepMark, right: Band, suspects: Iterable[Suspect]) -> list[Cause]:
    """Those of the suspects that explain a wrong step, slips of the pen, and last "a slip"."""
    return [*_fitting(step, right, suspects), Cause("arithmetic", "an arithmetic slip")]


def _fitting(step: StepMark, right: Band, suspected: Iterable[Suspect]) -> Iterator[Cause]:
    suspects = [s for s in suspected if s.band.shape == right.shape]
    telling = [s for s in suspects if _chance(s.band, step, right) <= s.chance]
    rows = step.wrong.any(axis=1, keepdims=True) & step.checked
    yield from _agreeing(telling, step, step.checked)
    yield from _agreeing(telling, step, rows)
    yield from _rounding(step, right)
    yield from _swapped(step)
    yield from _agreeing([s for s in telling if s.cells_too], step, step.wrong)


def _chance(band: Band, step: StepMark, right: Band) -> float:
    """How likely numbers as far off as the given ones would all agree with the suspect."""
    if Band.around(band.value).allows(step.printed)[step.wrong].all():
        # It fits without any rounding of the step before.
        band, right = Band.around(band.value), Band.around(right.value)
    off = np.maximum(right.low - step.printed.values, step.printed.values - right.high)
    width = band.high - band.low + 2 * ALLOWED * step.printed.units
    share = (width / (4 * off))[step.wrong]
    return float(np.prod(np.minimum(share, 1.0)))


def _agreeing(suspects: list[Suspect], step: StepMark, scope: NDArray[np.bool_]) -> Iterator[Cause]:
    """Those that fit; first those that need no rounding of the step before to fit."""

    def fits(band: Band) -> bool:
        return bool(band.allows(step.printed)[scope].all())

    fitting = [suspect for suspect in suspects if fits(suspect.band)]
    fitting.sort(key=lambda suspect: not fits(Band.around(suspect.band.value)))
    return (suspect.cause for suspect in fitting)


def _rounding(step: StepMark, right: Band) -> Iterator[Cause]:
    off = np.maximum(right.low - step.printed.values, step.printed.values - right.high)
    if (off <= (_FEW_UNITS + 0.5) * step.printed.units)[step.wrong].all():
        yield Cause("rounding", "a rounding slip: only the last printed places are off")
    elif all(map(_is_padded, step.cells())):
        yield Cause("rounding", "rounded to fewer places, then filled up with zeros")


def _is_padded(cell: Cell) -> bool:
    """Whether it is the right number with fewer places, but at least two: 1.0000 for 0.9994."""
    places = _places(cell)
    return any(
        round(round(cell.right, fewer) - cell.given, places + 2) == 0 for fewer in range(2, places)
    )


def _swapped(step: StepMark) -> Iterator[Cause]:
    """Two neighbouring digits in each other's place."""
    meant = [_with_two_swapped(cell) for cell in step.cells()]
    if all(meant):
        first = next(step.cells())
        given = f"{first.given:.{_places(first)}f}"
        yield Cause("digits-swapped", f"two digits are swapped: {given} in place of {meant[0]}")


def _with_two_swapped(cell: Cell) -> str:
    """The given number with two digits swapped, where that is the right one rounded or cut."""
    places = _places(cell)
    if not np.isfinite(cell.given) or (cell.unit == 0 and cell.given != round(cell.given)):
        return ""
    text = f"{abs(cell.given):.{places}f}"
    at = [i for i, letter in enumerate(text) if letter.isdigit()][:_MOST_DIGITS]
    sign = "-" if cell.given < 0 else ""
    for one, other in pairwise(at):
        letters = list(text)
        letters[one], letters[other] = letters[other], letters[one]
        swapped = sign + "".join(letters)
        off = abs(float(swapped) - cell.right)
        if swapped != sign + text and off < max(cell.unit, 1e-9):
            return swapped
    return ""


def _places(cell: Cell) -> int:
    return max(0, round(-np.log10(cell.unit))) if cell.unit > 0 else 0
