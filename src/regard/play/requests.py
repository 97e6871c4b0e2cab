"""The body of a request that asks for a reading: JSON, read strictly and bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from regard.play.state import CutEdge
from regard.viewer.questions import UnreadableError

MOST_BYTES: Final = 2**21
_MOST: Final = 4096  # of heads, edges, tokens
_LONGEST: Final = 64  # letters of a label
_KNOWN: Final = {"text", "pair", "sound", "more", "heads", "edges"}


@dataclass(frozen=True)
class ReadRequest:
    """A text, tokens behind it, and what is switched off."""

    text: str = ""
    pair: str = ""
    sound: str = ""
    more: tuple[int, ...] = ()
    heads: tuple[str, ...] = ()
    edges: tuple[CutEdge, ...] = ()

    @classmethod
    def of(cls, body: bytes) -> ReadRequest:
        """UnreadableError for anything but what the page sends."""
        given = read_json(body)
        if not isinstance(given, dict) or not given.keys() <= _KNOWN:
            raise UnreadableError(f"give an object of {', '.join(sorted(_KNOWN))}")
        return cls(
            text=_text(given, "text"),
            pair=_text(given, "pair"),
            sound=_text(given, "sound"),
            more=tuple(_number(one, "more") for one in _list(given, "more")),
            heads=tuple(sorted({_label(one) for one in _list(given, "heads")})),
            edges=tuple(sorted({_edge(one) for one in _list(given, "edges")})),
        )


def read_json(body: bytes) -> Any:
    """UnreadableError for what is no JSON, or is nested more deeply than Python reads."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableError("the request is no JSON, or is nested too deeply") from None


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise UnreadableError(f"{name}: give a text")
    return value.encode("utf-8", "replace").decode("utf-8")  # no half letters


def _list(given: dict[str, Any], name: str) -> list[Any]:
    value = given.get(name, [])
    if not isinstance(value, list) or len(value) > _MOST:
        raise UnreadableError(f"{name}: give a list of at most {_MOST}")
    return value


def _number(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise UnreadableError(f"{name}: give whole numbers")
    return value


def _label(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise UnreadableError("heads: give labels such as L5H1")
    return value


def _edge(value: Any) -> CutEdge:
    if not isinstance(value, list) or len(value) not in (2, 3):
        raise UnreadableError("edges: give lists of query, key and, for one head alone, its label")
    head = _label(value[2]) if len(value) == 3 and value[2] != "" else ""
    return CutEdge(_number(value[0], "edges"), _number(value[1], "edges"), head)
