"""The two ways a hand calculation is written, JSON and Markdown, and the reader of JSON."""

from __future__ import annotations

import json
from typing import Any

from regard.errors import InputError
from regard.learn.grading.blocks import (
    KNOWN,
    REMARKS,
    STEP_OF,
    Block,
    Draft,
    Unread,
    key_of,
    unknown_step,
)
from regard.learn.grading.markdown import read_markdown
from regard.learn.text import listed, quoted


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
