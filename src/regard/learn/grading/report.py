"""A judged hand calculation in words: for one file in full, for many a line or a row each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.learn.grading.blocks import Unread
from regard.learn.grading.causes import Cause, explain
from regard.learn.grading.marking import Cell, Mark, StepMark, mark
from regard.learn.grading.submission import Assigned, read_submission
from regard.learn.text import StyledLine, factor, listed, printable, prose, quoted

COLUMNS = ("file", "verdict", "step", "cell", "given", "right", "cause", "checked", "blank")
SO_FAR = "right so far"  # how a sheet with blanks is counted
_CODES = {
    "right": 0, SO_FAR: 0, "wrong": 1, "not all read": 1, "nothing filled in": 1,
    "nothing to check": 2, "unreadable": 2,
}  # fmt: skip
_TITLES = {
    "embeddings": "a given number", "w_q": "a given number", "w_k": "a given number",
    "w_v": "a given number", "Q": "the queries", "K": "the keys", "V": "the values",
    "scores": "the scores", "scaled": "the scaling", "masked": "the mask", "weights": "the softmax",
    "output": "the weighted sum",
}  # fmt: skip
LESSON_STEP = {  # as the lesson calls it
    "Q": "projections", "K": "projections", "V": "projections", "scores": "scores",
    "scaled": "scaling", "masked": "mask", "weights": "softmax", "output": "weighted sum",
}  # fmt: skip
_UNLINKED = (
    "no step in it leads to another; give steps that follow each other, as weights, V and output"
)
_UNREAD = (
    "what is listed below was not understood. Write numbers as 0.42 or 1/2, rows as "
    "The = [0.42 0.58]."
)
_BESIDE = ("    given  ", "    right  ")
_WIDEST_LINE = 64  # of a line that was not read
_WIDEST_ROW = 10  # cells of a row that still read well beside each other


class Outcome(ABC):
    """What a file is counted by, and how it ends the command."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """right, wrong, not all read, nothing filled in, nothing to check, or unreadable."""

    @property
    @abstractmethod
    def is_partial(self) -> bool:
        """Whether there are blanks left."""

    @property
    @abstractmethod
    def first_mistake(self) -> tuple[str, str] | None:
        """Step and kind of cause of what is wrong first, without any number of the file."""

    @property
    def exit_code(self) -> int:
        """0 right, 1 not right, 2 not to be graded."""
        return _CODES[self.verdict]

    def in_a_line(self, name: str, detail: str) -> StyledLine:
        """One file of many: its name, padded, what it is counted as, and more."""
        style = {0: "green", 1: "red", 2: "yellow"}[self.exit_code]
        return [(f"{name}  ", ""), (counted_as(self), style), (detail, "")]


def counted_as(one: Outcome) -> str:
    """The verdict; of a sheet that still has blanks "right so far" in place of "right"."""
    return SO_FAR if one.verdict == "right" and one.is_partial else one.verdict


@dataclass(frozen=True)
class Graded(Outcome):
    """One file: its mark and the cause of what is wrong, or the problem with reading it."""

    name: str
    mark: Mark | None = None
    cause: Cause | None = None
    problem: str = ""

    @property
    def verdict(self) -> str:
        """right, wrong, not all read, nothing filled in, nothing to check, or unreadable."""
        return self.mark.verdict if self.mark else "unreadable"

    @property
    def is_partial(self) -> bool:
        """Whether it is a sheet of an exercise with blanks left."""
        return bool(self.mark and self.mark.submission.assigned and self.mark.blank)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """The lines that could not be read."""
        return self.mark.submission.unread if self.mark else ()

    @property
    def cell(self) -> Cell | None:
        """The first wrong cell of the first wrong step."""
        step = self.mark.first_wrong if self.mark else None
        return next(step.cells()) if step else None

    @property
    def first_mistake(self) -> tuple[str, str] | None:
        """Step and kind of cause of what is wrong first, without any number of the file."""
        if not self.cell or not self.cause:
            return None
        is_given = self.cause.kind == "given-changed"
        return "givens" if is_given else LESSON_STEP[self.cell.step], self.cause.kind

    def as_row(self) -> dict[str, str]:
        """One text per name in COLUMNS, empty where there is nothing to say."""
        row = dict.fromkeys(COLUMNS, "") | {"file": self.name, "verdict": self.verdict}
        row["cause"] = self.cause.text if self.cause else self.problem or not_read(self.unread)
        if self.mark:
            row |= {"checked": str(self.mark.checked), "blank": str(self.mark.blank)}
        if self.mark and self.cell:
            cell = self.cell
            row |= {"step": cell.step, "cell": self.mark.place(cell)}
            row |= {
                "given": figure(cell.given, cell.unit),
                "right": figure(cell.right, cell.unit),
            }
        return row

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON, with numbers as numbers and every step."""
        document: dict[str, Any] = {"file": self.name, "verdict": self.verdict}
        if self.mark is None:
            return document | {"problem": self.problem}
        if assigned := self.mark.submission.assigned:
            document |= {"sheet": assigned.name, "seed": assigned.seed}
        document |= {"checked": self.mark.checked, "blank": self.mark.blank}
        document["not_read"] = [asdict(unread) for unread in self.unread]
        document["steps"] = {step.step: _step_dict(step) for step in self.mark.steps}
        if self.cell and self.cause:
            place = {"step": self.cell.step, "cell": self.mark.place(self.cell)}
            numbers = {"given": _finite(self.cell.given), "right": _finite(self.cell.right)}
            cause = {"kind": self.cause.kind, "text": self.cause.text, "note": self.cause.note}
            document["first_wrong"] = {**place, **numbers, "cause": cause}
        return document


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # −∞, which JSON does not have


def not_read(unread: Sequence[Unread]) -> str:
    """line 7 not read: 'as in the picture: 0.42' and 2 more; empty where all was read."""
    if not unread:
        return ""
    rest = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    return f"line {unread[0].line} not read: {quoted(unread[0].text)}{rest}"


def _step_dict(step: StepMark) -> dict[str, int]:
    checked, wrong = int(step.checked.sum()), int(step.wrong.sum())
    return {"checked": checked, "wrong": wrong, "blank": step.blank}


def grade_file(path: Path, assigned: Assigned | None = None) -> Graded:
    """Grade one file; one that cannot be read or judged comes back with its problem.

    `assigned` is the exercise of its sheet: what that gives must stand there unchanged, and a file
    with nothing else is not right yet.
    """
    name = printable(str(path))
    try:
        judged = mark(replace(read_submission(path), assigned=assigned))
    except InputError as error:
        return Graded(name, problem=str(error).removeprefix(f"{name}: "))
    return Graded(name, judged, explain(judged))


def figure(value: float, unit: float) -> str:
    """As precise as the number it stands beside; up to four decimals beside an exact one."""
    if math.isinf(value):
        return "−∞"
    if unit > 0:
        return f"{value:.{max(0, round(-math.log10(unit)))}f}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def full(graded: Graded) -> list[StyledLine]:
    """Step by step, then the first wrong cell with its row, its working and its cause."""
    judged = graded.mark
    if judged is None:
        return [[(f"{graded.name}: {graded.problem}", "")]]
    lines: list[StyledLine] = [[(graded.name, "bold")]]
    if assigned := judged.submission.assigned:
        lines.append([(f"    {assigned.name}, seed {assigned.seed}", "dim")])
    lines.append([])
    filled = judged.submission.filled
    taken = [s for s in judged.steps if s.right is None or (s.step in filled and not s.wrong.any())]
    names = [step.step for step in taken]
    lines += [[(f"    taken as given: {listed(names)}", "dim")]] if taken else []
    shown = [step for step in judged.steps if step.step not in names]
    width = max([9, *(len(step.step) + 1 for step in shown)])
    lines += [_step_line(judged, step, width) for step in shown]
    lines.append([])
    if graded.cell and graded.cause and judged.first_wrong:
        lines += _finding(judged, judged.first_wrong, graded.cell, graded.cause)
    else:
        lines += prose(closing(judged.verdict, judged.checked, judged.blank, "cell", _UNREAD))
    return lines + unread_lines(graded.unread)


def unread_lines(unread: Sequence[Unread]) -> list[StyledLine]:
    """Every line that was not read, with its number."""
    if not unread:
        return []
    lines = [[(f"    line {one.line}: ", "dim"), (_cut(one.text), "")] for one in unread]
    return [[], [("Not read:", "bold")], *lines]


def _cut(text: str) -> str:
    plain = printable(text)
    return plain if len(plain) <= _WIDEST_LINE else plain[: _WIDEST_LINE - 1] + "…"


def closing(verdict: str, checked: int, blank: int, word: str, unread: str) -> str:
    """How a file ends that has nothing wrong; `unread` says which lines were not understood, and
    how they would be."""
    if verdict == "not all read":
        return f"Not all read: {counted(checked, word)} checked and right, but {unread}"
    if verdict == "right" and not blank:
        return f"All right: {counted(checked, word)} checked."
    if verdict == "right":
        return f"Right so far: {counted(checked, word)} checked, {blank} blank."
    if verdict == "nothing filled in":
        return f"Nothing filled in: {counted(blank, word)} to go."
    return f"Nothing to check: {_UNLINKED}."


def counted(number: int, word: str) -> str:
    """1 cell, 2 cells."""
    return f"{number} {word}{'s' * (number != 1)}"


def _step_line(judged: Mark, step: StepMark, width: int) -> StyledLine:
    checked, wrong = int(step.checked.sum()), int(step.wrong.sum())
    sign, style = ("✗", "bold red") if wrong else ("✓", "green") if checked else ("–", "dim")
    counts = f"{wrong} of {checked} wrong" if wrong else f"{checked} right" if checked else ""
    blank = f"{step.blank} blank" if step.blank else ""
    unread = f"{step.printed.unread} not read" if step.printed.unread else ""
    said = ", ".join(part for part in (counts, blank, unread) if part)
    return [
        (f"  {sign} ", style),
        (f"{step.step:<{width}}", "bold" if wrong else ""),
        (f"{said:<26}", ""),
        (_rule(judged, step.step), "dim"),
    ]


def _rule(judged: Mark, step: str) -> str:
    return {
        "scores": "Q · Kᵀ",
        "scaled": f"scores ÷ √{judged.d_k}",
        "masked": "scaled, −∞ for keys after the query",
        "weights": "softmax along each row" + (", causal" if judged.causal else ""),
        "output": "weights · V",
        **dict.fromkeys(judged.submission.filled, "as the exercise gives it"),
    }.get(step, f"embeddings · w_{step.lower()}")


def _finding(judged: Mark, step: StepMark, cell: Cell, cause: Cause) -> list[StyledLine]:
    where = f"Wrong first at {_TITLES[step.step]} ({step.step}): {judged.place(cell)}"
    is_given = step.step in judged.submission.filled
    right, working = figure(cell.right, cell.unit), "" if is_given else spelt_out(judged, cell)
    lines = wrong_first(where, figure(cell.given, cell.unit), right, cause.text, is_given)
    lines[3].append((f"  {working}" if working else "", "dim"))
    lines[4:4] = [] if is_given else _whole_row(judged, step, cell)
    return [*lines, *prose(cause.note), *prose(_follow_up(judged, step))]


def wrong_first(where: str, given: str, right: str, cause: str, is_given: bool) -> list[StyledLine]:
    """Where it is wrong, both numbers and the cause; `is_given`: the sheet's own numbers."""
    named = ("    given         ", "    the exercise  ") if is_given else _BESIDE
    return [
        [(where, "bold")],
        [],
        [(named[0], "dim"), (given, "red")],
        [(named[1], "dim"), (right, "green")],
        [],
        [("Cause: ", "bold"), (f"{cause}.", "")],
    ]


def _follow_up(judged: Mark, step: StepMark) -> str:
    """What became of the steps after the first wrong one, each judged by what stands before it."""
    if step.step in judged.submission.filled:
        return ""
    later = judged.steps[judged.steps.index(step) + 1 :]
    wrong = [other.step for other in later if other.wrong.any()]
    if wrong:
        return f"Wrong also by the numbers given before them: {listed(wrong)}."
    return "The later steps follow from this one." if any(s.checked.any() for s in later) else ""


def _whole_row(judged: Mark, step: StepMark, cell: Cell) -> list[StyledLine]:
    """The row of the wrong cell, as given and as it should be."""
    width = step.printed.values.shape[1]
    if step.right is None or not 1 < width <= _WIDEST_ROW:
        return []
    given = [figure(v, u) if v == v else "?" for v, u in _row(step, cell, step.printed.values)]
    right = [figure(v, u) if v == v else "?" for v, u in _row(step, cell, step.right.value)]
    wide = max(map(len, given + right))
    lines: list[StyledLine] = [[], [(f"    the row of {judged.token(cell.row)}", "dim")]]
    for name, texts in (("given", given), ("right", right)):
        lines.append([(f"    {name}  ", "dim"), (" ".join(text.rjust(wide) for text in texts), "")])
    return lines


def _row(step: StepMark, cell: Cell, values: Any) -> list[tuple[float, float]]:
    units = step.printed.units[cell.row]
    finest = float(units[units > 0].min()) if (units > 0).any() else 0.0
    return [(float(value), finest) for value in values[cell.row]]


def spelt_out(judged: Mark, cell: Cell) -> str:
    """The working of one cell: = 0.4223·1 + 0.1554·0 + 0.4223·1; empty where it is too long."""
    known = {name: band.value for name, band in judged.known.items()}
    row, column = cell.row, cell.column
    if cell.step == "scaled":
        return f"= {_shown(known['scores'][row, column])} ÷ √{judged.d_k}"
    if cell.step == "masked":
        return ""
    if cell.step == "weights":
        scores = known["masked" if judged.causal else "scaled"][row]
        terms = [f"e^{_shown(s)}" for s in scores]
        text = f"= {terms[column]} ÷ ({' + '.join(terms)})"
    else:
        left, right = _factors(cell.step, known)
        pairs = zip(left[row], right[:, column], strict=True)
        text = "= " + " + ".join(f"{_shown(a)}·{_shown(b)}" for a, b in pairs)
    return text if len(text) <= 60 else ""


def _factors(step: str, known: dict[str, Any]) -> tuple[Any, Any]:
    if step == "output":
        return known["weights"], known["V"]
    if step == "scores":
        return known["Q"], known["K"].T
    return known["embeddings"], known[f"w_{step.lower()}"]


def _shown(value: float) -> str:
    return factor(figure(float(np.round(value, 4)) + 0.0, 0.0))


def one_line(graded: Graded, name_width: int) -> StyledLine:
    """One file of many."""
    row = graded.as_row()
    problem = _UNLINKED if graded.verdict == "nothing to check" else graded.problem
    if graded.verdict == "not all read":
        problem = not_read(graded.unread)
    detail = f": {problem}" if problem else ""
    if row["step"]:
        is_given = row["step"] in (graded.mark.submission.filled if graded.mark else ())
        beside = "the exercise has" if is_given else "right"
        numbers = f"given {row['given']}, {beside} {row['right']}"
        detail = f" at {row['step']}: {row['cell']}, {numbers}; {row['cause']}"
    elif graded.mark and graded.mark.checked and not problem:
        blank = f", {graded.mark.blank} blank" if graded.mark.blank else ""
        detail = f"  {counted(graded.mark.checked, 'cell')} checked{blank}"
    return graded.in_a_line(f"{row['file']:<{name_width}}", detail)


def tally(results: Sequence[Outcome]) -> str:
    """How many of each verdict: 2 right, 1 wrong."""
    counts = {verdict: sum(counted_as(g) == verdict for g in results) for verdict in _CODES}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
