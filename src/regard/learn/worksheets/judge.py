"""A filled worksheet judged: each answer beside the right one, by the answers before it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.grading.bands import Band
from regard.learn.grading.blocks import Unread
from regard.learn.grading.causes import Cause, Suspect, causes_among
from regard.learn.grading.cells import bare, read_number
from regard.learn.grading.markdown import read_markdown
from regard.learn.grading.marking import Cell, StepMark
from regard.learn.grading.submission import Printed, whole_numbers
from regard.learn.languages import LANGUAGES
from regard.learn.worksheets.question import Facts, Question, Worksheet, plain
from regard.learn.worksheets.sheet import make_sheet

_PART = re.compile(r"^#+ *(question|answer) *([0-9]+)\W*$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Changed:
    """A part of the sheet whose numbers are not those of the exercise."""

    place: str
    given: str
    right: str


def first_changed(sheet: Worksheet, seed: int, text: str) -> Changed | None:
    """The first part with other numbers; one that was deleted is not missed."""
    own = _parts(text)
    asked = [_parts(make_sheet(seed, step=sheet.name, code=code).text) for code in LANGUAGES]
    for place in asked[0]:
        wanted = [page[place] for page in asked]
        given = own.get(place, [])
        if given and not any(_holds(given, numbers) for numbers in wanted):
            return Changed(place, _row(given[: len(wanted[0])]), _row(wanted[0]))
    return None


def _parts(text: str) -> dict[str, list[str]]:
    """The numbers of the matrices at the top and of every question."""
    parts: dict[str, list[str]] = {}
    place, is_open, fenced = "", False, False
    for line in text.splitlines():
        found = _PART.match(line.strip())
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif found:
            is_open, place = found[1].lower() == "question", f"question {found[2]}"
        elif is_open or (fenced and not place):
            parts.setdefault(place or "givens", []).extend(_NUMBER.findall(bare(line)))
    return parts


def _holds(given: list[str], wanted: list[str]) -> bool:
    """Whether the wanted numbers stand there in a row; working may stand around them."""
    last = len(given) - len(wanted)
    return any(given[at : at + len(wanted)] == wanted for at in range(last + 1))


def _row(numbers: list[str]) -> str:
    return " ".join(numbers)


_ANSWER = re.compile(
    r"^\W*(?:answer|antwort|答案) *([0-9]+)(?![0-9])\W*?(?:[:：=](.*))?$", re.IGNORECASE
)
_ANY_STEP = "## output\n"  # the reader wants the name of a step; which one does not matter


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Answer:
    """One question as it was answered. `cause` is set where the answer is wrong."""

    number: int
    question: Question
    right: Band
    given: Printed | None = None
    unread: tuple[Unread, ...] = ()
    cause: Cause | None = None

    @property
    def blank(self) -> int:
        """How many numbers are missing."""
        if self.given is None:
            return 0 if self.unread else self.right.value.size
        return int(np.isnan(self.given.values).sum())

    @property
    def checked(self) -> int:
        """How many numbers were compared."""
        return 0 if self.given is None else int((~np.isnan(self.given.values)).sum())

    def first_wrong(self) -> Cell | None:
        """The first wrong number; None where the sizes differ."""
        if self.cause is None or self.given is None or self.given.values.shape != self.right.shape:
            return None
        return next(_step(self.question, self.given, self.right).cells(), None)


def judge(sheet: Worksheet, seed: int, text: str) -> list[Answer]:
    """Every question of the sheet, in order."""
    known, sections = sheet.facts(seed), _sections(text)
    going_on = SimpleNamespace(**vars(known))  # with the answers as they were given
    answers: list[Answer] = []
    with np.errstate(all="ignore"):  # a given 0 may be divided by
        for number, question in enumerate(sheet.questions, 1):
            blank = Answer(number, question, _right(question, known, going_on))
            answers.append(_judged(blank, known, going_on, sections.get(number, "")))
    return answers


def _right(question: Question, known: Facts, going_on: Facts) -> Band:
    """From the answers given before, rounded as they are, or from those behind them."""
    mine, exact = question.answer(going_on), question.answer(known)
    return Band(mine, np.minimum(mine, exact), np.maximum(mine, exact))


def _judged(blank: Answer, known: Facts, going_on: Facts, text: str) -> Answer:
    question = blank.question
    given, unread = _read(question, text, blank.right.shape)
    if given is None:
        return replace(blank, unread=unread)
    answer = replace(blank, given=given, unread=unread)
    exact, mine = question.answer(known), question.answer(going_on)
    if given.values.shape == answer.right.shape:
        if not np.allclose(exact, mine, rtol=0, atol=0.05 * max(1.0, np.abs(exact).max())):
            # An earlier answer is wrong: what follows from it is right, and so is the true number.
            ways = (Band.around(mine), Band.around(exact))
            answer = replace(answer, right=min(ways, key=lambda w: _wrong(question, given, w)))
        if not np.isnan(given.values).any():
            setattr(going_on, question.name, plain(given.values))
        if not _wrong(question, given, answer.right):
            return answer
    return replace(answer, cause=_cause(answer, given, [going_on, known]))


def _step(question: Question, given: Printed, right: Band) -> StepMark:
    return StepMark(question.name, given, right, np.zeros(right.shape, bool))


def _wrong(question: Question, given: Printed, right: Band) -> int:
    return int(_step(question, given, right).wrong.sum())


def _cause(answer: Answer, given: Printed, ways: list[Facts]) -> Cause:
    """The slip that gives these numbers, in this question or in the size of the answer."""
    question, right = answer.question, answer.right
    slips = [(slip, wrong) for facts in ways for slip, wrong in question.slips_of(facts)]
    if given.values.shape != right.shape:
        for slip, wrong in slips:
            same = wrong.shape == given.values.shape
            if same and Band.around(wrong).allows(given).all():
                return Cause(slip.kind, slip.text)
        return Cause("wrong-size", f"{_size_of(given.values)} given, {_size_of(right.value)} asked")
    suspects = [Suspect(Cause(s.kind, s.text), Band.around(wrong)) for s, wrong in slips]
    minus = Band(-right.value, -right.high, -right.low)
    suspects += [
        Suspect(Cause("sign", "the sign is wrong"), minus, 0.05, cells_too=True),
        Suspect(Cause("decimal-point", "the decimal point is one place too far to the right"),
                right * 10.0, 0.05, cells_too=True),
        Suspect(Cause("decimal-point", "the decimal point is one place too far to the left"),
                right * 0.1, 0.05, cells_too=True),
    ]  # fmt: skip
    return causes_among(_step(question, given, right), right, suspects)[0]


def _size_of(numbers: Array) -> str:
    rows, columns = numbers.shape
    if rows == 1:
        return f"{columns} number{'s' * (columns != 1)}"
    return f"{rows} rows of {columns}"


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def _sections(text: str) -> dict[int, str]:
    """What stands under each "answer N", in front of it as many empty lines as lines before."""
    sections: dict[int, list[str]] = {}
    current: list[str] | None = None
    for at, line in enumerate(text.splitlines()):
        if found := _ANSWER.match(line.strip()):
            current = sections.setdefault(int(found[1]), [])
            current += [""] * (at - len(current)) + [found[2] or ""]
        elif line.lstrip().startswith("#"):
            current = None
        elif current is not None:
            current.append(line)
    return {number: "\n".join(lines) for number, lines in sections.items()}


def _read(
    question: Question, text: str, asked: tuple[int, ...]
) -> tuple[Printed | None, tuple[Unread, ...]]:
    """The numbers under one heading, and the lines that have some and were not understood."""
    if not re.search(r"[0-9½⅓⅔¼¾⅛∞]", text):
        return None, () if "?" in text else _words(question, text)
    rows: list[list[tuple[float, float]]] = []
    unread: list[Unread] = []
    try:
        draft = read_markdown(_ANY_STEP + text)
        unread = [one for one in draft.unread if not one.text.startswith("#")]
        cells = [row for block in draft.blocks for _, row in block.rows]
        rows = [[read_number(cell) for cell in row] for row in cells]
    except InputError:
        unread = _lines_with_numbers(text)
    unread = [Unread(one.line - 1, f"answer to {question.name}", one.text) for one in unread]
    if unread or not rows or len({len(row) for row in rows}) > 1:
        return None, tuple(unread or _lines_with_numbers(text, less=0))
    table = np.array(rows, dtype=np.float64)
    values, units = table[:, :, 0], whole_numbers(table[:, :, 1])
    if values.shape != asked and asked[0] == 1 and values.size == asked[1]:
        values, units = values.reshape(asked), units.reshape(asked)
    return Printed(values, units), ()


def _words(question: Question, text: str) -> tuple[Unread, ...]:
    """An answer in words alone is not blank."""
    lines = enumerate(text.splitlines(), 1)
    said = ((at, line.strip()) for at, line in lines if re.search(r"[^\W_]", line))
    return tuple(Unread(at, f"answer to {question.name}", line) for at, line in said)


def _lines_with_numbers(text: str, less: int = 1) -> list[Unread]:
    lines = enumerate(text.splitlines(), 1 + less)
    return [Unread(at, "", line.strip()) for at, line in lines if re.search("[0-9]", line)]
