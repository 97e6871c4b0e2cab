"""Patterns of keys that are the same for every row: a picture's border, class and register tokens,
patches that are sinks."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from regard.recording.sinks import few_rows
from regard.recording.stores import Array
from regard.study.chance import Trial
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, OfWhatIsLeft, unknown

_TIMES: Final = 8.0  # a patch is a sink if it gets so many times an even share …
_LEAST: Final = 0.05  # … and so much of each row that sees it, …
_ALONE: Final = 3.0  # … and so many times what the patches beside it get on average


class OnKeys(MassPattern):
    """Mean mass on some of the keys, from the mass that keys received."""

    @abstractmethod
    def marks(self, head: HeadFacts) -> Array:
        """(keys,) booleans."""

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Such keys that each row sees."""
        return None if head.reach is None else head.reach.among(self.marks(head))

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """The same for every row."""
        found = self.marks(head)[np.maximum(keys, 0)] & (keys >= 0)
        return np.broadcast_to(found, np.broadcast_shapes(rows.shape, keys.shape))


class Border(OfWhatIsLeft, OnKeys):
    """Mean mass on the outermost ring of patches of a picture. A patch of it that is a sink counts
    as a sink."""

    name = "border"

    def measure(self, head: HeadFacts) -> Measure:
        """Chance is far from 0: in 14 × 14 patches the ring is a quarter."""
        why_not, marks = _unknown(head), self.marks(head)
        if why_not:
            return unknown(why_not)
        got = _shares(head)
        plain = marks & ~head.sinks.among(np.arange(marks.size))
        score, rest = float(got[marks].sum()), float(got[plain].sum())
        trial = self.trial(head, {}, rest)
        return Measure(score, self.chance(head, {}), rest, trial=trial)

    def marks(self, head: HeadFacts) -> Array:
        """The ring."""
        assert head.place.patches is not None
        return head.place.patches.keys.border


class Register(OnKeys):
    """Mean mass on the tokens before the patches that are none: class, distillation, registers."""

    name = "register"
    threshold = 0.3  # as for a sink, which they often are
    needs_rest: ClassVar[bool] = False

    def measure(self, head: HeadFacts) -> Measure:
        """Sinks among them count: that is what registers are for."""
        why_not, marks = _unknown(head), self.marks(head)
        if why_not:
            return unknown(why_not)
        score = float(_shares(head)[marks].sum())
        return Measure(
            score, self.chance(head, {}), conditional=math.nan, trial=self.trial(head, {}, score),
            detail={"keys": np.flatnonzero(marks).tolist()},
            by_tokens=head.tokens_apart(marks, ~marks),
        )  # fmt: skip

    def marks(self, head: HeadFacts) -> Array:
        """Those tokens."""
        assert head.place.patches is not None
        return head.place.patches.keys.register


class SinkPatch(OnKeys):
    """Σ over sink patches of the mean weight. A patch is a sink if the rows that see it (64 of them
    at least) give it over 0.05 and over 8 times an even share on average, and over 3 times as much
    as its four neighbours: a patch that many rows look at though nothing is about it, as in vision
    transformers without registers (Darcet et al. 2024). Where neighbours get as much, it may be an
    object."""

    name = "sink-patch"
    threshold = 0.3  # as for a sink
    needs_rest: ClassVar[bool] = False

    def __init__(self, beside_sinks: bool = False) -> None:
        self._beside_sinks = beside_sinks  # those that the label `sink` speaks of are not told here

    def measure(self, head: HeadFacts) -> Measure:
        """The sinks are the best of all patches, which the test takes into account."""
        why_not = _unknown(head)
        if why_not:
            return unknown(why_not)
        marks, names = self.marks(head), head.head.key_axis.names
        keys = np.flatnonzero(marks).tolist()
        score = float(_shares(head)[marks].sum())
        return Measure(
            score, self.chance(head, {"keys": keys}) if keys else 0.0, conditional=math.nan,
            trial=self._held_against_chance(head, keys, score),
            detail={"keys": keys, "tokens": [names[key] for key in keys]},
            by_tokens=marks.size * head.tokens_apart(marks, ~marks),
        )  # fmt: skip

    def _held_against_chance(self, head: HeadFacts, keys: list[int], score: float) -> Trial:
        assert head.place.patches is not None
        candidates = int(np.count_nonzero(head.place.patches.keys.grid >= 0))
        return self.trial(head, {"keys": keys}, score, choices=candidates ** len(keys))

    def marks(self, head: HeadFacts) -> Array:
        """Those patches."""
        found: Array = head.own(("marks", self.name), lambda: self._marked(head))
        return found

    def _marked(self, head: HeadFacts) -> Array:
        patches, seen = head.place.patches, head.place.seen(head.slot)
        assert patches is not None and head.received is not None
        share = head.received / np.maximum(seen, 1)
        visible = max(float(seen.sum()) / max(len(head.place.rows), 1), 1.0)  # keys a row sees
        marks = (share > max(_TIMES / visible, _LEAST)) & (patches.keys.grid >= 0)
        marks &= seen >= few_rows(len(head.place.rows))
        if self._beside_sinks:
            marks &= ~head.sinks.among(np.arange(marks.size))
        marks &= share >= _ALONE * _of_neighbours(head, share)
        return marks


def _of_neighbours(head: HeadFacts, share: Array) -> Array:
    """(keys,): the mean of the patches above, below, left and right; 0 where it is no patch."""
    found = np.zeros(share.size)
    for start, grid in head.head.key_axis.grids():
        laid = grid.lay(np.arange(start, start + grid.count))  # (frames, h, w) of positions
        sums, counts = np.zeros(laid.shape), np.zeros(laid.shape)
        numbers = share[laid]
        for axis in (1, 2):
            low = tuple(slice(None, -1) if n == axis else slice(None) for n in range(3))
            high = tuple(slice(1, None) if n == axis else slice(None) for n in range(3))
            for here, there in ((low, high), (high, low)):
                sums[here] += numbers[there]
                counts[here] += 1
        found[laid] = sums / np.maximum(counts, 1)
    return found


def _unknown(head: HeadFacts) -> str:
    if head.received is None or not head.rows > 0:
        return "the mass that keys received was not kept"
    if head.place.place.key_bin > 1:
        size = head.place.place.key_bin
        return f"keys are binned by {size} in this recording: no mass of single keys"
    return ""


def _shares(head: HeadFacts) -> Array:
    """(keys,): the mean weight of each."""
    assert head.received is not None
    return head.received / head.rows
