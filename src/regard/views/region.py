"""A part of a head's matrix, weight by weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.recording import Head, PromptView
from regard.recording.visibility import seen_cells
from regard.views.encoding import as_json
from regard.views.schema import How, RegionAnswer
from regard.views.text import CAVEAT
from regard.views.uniform import Look, sight_of

_Numbers: TypeAlias = NDArray[np.float64]

_MOST: Final = 2**24  # cells that are computed one by one


@dataclass(frozen=True)
class RegionView:
    """Weights of some rows over some keys, NaN where masked; and how many keys each row sees."""

    prompt: PromptView
    head: Head
    rows: range
    keys: range
    weights: _Numbers  # (rows, keys)
    lengths: _Numbers  # (rows,)

    def values(self, look: Look) -> _Numbers:
        """What is coloured: weights, or how many times uniform they are."""
        return self.weights if look.raw else self.weights * self.lengths[:, None]

    def pooled(self, look: Look, cell: int) -> _Numbers:
        """The same in cells, over what may be seen; NaN where nothing may."""
        values, how = self.values(look), look.how
        starts = [np.arange(0, n, cell) for n in values.shape]
        seen = ~np.isnan(values)
        counts = _reduced("mean", seen.astype(np.float64), starts)
        found = _reduced(how, np.where(seen, values, 0.0), starts)
        mean = found / np.maximum(counts, 1) if how == "mean" else found
        return np.where(counts > 0, mean, np.nan)

    @property
    def query_tokens(self) -> list[str] | None:
        """Of its rows, where all are known."""
        return _tokens(self.head.query_names, self.rows)

    @property
    def key_tokens(self) -> list[str] | None:
        """Of its keys, where all are known."""
        return _tokens(self.head.key_names, self.keys)

    def as_answer(self) -> RegionAnswer:
        """For JSON: every weight, null where masked."""
        queries, keys = self.head.query_names, self.head.key_names
        return {
            "head": self.head.label,
            "prompt": self.prompt.number,
            "rows": (self.rows.start, self.rows.stop),
            "keys": (self.keys.start, self.keys.stop),
            "query_tokens": queries and queries[self.rows.start : self.rows.stop],
            "key_tokens": keys and keys[self.keys.start : self.keys.stop],
            "weights": as_json(self.weights),
            "caveat": CAVEAT,
        }


def make_region(prompt: PromptView, head: Head, *, rows: range, keys: range) -> RegionView:
    """The weights; UnavailableError where single cells cannot be computed."""
    if len(rows) * len(keys) > _MOST:
        raise InputError(
            f"--rows {rows.start}:{rows.stop} --keys {keys.start}:{keys.stop}: "
            f"{len(rows) * len(keys):,} cells; give a region of at most {_MOST:,}, or leave both "
            "out for a map of the whole head"
        )
    weights = np.asarray(head[rows.start : rows.stop, keys.start : keys.stop], np.float64)
    seen = seen_cells(sight_of(prompt, head), np.array(rows), np.array(keys))
    lengths = head.visible()[rows.start - head.recorded.start :][: len(rows)]
    shown = np.where(seen, weights, np.nan)
    return RegionView(prompt, head, rows, keys, shown, np.asarray(lengths, np.float64))


def _reduced(how: How, values: _Numbers, starts: list[NDArray[np.int64]]) -> _Numbers:
    reduce = np.add if how == "mean" else np.maximum
    return reduce.reduceat(reduce.reduceat(values, starts[0], axis=0), starts[1], axis=1)


def _tokens(tokens: list[str] | None, span: range) -> list[str] | None:
    if tokens is None or len(tokens) < span.stop:
        return None
    return tokens[span.start : span.stop]
