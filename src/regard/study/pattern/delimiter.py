"""Delimiters: punctuation and line breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from regard.recording.stores import Array
from regard.study.chance import Trial
from regard.study.facts import HeadFacts
from regard.study.pattern.base import MassPattern, Measure, unknown

_FEW: Final = 3  # keys: a preference for fewer need not be one for what they are


class Delimiter(MassPattern):
    """Mean mass on punctuation and line breaks. A full stop that is a sink counts as a sink."""

    name = "delimiter"
    threshold = 0.3

    def measure(self, head: HeadFacts) -> Measure:
        """From the mass that keys received."""
        marks = head.place.delimiters
        if marks is None:
            return unknown("the tokens are not known")
        if head.received is None:
            return unknown("the mass that keys received was not kept")
        if head.place.place.key_bin > 1:
            size = head.place.place.key_bin
            return unknown(f"keys are binned by {size} in this recording: no mass of single keys")
        if not marks.any():
            return unknown("this text has no punctuation and no line break")
        plain = marks & ~head.sinks.among(np.arange(marks.size))
        score, left = (float(head.received[of].sum()) for of in (marks, plain))
        # without sinks: of the rows that see a delimiter which is none
        seen = np.ones(len(head.place.rows), bool)
        if head.reach is not None:
            seen = head.reach.among(plain) > 0
        found, rows = int(np.count_nonzero(plain)), int(np.count_nonzero(seen))
        rest = left / max(rows, 1)
        few = f"{found} of its delimiters are no sinks; {_FEW} needed" if found < _FEW else ""
        share = left / head.rows / head.non_sink if head.non_sink > 0 else math.nan
        return Measure(
            score / head.rows, self.chance(head, {}), rest, conditional=min(share, 1.0),
            trial=self._held_against_tokens(head, plain, self.trial(head, {}, rest, among=seen)),
            objection=few,
        )  # fmt: skip

    def _held_against_tokens(self, head: HeadFacts, plain: Array, trial: Trial) -> Trial:
        """A head may prefer some tokens to others by chance, in all of its rows alike: the
        delimiters have to lie apart from what its other tokens get, too."""
        marks = head.place.delimiters
        assert marks is not None  # `measure` has said so
        p = head.tokens_apart(plain, ~marks & ~head.sinks.among(np.arange(marks.size)))
        return trial if p <= trial.p else Trial(trial.rows, p, "Student's t over tokens")

    def counts(self, head: HeadFacts, detail: Mapping[str, Any]) -> Array | None:
        """Delimiters that each row sees."""
        marks = head.place.delimiters
        return None if head.reach is None or marks is None else head.reach.among(marks)

    def match(self, head: HeadFacts, detail: Mapping[str, Any], rows: Array, keys: Array) -> Array:
        """The same for every row."""
        marks = head.place.delimiters
        assert marks is not None  # `measure` has said so
        found = marks[np.maximum(keys, 0)] & (keys >= 0)
        return np.broadcast_to(found, np.broadcast_shapes(rows.shape, keys.shape))
