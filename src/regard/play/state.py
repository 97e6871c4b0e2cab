"""What a reader asks for, as a value: the same value is the same reading."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import NamedTuple

from regard.intervene import Edge


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
