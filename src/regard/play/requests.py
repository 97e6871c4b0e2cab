"""The body of a request that asks for a reading: JSON, read strictly and bounded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from regard.intervene import Edge
from regard.viewer.questions import UnreadableError


class CutEdge(NamedTuple):
    """One word that may not attend to another: in one head, or in all where `head` is ""."""

    query: int
    key: int
    head: str = ""

    def as_edge(self) -> Edge:
        """For a knock-out."""
        return Edge(self.query, self.key, self.head or None)


@dataclass(frozen=True)
class PromptState:
    """Tokens, and what the model has to do without.

    heads  labels such as L5H1, whose output is zero
    edges  pairs of words
    sound  the name of a sound file that was sent; "" for text
    """

    ids: tuple[int, ...]
    heads: tuple[str, ...] = ()
    edges: tuple[CutEdge, ...] = ()
    sound: str = ""
    pair: tuple[int, ...] = ()  # token types, of a model that takes two sentences

    @property
    def key(self) -> str:
        """Its name in addresses."""
        told = [self.ids, sorted(self.heads), sorted(self.edges), self.sound, self.pair]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:24]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is switched off."""
        return not self.heads and not self.edges

    def before(self) -> PromptState:
        """One token earlier, with the same switches."""
        return replace(self, ids=self.ids[:-1])

    def whole(self) -> PromptState:
        """The same tokens with nothing switched off."""
        return replace(self, heads=(), edges=())


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
