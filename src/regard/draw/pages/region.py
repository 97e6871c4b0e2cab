"""A part of a head's matrix: figures where it is small, a map of cells where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.draw.heat import LABELLED, Axis, heat_map, largest_side
from regard.draw.pages.head import head_line
from regard.draw.pages.picture import How, Look, pooling, sight_of
from regard.draw.pages.words import CAVEAT, as_json
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines
from regard.draw.values import value_table
from regard.errors import InputError
from regard.recording import Head, PromptView
from regard.recording.visibility import seen_cells

_Numbers: TypeAlias = NDArray[np.float64]

_MOST: Final = 2**24  # cells that are computed one by one


@dataclass(frozen=True)
class RegionPage:
    """Weights of some rows over some keys, NaN where masked; and how many keys each row sees."""

    head: Head
    prompt: PromptView
    rows: range
    keys: range
    weights: _Numbers  # (rows, keys)
    lengths: _Numbers  # (rows,)
    look: Look

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every weight, null where masked."""
        queries, keys = self.head.query_tokens, self.head.key_tokens
        return {
            "head": self.head.label,
            "prompt": self.prompt.number,
            "rows": [self.rows.start, self.rows.stop],
            "keys": [self.keys.start, self.keys.stop],
            "query_tokens": queries and queries[self.rows.start : self.rows.stop],
            "key_tokens": keys and keys[self.keys.start : self.keys.stop],
            "weights": as_json(self.weights),
            "caveat": CAVEAT,
        }

    def lines(self, paper: Paper) -> list[StyledLine]:
        """For a terminal."""
        where = f"rows {_span(self.rows, paper)}, keys {_span(self.keys, paper)}"
        lines = [*head_line(self.prompt, self.head, paper), [(where, "bold")], []]
        is_small = max(self.weights.shape) <= LABELLED
        lines += _figures(self, paper) if is_small else _map(self, paper)
        return [*lines, [], [(CAVEAT, "dim")]]

    @property
    def values(self) -> _Numbers:
        """What is coloured: weights, or how many times uniform they are."""
        return self.weights if self.look.raw else self.weights * self.lengths[:, None]


def make_region(
    prompt: PromptView, head: Head, look: Look, *, rows: range, keys: range
) -> RegionPage:
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
    return RegionPage(head, prompt, rows, keys, shown, np.asarray(lengths, np.float64), look)


def _figures(page: RegionPage, paper: Paper) -> list[StyledLine]:
    scale = page.look.scale(page.weights)
    rows = Axis(page.rows.start, 1, _tokens(page.head.query_tokens, page.rows))
    keys = Axis(page.keys.start, 1, _tokens(page.head.key_tokens, page.keys))
    table = value_table(page.weights, scale.shares(page.values), rows, keys, paper)
    if paper.colours == "none":
        return [*table, [(f"weights; masked: {paper.hidden}", "dim")]]
    return [*table, *scale_lines(scale, paper, "figures are weights")]


def _map(page: RegionPage, paper: Paper) -> list[StyledLine]:
    cell, how = -(-max(page.weights.shape) // largest_side(paper)), page.look.how
    pooled = _pooled(page.values, cell, how)
    scale = page.look.scale(pooled)
    rows, keys = Axis(page.rows.start, cell), Axis(page.keys.start, cell)
    picture = heat_map(scale.shares(pooled), rows, keys, paper)
    return [*picture, *scale_lines(scale, paper, pooling(cell, how, paper))]


def _pooled(values: _Numbers, cell: int, how: How) -> _Numbers:
    """Over what may be seen; NaN where nothing may."""
    starts = [np.arange(0, n, cell) for n in values.shape]
    seen = ~np.isnan(values)
    counts = _reduced(np.add, seen.astype(np.float64), starts)
    filled = np.where(seen, values, 0.0)
    found = _reduced(np.add if how == "mean" else np.maximum, filled, starts)
    if how == "mean":
        found = found / np.maximum(counts, 1)
    return np.where(counts > 0, found, np.nan)


def _reduced(reduce: np.ufunc, values: _Numbers, starts: list[NDArray[np.int64]]) -> _Numbers:
    found: _Numbers = reduce.reduceat(reduce.reduceat(values, starts[0], axis=0), starts[1], axis=1)
    return found


def _span(span: range, paper: Paper) -> str:
    return f"{span.start}{paper.dash}{span.stop - 1}"


def _tokens(tokens: list[str] | None, span: range) -> list[str] | None:
    if tokens is None or len(tokens) < span.stop:
        return None
    return tokens[span.start : span.stop]
