"""The two ways a hand calculation is written, JSON and Markdown, read into named rows of text.

Nothing here knows what a number means: cells stay text, so that 0.50 keeps its two places.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from regard.errors import InputError
from regard.learn.text import quoted

__all__ = ["STEPS", "Block", "Draft", "bare", "is_blank", "is_number", "read_draft", "step_named"]

STEPS = (
    "embeddings", "w_q", "w_k", "w_v", "Q", "K", "V", "scores", "scaled", "weights", "output",
)  # fmt: skip
_KNOWN = ("tokens", *STEPS, "d_k")
_OTHER_NAMES = {
    "tokens": "token words sentence sequence inputsequence",
    "embeddings": "embedding tokenembedding tokenembeddings inputembeddings x e",
    "Q": "query queries queryvectors",
    "K": "key keys keyvectors",
    "V": "value values valuevectors",
    "scores": "score attentionscores rawscores qkt qkᵀ computeattentionscores",
    "scaled": "scaledscores scaling scaledattentionscores",
    "weights": "weight attentionweights softmax applysoftmax",
    "output": "outputs context contextualembedding contextualembeddings attentionoutput "
    "weightedsum weightedsumofvalues",
}
_REMARKS = {"student", "title", "note"}


def _key(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_STEP_OF = {
    key: step for step in _KNOWN for key in (_key(step), *_OTHER_NAMES.get(step, "").split())
}


def step_named(text: str) -> str | None:
    """The step a heading means: "3. Scores (QKᵀ):" is scores; None where it means none."""
    text = re.sub(r"^ *(?:step *)?\d+ *[.):]", "", text, flags=re.IGNORECASE)
    forms = (text, re.split(r"[(:=,]| [-–—] ", text)[0])
    return next((_STEP_OF[_key(form)] for form in forms if _key(form) in _STEP_OF), None)


@dataclass
class Block:
    """The rows of one step, each with its label where it has one, and the columns' headings."""

    step: str
    columns: list[str] = field(default_factory=list)
    rows: list[tuple[str | None, list[str]]] = field(default_factory=list)


@dataclass
class Draft:
    """All that a text says."""

    tokens: list[str] = field(default_factory=list)
    d_k: str | None = None
    blocks: list[Block] = field(default_factory=list)


def read_draft(text: str, *, as_json: bool = False) -> Draft:
    """JSON where asked for or where the text starts with {, Markdown otherwise."""
    if as_json or text.lstrip().startswith("{"):
        draft = _read_json(text)
    else:
        draft = _Markdown(text).draft
    if not draft.blocks:
        raise InputError(f"has no steps in it; name at least one of {', '.join(_KNOWN)}")
    return draft


def _unknown(name: str) -> InputError:
    return InputError(f"unknown step {quoted(name)}; known are {', '.join(_KNOWN)}")


class _Object(list[tuple[str, Any]]):
    """A JSON object as pairs, so that a sentence may contain a word twice."""


def _read_json(text: str) -> Draft:
    draft = Draft()
    seen: set[str | None] = set()
    for name, value in _document(text):
        step = _STEP_OF.get(_key(name))
        if step is None and _key(name) not in _REMARKS:
            raise _unknown(name)
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
    elif step is not None:
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


_ROW = re.compile(r"(\[[^\[\]]*\])")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\d+ ?/ ?\d+")
_BLANK = re.compile(r"[\s?_\-–—.…]*")


def is_number(text: str) -> bool:
    """Whether the text is written as a decimal or a fraction."""
    return _NUMBER.fullmatch(text) is not None


def is_blank(text: str) -> bool:
    """Whether a cell was left open: nothing, `?`, `__`, `…`, or a dash."""
    return _BLANK.fullmatch(text) is not None


def bare(text: str) -> str:
    """Without emphasis, code and mathematics marks; a minus becomes a hyphen."""
    return re.sub(r"\*+|[`$]|__(?=\w)|(?<=\w)__", "", text).replace("−", "-").strip()


class _Markdown:
    """Reads line by line; `step` is what the numbers met next belong to."""

    def __init__(self, text: str) -> None:
        self.draft = Draft()
        self.step: str | None = None
        self.heading = ""
        self.table: list[list[str]] = []
        for raw in [*text.splitlines(), ""]:
            line = re.sub(r"\\([\[\]_*])", r"\1", " ".join(raw.split()).lstrip("> "))
            if line.startswith("|"):
                self.table.append([bare(cell) for cell in line[1:].removesuffix("|").split("|")])
                continue
            self._close_table()
            if line and not line.startswith("```"):
                self._read(line)

    def _read(self, line: str) -> None:
        if line.startswith("#"):
            self._open(bare(line.strip("# ")))
            return
        line = bare(re.sub(r"^(?:[-*+]|\d+[.)]) ", "", line))
        name, _, rest = line.replace("=", ":", 1).partition(":")
        step = step_named(name)
        if step in ("tokens", "d_k") and rest.strip():
            self._name(step, rest.strip())
        elif self.step == "tokens" and not self.draft.tokens and not step:
            self._name("tokens", line)
        elif step and not rest.strip():
            self._open(name)
        else:
            self._numbers(line)

    def _open(self, heading: str) -> None:
        self.step, self.heading = step_named(heading), heading

    def _name(self, step: str, text: str) -> None:
        if step == "d_k":
            self.draft.d_k = text
        else:
            words = text.strip("[]() ").split("," if "," in text else None)
            self.draft.tokens = [word.strip("\"' ") for word in words if word.strip()]

    def _numbers(self, line: str) -> None:
        """`[1 0] [0 1]`, `The = [1 0]`, or a sum whose result stands last; all else is prose."""
        pieces = _ROW.split(line)
        *before, after = [text.strip(" ,;.[]") for text in pieces[0::2]]
        rows = pieces[1::2]
        if not rows or after:
            return
        if all(re.fullmatch(r"(?:[^=:]+[=:])?", text) for text in before):
            for text, row in zip(before, rows, strict=True):
                self._add(text[:-1].strip() or None, row)
        elif before[-1].endswith(("=", "≈")):
            self._add(re.split(r"[=:]", before[0])[0].strip() or None, rows[-1])

    def _add(self, label: str | None, matrix: str) -> None:
        is_row = self.step in STEPS and label in self.draft.tokens
        if label is not None and not is_row and (step := step_named(label)) in STEPS:
            self.step, label = step, None
        if self.step not in STEPS and not re.search(r"\d", matrix):
            return
        block = self._block(label or self.heading)
        for row in matrix.strip("[]").split(";"):
            cells = [cell.strip() for cell in row.split(",")] if "," in row else row.split()
            block.rows.append((label, cells[:-1] if cells and not cells[-1] else cells))

    def _block(self, name: str) -> Block:
        if self.step not in STEPS and name:
            raise _unknown(name)
        if self.step not in STEPS:
            raise InputError("has numbers before any step is named; put '## weights' above them")
        if not self.draft.blocks or self.draft.blocks[-1].step != self.step:
            self.draft.blocks.append(Block(str(self.step)))
        return self.draft.blocks[-1]

    def _close_table(self) -> None:
        table, self.table = self.table, []
        if not table or (self.step not in STEPS and not any(map(_has_number, table))):
            return
        ruled = len(table) > 1 and all(re.fullmatch(r":?-+:?", cell) for cell in table[1])
        head = table[0] if ruled else []
        body = table[2:] if ruled else table
        if head and all(map(is_number, head)):  # Markdown forces a heading onto every table
            head, body = [], [head, *body]
        words = [not is_number(line[0]) and not is_blank(line[0]) for line in body]
        labelled = any(words) or bool(head and not head[0])
        block = self._block(self.heading)
        block.columns = head[1:] if labelled else head
        for line in body:
            block.rows.append((line[0], line[1:]) if labelled else (None, line))


def _has_number(line: list[str]) -> bool:
    return any(map(is_number, line))
