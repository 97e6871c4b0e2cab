"""A judged worksheet in words: in full, as a line or a row; and which grader a file needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.grading.blocks import Unread
from regard.learn.grading.exercise import assigned
from regard.learn.grading.report import (
    COLUMNS,
    Graded,
    Outcome,
    closing,
    counted,
    figure,
    grade_file,
    not_read,
    unread_lines,
    wrong_first,
)
from regard.learn.text import StyledLine, printable, prose, read_text
from regard.learn.worksheets.judge import Answer, Changed, first_changed, judge
from regard.learn.worksheets.question import LATER_STEPS
from regard.learn.worksheets.sheet import ONE_HEAD, named_in, shortest

_CODE = "grading of code was retired; give a hand calculation, as a .md or .json file"
_LAB = (
    "a sheet of the lab {}; lab sheets were retired, and exercises are graded, such as those of "
    "regard learn --exercise 7 --step softmax"
)
_CHANGED = "a number that the sheet gives was changed"
_BY_THE_SEED = "The answers are judged by the exercise's own numbers, those of its seed."
_UNREAD = "the lines below were not understood. Write an answer as rows, such as [0.42 0.58]."


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class GradedSheet(Outcome):
    """One worksheet: its file, what it is called, and every answer."""

    name: str
    sheet: str
    seed: int
    answers: tuple[Answer, ...]
    changed: Changed | None = None  # what the sheet gives, where its numbers are others

    @property
    def first_wrong(self) -> Answer | None:
        """The first answer that is wrong."""
        return next((answer for answer in self.answers if answer.cause), None)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """The lines that could not be read."""
        return tuple(one for answer in self.answers for one in answer.unread)

    @property
    def checked(self) -> int:
        """How many numbers were compared."""
        return sum(answer.checked for answer in self.answers)

    @property
    def blank(self) -> int:
        """How many numbers are missing."""
        return sum(answer.blank for answer in self.answers)

    @property
    def problem(self) -> str:
        """Empty: what can be named can be graded."""
        return ""

    @property
    def verdict(self) -> str:
        """wrong, not all read, right, or nothing filled in."""
        if self.first_wrong or self.changed:
            return "wrong"
        if self.unread:
            return "not all read"
        return "right" if self.checked else "nothing filled in"

    @property
    def is_partial(self) -> bool:
        """Whether numbers are missing."""
        return bool(self.blank)

    @property
    def first_mistake(self) -> tuple[str, str] | None:
        """Question and kind of cause of what is wrong first, without any number of the file."""
        if self.changed:
            return f"{self.sheet}, givens", "given-changed"
        wrong = self.first_wrong
        return (self._place(wrong), wrong.cause.kind) if wrong and wrong.cause else None

    def _place(self, answer: Answer) -> str:
        return f"{self.sheet}, answer {answer.number}"

    def as_row(self) -> dict[str, str]:
        """One text per column of the table."""
        row = dict.fromkeys(COLUMNS, "") | {"file": self.name, "verdict": self.verdict}
        row |= {"checked": str(self.checked), "blank": str(self.blank)}
        row["cause"] = not_read(self.unread)
        wrong = self.first_wrong
        if self.changed:
            row |= {"step": f"{self.sheet}, {self.changed.place}", "cause": _CHANGED}
            row |= {"given": self.changed.given, "right": self.changed.right}
        elif wrong and wrong.cause:
            given, right = _numbers(wrong)
            row |= {"step": self._place(wrong), "cause": wrong.cause.text, "cell": _cell(wrong)}
            row |= {"given": given, "right": right}
        return row

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON, with every question."""
        document: dict[str, Any] = {
            "file": self.name, "verdict": self.verdict, "sheet": self.sheet, "seed": self.seed,
            "checked": self.checked, "blank": self.blank,
            "not_read": [{"line": u.line, "step": u.step, "text": u.text} for u in self.unread],
            "steps": {f"answer {a.number}": _counts(a) for a in self.answers},
        }  # fmt: skip
        wrong = self.first_wrong
        if self.changed:
            row = self.as_row()
            document["first_wrong"] = {
                **{name: row[name] for name in ("step", "cell", "given", "right")},
                "cause": {"kind": "given-changed", "text": _CHANGED, "note": _BY_THE_SEED},
            }
        elif wrong and wrong.cause:
            given, right = _numbers(wrong)
            cause = {"kind": wrong.cause.kind, "text": wrong.cause.text, "note": ""}
            document["first_wrong"] = {
                "step": self._place(wrong), "cell": _cell(wrong), "given": given, "right": right,
                "cause": cause,
            }  # fmt: skip
        return document

    def full(self) -> list[StyledLine]:
        """Every question, then the first wrong one with its cause."""
        lines: list[StyledLine] = [
            [(self.name, "bold")], [(f"    {self.sheet}, seed {self.seed}", "dim")], [],
            *(_line(answer) for answer in self.answers), [],
        ]  # fmt: skip
        wrong = self.first_wrong
        if self.changed:
            where = f"Wrong first at what the sheet gives ({self.changed.place})"
            both = self.changed.given, self.changed.right
            lines += [*wrong_first(where, *both, _CHANGED, True), *prose(_BY_THE_SEED)]
        elif wrong and wrong.cause and wrong.given:
            where = f"Wrong first at answer {wrong.number} ({wrong.question.name})"
            both = _all(wrong.given.values), _all(wrong.right.value)
            lines += wrong_first(where, *both, wrong.cause.text, False)
        else:
            lines += prose(closing(self.verdict, self.checked, self.blank, "number", _UNREAD))
        return lines + unread_lines(self.unread)

    def one_line(self, width: int) -> StyledLine:
        """One file of many."""
        row = self.as_row()
        detail = f"  {self.sheet}, seed {self.seed}: {counted(self.checked, 'number')} checked"
        detail += f", {self.blank} blank" if self.blank else ""
        if row["step"]:
            cell = f"{row['cell']}, " if row["cell"] else ""
            beside = "the exercise has" if self.changed else "right"
            numbers = f"{cell}given {row['given']}, {beside} {row['right']}"
            detail = f" at {row['step']}: {numbers}; {row['cause']}"
        elif self.unread:
            detail = f": {row['cause']}"
        elif not self.checked:
            detail = ""
        return self.in_a_line(f"{self.name:<{width}}", detail)


def _counts(answer: Answer) -> dict[str, int]:
    found = {"checked": answer.checked, "wrong": int(answer.cause is not None)}
    return found | {"blank": answer.blank}


def _line(answer: Answer) -> StyledLine:
    sign, style, said = "–", "dim", "blank"
    if answer.cause:
        sign, style, said = "✗", "bold red", "wrong"
    elif answer.unread:
        sign, style, said = "–", "dim", "not read"
    elif answer.checked:
        sign, style, said = "✓", "green", f"right{', in part' * bool(answer.blank)}"
    return [(f"  {sign} ", style), (f"answer {answer.number}  ", ""), (f"{said:<16}", ""),
            (answer.question.name.replace("_", " "), "dim")]  # fmt: skip


def _numbers(answer: Answer) -> tuple[str, str]:
    """The first wrong number and the right one; all of them where the sizes differ."""
    found = answer.first_wrong()
    if found:
        return figure(found.given, found.unit), figure(found.right, found.unit)
    given_all = answer.given.values if answer.given else np.zeros((1, 0))
    return _all(given_all), _all(answer.right.value)


def _cell(answer: Answer) -> str:
    found = answer.first_wrong()
    if not found:
        return ""
    number = f"number {found.column + 1}"
    return number if answer.right.shape[0] == 1 else f"row {found.row + 1}, {number}"


def _all(values: Array) -> str:
    """Rows in brackets; ? where nothing was given."""
    return " ".join("[" + " ".join(map(_one, row)) + "]" for row in values)


def _one(value: float) -> str:
    return "?" if math.isnan(value) else "−∞" if math.isinf(value) else shortest(value)


def grade_written(path: Path) -> Graded | GradedSheet:
    """Grade what was worked out by hand: a worksheet, an exercise, or any calculation."""
    name = printable(str(path))
    if path.suffix.lower() == ".py":
        return Graded(name, problem=_CODE)
    try:
        text = read_text(path, mib=1, wanted="a .md or .json file")
        kind, title, seed = named_in(text) or ("", "", 0)
        if kind == "lab":
            return Graded(name, problem=_LAB.format(title))
        if sheet := LATER_STEPS.get(title):
            answers, changed = judge(sheet, seed, text), first_changed(sheet, seed, text)
            return GradedSheet(name, f"step {title}", seed, tuple(answers), changed)
    except InputError:
        return grade_file(path)  # which says what is wrong with the file
    if not title:
        return grade_file(path)
    called = "exercise" if title == "all" else f"step {title}"
    return grade_file(path, assigned(seed, called, ONE_HEAD.get(title)))
