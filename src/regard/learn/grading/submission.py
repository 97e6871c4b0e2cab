"""A hand calculation, with the precision it was printed with.

A step is a name and a matrix. In JSON: {"tokens": [...], "weights": [[0.42, 0.16, 0.42], null]}
or {"weights": {"The": [0.42, 0.16, 0.42]}}. In Markdown: a heading or a bold name, then rows in
one of the spellings of lines.py:

    ## weights
    The = [0.42 0.16 0.42]

Any subset of steps, rows and cells may be given; blank, `?` and null are cells not given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.grading.blocks import (
    KNOWN,
    REMARKS,
    STEP_OF,
    STEPS,
    Block,
    Draft,
    Unread,
    key_of,
    unknown_step,
)
from regard.learn.grading.cells import read_number
from regard.learn.grading.markdown import read_markdown
from regard.learn.text import listed, printable, quoted, read_text

_COLUMNS_ARE_TOKENS = ("scores", "scaled", "masked", "weights")
_MAY_BE_HIDDEN = ("scores", "scaled", "masked")  # −∞, before the softmax
_MAX_MIB = 1
_NUMBERED = re.compile(r"(?:[^\W\d_]|row|token)[ _]?\{?([0-9]{1,3})\}?")  # q_1, x2, row 3
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Printed:
    """A matrix as printed: NaN where a cell was left blank, and one unit in the last place.

    A unit of 0 is an exact number: a fraction, or a whole number among whole numbers. `unread`
    cells are NaN, too: something stands there, but no number.
    """

    values: Array
    units: Array
    unread: int = 0


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Assigned:
    """The exercise a sheet is about: what it gives, and what it asks for."""

    name: str  # exercise, or step softmax
    seed: int
    given: dict[str, Array]
    asked: dict[str, tuple[int, int]]  # the sizes of its steps


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Submission:
    """What one file says. `tokens` is empty where the file names none."""

    tokens: tuple[str, ...]
    steps: dict[str, Printed]
    d_k: int | None = None
    causal: bool = False
    unread: tuple[Unread, ...] = ()
    assigned: Assigned | None = None  # of a sheet that `regard learn --exercise` made

    @property
    def filled(self) -> tuple[str, ...]:
        """Steps that were filled in on the sheet, before anyone worked on it."""
        return tuple(self.assigned.given) if self.assigned else ()


def read_submission(path: Path) -> Submission:
    """Read one file. Whatever is wrong with it is one InputError that names the file."""
    text = read_text(path, mib=_MAX_MIB, wanted="a .md or .json file with one hand calculation")
    try:
        return parse_submission(text, as_json=path.suffix.lower() == ".json")
    except InputError as error:
        raise InputError(f"{printable(str(path))}: {error}") from None


def parse_submission(text: str, *, as_json: bool = False) -> Submission:
    """Read a text; one that starts with { is JSON whatever `as_json` says."""
    draft = read_draft(text, as_json=as_json)
    finder = _Finder.of(draft.tokens, draft.blocks)
    steps, unread = {}, draft.unread
    for step in STEPS:
        blocks = [block for block in draft.blocks if block.step == step]
        if blocks and not _has_gap(draft, step, len(finder.tokens)):
            matrix = _Matrix(step, blocks, finder)
            steps[step] = matrix.printed()
            unread = [*unread, *matrix.unread]
    if draft.d_k is not None and not re.fullmatch(r"[1-9]\d{0,5}", draft.d_k):
        raise InputError(f"d_k must be a whole number of 1 or more; got {quoted(draft.d_k)}")
    d_k = int(draft.d_k) if draft.d_k else None
    return Submission(finder.tokens, steps, d_k, draft.causal, tuple(sorted(unread, key=_line)))


def _line(unread: Unread) -> int:
    return unread.line


def _has_gap(draft: Draft, step: str, tokens: int) -> bool:
    """Whether a line that was not read may have been a row, so that those after it have moved."""
    if step.startswith("w_") or step not in {unread.step for unread in draft.unread}:
        return False
    rows = {block.step: 0 for block in draft.blocks}
    for block in draft.blocks:
        rows[block.step] += len(block.rows)
    by_token = tokens or max(n for name, n in rows.items() if not name.startswith("w_"))
    own = [row for block in draft.blocks if block.step == step for row in block.rows]
    unnamed = any(not label for label, _ in own)
    return unnamed and rows[step] < by_token


@dataclass(frozen=True)
class _Finder:
    """Looks rows and columns up by token. Only `declared` tokens forbid other labels."""

    tokens: tuple[str, ...]
    declared: bool

    @classmethod
    def of(cls, tokens: Sequence[str], blocks: Sequence[Block]) -> _Finder:
        """The tokens listed, or else the row labels of the step that has most of them."""
        if tokens:
            return cls(tuple(map(printable, tokens)), declared=True)
        labelled = [
            tuple(printable(label or "") for label, _ in block.rows)
            for block in blocks
            if not block.step.startswith("w_") and all(label for label, _ in block.rows)
        ]
        return cls(max(labelled, key=len, default=()), declared=False)

    def places(self, labels: Sequence[str | None]) -> list[int] | None:
        """An index per label, the next one where there is no label; None where one is no token."""
        places: list[int] = []
        for label in labels:
            following = places[-1] + 1 if places else 0
            place = self._place(label, places) if label else following
            if place is None:
                return None
            places.append(place)
        return places

    def _place(self, label: str, taken: Sequence[int]) -> int | None:
        """A word that comes twice is found twice, in order. `E_{The}` is The."""
        tail = label.rpartition("_")[2].strip("{} ")
        for wanted in (label, label.casefold(), tail.casefold()):
            found = [
                i for i, token in enumerate(self.tokens) if wanted in (token, token.casefold())
            ]
            if found:
                return next((i for i in found if i not in taken), found[-1])
        number = _NUMBERED.fullmatch(label.translate(_SUBSCRIPTS))
        place = int(number[1]) - 1 if number else -1
        return place if 0 <= place < len(self.tokens) else None


class _Matrix:
    """One step's rows of text on their way to their places in a matrix of numbers."""

    def __init__(self, step: str, blocks: Sequence[Block], finder: _Finder) -> None:
        self.step, self.finder = step, finder
        self.unread: list[Unread] = []
        rows = [row for block in blocks for row in block.rows]
        self.lines = [line for block in blocks for line in block.lines or [0] * len(block.rows)]
        self.labels = [printable(label) if label else None for label, _ in rows]
        self.cells = [self._numbers(i, texts) for i, (_, texts) in enumerate(rows)]
        self._join_repeated()
        self.headings = blocks[0].columns
        lengths = [len(row) for row in self.cells if row]
        self.width = max(lengths, default=0)
        if min(lengths, default=0) != self.width:
            counts = listed([str(length) for length in lengths])
            raise InputError(f"{step} is ragged: its rows have {counts} cells; give all the same")

    def _numbers(self, index: int, texts: Sequence[str]) -> list[tuple[float, float]]:
        try:
            cells = [self._number(self.lines[index], text) for text in texts]
            if self.step not in _MAY_BE_HIDDEN and any(np.isinf(value) for value, _ in cells):
                raise InputError("−∞ is not a number to grade; a mask puts it into masked scores")
            return cells
        except InputError as error:
            row = self.labels[index] or f"row {index + 1}"
            raise InputError(f"{self.step}, {row}: {error}") from None

    def _number(self, line: int, text: str) -> tuple[float, float]:
        """A cell; one that is no number is blank and noted, where a line can be named."""
        try:
            return read_number(text)
        except InputError:
            if not line:
                raise
            self.unread.append(Unread(line, self.step, text))
            return np.nan, 0.0

    def _join_repeated(self) -> None:
        """Rows of a matrix that are written out again below it; where they differ, an error."""
        first = next((i for i, label in enumerate(self.labels) if label), len(self.labels))
        tokens = 0 if self.step.startswith("w_") else len(self.finder.tokens)
        whole = first if not tokens else min(first, tokens)  # rows of the matrix above
        if whole < 2 or (tokens and first % tokens and first > tokens):
            return
        kept = list(range(whole))
        for row in range(whole, len(self.labels)):
            place = self._repeats(row, whole, tokens)
            if place is None:
                kept.append(row)
                continue
            self.cells[place] = [
                mine if mine[0] == mine[0] else again
                for mine, again in zip(self.cells[place], self.cells[row], strict=True)
            ]
        self.labels, self.lines = [self.labels[i] for i in kept], [self.lines[i] for i in kept]
        self.cells = [self.cells[i] for i in kept]

    def _repeats(self, row: int, whole: int, tokens: int) -> int | None:
        """The row of the matrix that this one writes out again; None where it is another."""
        label = self.labels[row]
        found = self.finder.places([label]) if label and tokens else None
        places = found or (range(whole) if label else [row % whole])
        if (found and found[0] >= whole) or (not label and whole < tokens):
            return None
        same = [p for p in places if _agree(self.cells[p], self.cells[row])]
        if not same:
            name = label or f"row {places[0] + 1}"
            line = f", line {self.lines[row]}" if self.lines[row] else ""
            raise InputError(
                f"{self.step}{line}: {name} differs from the matrix above it; give it once"
            )
        return same[0]

    def printed(self) -> Printed:
        """The matrix; rows and columns that were not given are blank."""
        rows, columns = self._rows(), self._columns()
        by_token = len(self.finder.tokens) if not self.step.startswith("w_") else 0
        height = max(by_token, *(place + 1 for place in rows)) if rows else by_token
        if self.finder.declared and by_token and height > by_token:
            raise InputError(f"{self.step} has {height} rows for {by_token} tokens")
        values = np.full((height, max(columns, default=-1) + 1), np.nan)
        units = np.zeros_like(values)
        for place, row in zip(rows, self.cells, strict=True):
            for column, (value, unit) in zip(columns, row, strict=False):
                values[place, column], units[place, column] = value, unit
        return Printed(values, whole_numbers(units), len(self.unread))

    def _rows(self) -> list[int]:
        positions = list(range(len(self.labels)))
        if self.step.startswith("w_") or not self.finder.tokens:
            return positions
        places = self.finder.places(self.labels)
        if places is None and not self.finder.declared:
            return positions
        if places is None:
            strange = next(label for label in self.labels if self.finder.places([label]) is None)
            raise InputError(
                f"{self.step} has a row {quoted(str(strange))}, which is not a token; "
                f"they are {listed(self.finder.tokens)}"
            )
        for row, place in enumerate(places):
            before = places.index(place)
            if before < row and not _agree(self.cells[before], self.cells[row]):
                line = f" (line {self.lines[row]})" if self.lines[row] else ""
                raise InputError(
                    f"{self.step} has the row of {self.finder.tokens[place]} twice, and the "
                    f"second{line} differs"
                )
        return places

    def _columns(self) -> list[int]:
        """Scores and weights may list their columns in any order, or only some of them."""
        if self.step in _COLUMNS_ARE_TOKENS and len(self.headings) == self.width:
            places = self.finder.places(self.headings)
            if places and len(set(places)) == self.width:
                return [*places]
        return list(range(self.width))


def _agree(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> bool:
    """Whether two rows are the same, each as precise as it was printed; blanks agree."""
    return len(one) == len(other) and all(
        np.isnan([a, b]).any() or abs(a - b) <= np.nan_to_num([mine, yours]).max() + 1e-9
        for (a, mine), (b, yours) in zip(one, other, strict=True)
    )


def whole_numbers(units: Array) -> Array:
    """A whole number is as fine as the decimals of its row, else of its matrix; else exact."""
    decimals = np.where(units > 0, units, np.inf)
    row = np.broadcast_to(decimals.min(axis=1, keepdims=True, initial=np.inf), units.shape)
    finest = np.where(np.isfinite(row), row, decimals.min(initial=np.inf))
    return np.where(np.isnan(units), np.where(np.isfinite(finest), finest, 0.0), units)


def read_draft(text: str, *, as_json: bool = False) -> Draft:
    """JSON where asked for or where the text starts with {, Markdown otherwise."""
    is_json = as_json or text.lstrip().startswith("{")
    draft = _read_json(text) if is_json else read_markdown(text)
    if not draft.blocks:
        problem = f"has no steps in it; name at least one of {', '.join(KNOWN)}"
        raise InputError(f"{problem}{_lines(draft.unread)}")
    return draft


def _lines(unread: list[Unread]) -> str:
    places = [f"line {one.line} ({quoted(one.text)})" for one in unread]
    return f"; not read: {listed(places, 3)}" if places else ""


class _Object(list[tuple[str, Any]]):
    """A JSON object as pairs, so that a sentence may contain a word twice."""


def _read_json(text: str) -> Draft:
    draft = Draft()
    seen: set[str | None] = set()
    for name, value in _document(text):
        step = STEP_OF.get(key_of(name))
        if step is None and key_of(name) not in REMARKS:
            raise unknown_step(name)
        if step is not None and step in seen:
            raise InputError(f"{step} is given twice; give it once")
        seen.add(step)
        _add_json(draft, step, value)
    return draft


def _document(text: str) -> _Object:
    def refuse(constant: str) -> Any:
        raise InputError(f"{constant} is not a number to grade; leave the cell null")

    try:
        document = json.loads(
            text, parse_float=str, parse_int=str, parse_constant=refuse, object_pairs_hook=_Object
        )
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON (line {error.lineno}: {error.msg})") from None
    except RecursionError:
        raise InputError("is nested too deeply; a step is a list of rows") from None
    if not isinstance(document, _Object):
        raise InputError('must be one JSON object, as in {"weights": [[0.5, 0.5]]}')
    return document


def _add_json(draft: Draft, step: str | None, value: Any) -> None:
    if step == "tokens":
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise InputError('tokens must be a list of words, as in ["The", "cat", "sat"]')
        draft.tokens = value
    elif step == "d_k":
        draft.d_k = str(value)
    elif step == "causal":
        if not isinstance(value, bool):
            raise InputError("causal must be true or false")
        draft.causal = draft.causal or value
    elif step is not None:
        draft.causal = draft.causal or step == "masked"
        draft.blocks.append(Block(step, rows=_json_rows(step, value)))


def _json_rows(step: str, value: Any) -> list[tuple[str | None, list[str]]]:
    if isinstance(value, _Object):
        return [(label, _json_cells(step, row)) for label, row in value]
    if not isinstance(value, list):
        raise InputError(f"{step} must be a list of rows, or an object of token: row")
    if value and not any(isinstance(row, list) for row in value):
        return [(None, _json_cells(step, value))]
    return [(None, _json_cells(step, row)) for row in value]


def _json_cells(step: str, row: Any) -> list[str]:
    if row is None:
        return []
    if not isinstance(row, list) or isinstance(row, _Object):
        raise InputError(f"a row of {step} must be a list of numbers; got {quoted(str(row))}")
    for cell in row:
        if not isinstance(cell, str | None):
            raise InputError(f"a cell of {step} must be a number or null; got {quoted(str(cell))}")
    return [cell or "" for cell in row]
