"""Patterns of patches by where they lie from one's own: beside it, in its row or column, at its
place in another frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from regard.recording.stores import Array
from regard.study.facts import HeadFacts, RowNumbers
from regard.study.patches import PatchFacts, Relation
from regard.study.pattern.base import (
    MassPattern,
    Measure,
    OfWhatIsLeft,
    RowValues,
    beyond_chance,
    unknown,
)

_NO_ROWS: Final = "single rows were not kept: where a patch looks needs its q and k"
SHARPER: Final = "a sharper label says it"


class Related(MassPattern):
    """Over the patches that have such a key: mean mass on the keys that lie so from them.

    Computed from q and k, of all rows or of a sample (`regard.study.patches`).
    """

    needs_sinks: ClassVar[bool] = False
    threshold = 0.3  # of one key, as for a distance

    def __init__(self, name: str, relation: Relation, sharper: Sequence[Related] = ()) -> None:
        self.name, self._relation, self._sharper = name, relation, sharper

    def measure(self, head: HeadFacts) -> Measure:
        """From the rows that are computed."""
        if head.sample is None:
            return unknown(_NO_ROWS)
        found: Measure = head.own(("measure", self.name), lambda: self._measured(head))
        return found

    def _measured(self, head: HeadFacts) -> Measure:
        patches, rows = _patches(head), self.eligible(head, {})
        if not rows.any():
            return unknown("no recorded row is a patch that has such a key")
        score = float(self._masses(head, None)[rows[patches.at]].mean())
        chance = self.chance(head, {})
        detail = {} if patches.rows.size == rows.size else {"sampled": int(np.count_nonzero(rows))}
        said = [one for one in self._sharper if one.holds(head)]
        left = float(self._masses(head, said)[rows[patches.at]].mean()) if said else score
        better = SHARPER if beyond_chance(left, chance) < self.threshold else ""
        trial = self.trial(head, {}, score)
        return Measure(score, chance, detail=detail, trial=trial, objection=better)

    def _masses(self, head: HeadFacts, but: Sequence[Related] | None) -> Array:
        """(n,): each computed row's mass; without the keys of other patterns."""
        mask = self._mask(head)
        for other in but or ():
            mask = mask & ~other._mask(head)
        assert head.sample is not None
        found: Array = np.where(mask, head.sample, 0).sum(-1, dtype=np.float64)
        return found

    def _mask(self, head: HeadFacts) -> Array:
        return _patches(head).mask(self.name, self._relation)

    def eligible(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array:
        """Computed rows that are patches with such a key, seen or not."""
        found: Array = np.asarray(self._mask(head).any(axis=-1))
        return _patches(head).spread(found)

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Such keys that each row sees."""
        seen = head.sample_seen
        if seen is None:
            return None
        found: Array = head.once(
            ("counts", self.name),
            lambda: _patches(head).spread((self._mask(head) & seen).sum(-1)),
        )
        return found

    def chances(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Such keys ÷ visible ones."""
        counts, seen = self.counts(head, detail), head.sample_seen
        if counts is None or seen is None:
            return None
        visible = head.once(
            "sample visible", lambda: _patches(head).spread(seen.sum(-1, dtype=np.int64))
        )
        return np.where(visible > 0, counts / np.maximum(visible, 1), np.nan)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """Keys that lie so."""
        patches = _patches(head)
        found = self._relation(patches.queries.at(rows), patches.keys.at(np.maximum(keys, 0)))
        return found & (keys >= 0)

    def rows(self, head: HeadFacts, measure: Measure) -> RowValues | None:
        """As they were computed."""
        if head.sample is None:
            return None
        rows, masses = _patches(head).rows, self._masses(head, None)
        known = np.ones(rows.size, bool)
        return self.judged_rows(head, measure, RowNumbers(rows, rows, masses), known)


class RelatedMany(OfWhatIsLeft, Related):
    """The same of several keys: the threshold is a share of what chance leaves over. Narrower
    patterns that hold say it better: the label is given for what is left without their keys."""


def _patches(head: HeadFacts) -> PatchFacts:
    assert head.place.patches is not None  # else the pattern is in no table
    return head.place.patches
