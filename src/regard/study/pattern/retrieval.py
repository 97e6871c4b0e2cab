"""Retrieval: copying a needle out of a long text, token by token, while writing."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from regard.errors import InputError
from regard.recording.stores import Array
from regard.study.chance import hoeffding
from regard.study.facts import HeadFacts, PlaceFacts
from regard.study.pattern.base import Measure, Pattern, RowValues, unknown

_MOST_ROWS: Final = 512  # computed at once where the heaviest keys were not kept


class Needle:
    """Where the needle stands, and which tokens the model wrote after reading it."""

    def __init__(self, span: range, generated: int | None = None) -> None:
        if not span or span.step != 1 or span.start < 0:
            raise InputError(f"needle {span!r}: give the needle's tokens, such as range(120, 131)")
        self.span, self._generated = span, generated

    def rows(self, place: PlaceFacts) -> tuple[Array, Array]:
        """The rows that wrote a token, and the token each wrote."""
        ids = place.ids
        assert ids is not None  # asked for by who has looked
        count = place.prompt.generated if self._generated is None else self._generated
        if not 0 <= count < ids.size:
            raise InputError(f"{count} generated tokens of {ids.size}; give fewer")
        if self.span.stop > ids.size - count:
            raise InputError(
                f"the needle {self.span.start}:{self.span.stop} reaches beyond the "
                f"{ids.size - count} tokens that the model was given"
            )
        wrote = np.arange(ids.size - count - 1, ids.size - 1)
        kept = wrote[(wrote >= place.rows.start) & (wrote < place.rows.stop)]
        return kept, ids[kept + 1]


class Retrieval(Pattern):
    """The share of the needle's tokens that the head looked at hardest in the very row that wrote
    them. Published scores are means over many lengths and depths: see `mean_retrieval`."""

    name = "retrieval"
    threshold = 0.1  # Wu et al. 2024

    def __init__(self, needle: Needle | None = None) -> None:
        self._needle = needle

    @cached_property
    def _found(self) -> dict[str, tuple[Array, Array, Array]]:
        return {}

    def measure(self, head: HeadFacts) -> Measure:
        """Needle tokens that were copied ÷ needle tokens."""
        if self._needle is None:
            return unknown("no needle was given")
        if head.place.ids is None:
            return unknown("the tokens are not known")
        rows, written = self._needle.rows(head.place)
        if not rows.size:
            return unknown("the recording has no generated tokens")
        found = _heaviest(head, rows)
        if found is None:
            return unknown("the heaviest keys of these rows were not kept")
        keys, weights = found
        span, ids = self._needle.span, head.place.ids
        hits = (keys >= span.start) & (keys < span.stop) & (ids[keys] == written)
        self._found[head.label] = rows, hits, weights
        score = np.unique(keys[hits]).size / len(span)
        detail = {"needle": [span.start, span.stop], "rows": int(rows.size)}
        chance, samples = self._chance(head, rows, written), int(np.unique(written).size)
        trial = hoeffding(float(hits.mean()), chance, int(rows.size), samples=samples)
        return Measure(score, conditional=float("nan"), detail=detail, trial=trial)

    def _chance(self, head: HeadFacts, rows: Array, written: Array) -> float:
        """How often the heaviest key is such a token of the needle, if it may be any key."""
        assert self._needle is not None and head.place.ids is not None
        needle = head.place.ids[self._needle.span.start : self._needle.span.stop]
        copies = (written[:, None] == needle).sum(-1)
        if head.reach is None:
            return float((copies / head.place.place.keys).mean())
        seen = np.maximum(head.reach.visible[rows - head.place.rows.start], 1)
        return float(np.minimum(copies / seen, 1).mean())

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """Rows that copied, by the weight of the key they copied."""
        rows, hits, weights = self._found[head.label]
        every = np.ones(rows.size, bool)
        return RowValues(rows, rows, np.where(hits, weights, 0.0), every, every, weights * hits)


def _heaviest(head: HeadFacts, rows: Array) -> tuple[Array, Array] | None:
    """The heaviest key of each of the rows, and its weight."""
    tops = head.tops
    if tops is not None:
        at = np.searchsorted(tops.rows, rows).clip(max=len(tops.rows) - 1)
        if np.array_equal(tops.rows[at], rows):
            return tops.keys[at, 0], tops.weights[at, 0]
    if not head.head.exact:
        return None
    parts = [head.head.rows(rows[n : n + _MOST_ROWS]) for n in range(0, rows.size, _MOST_ROWS)]
    keys = np.concatenate([part.argmax(-1) for part in parts])
    return keys, np.concatenate([part.max(-1) for part in parts])
