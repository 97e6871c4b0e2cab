"""One head on a terminal: its map, its numbers, how far it looks, and who is looked at."""

from __future__ import annotations

from typing import Final

import numpy as np

from regard.draw.finish import wrapped
from regard.draw.heat import LABELLED, Axis, heat_map
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines
from regard.draw.spelling import label, number
from regard.draw.table import Column, binned, spark, weight_table
from regard.recording import Head
from regard.views.head import HeadView, known_numbers
from regard.views.positions import axis_words, kind_word, narrow_names, window_words
from regard.views.profiles import Bins
from regard.views.text import CAVEAT
from regard.views.uniform import Look, MapCells

_SPARK: Final = 48


def head_lines(
    view: HeadView, look: Look, paper: Paper, *, cell: int | None, top: int
) -> list[StyledLine]:
    """The whole head; without a cell size there is no map."""
    cells, problem = view.cells(cell, look)
    lines = title_lines(view, paper)
    if cells is not None:
        lines += map_lines(cells, look, view.head, paper)
    elif problem:
        lines += wrapped(f"no map: {problem}", paper, "dim", indent=2)
    lines += [[], *_number_lines(view, paper), []]
    lines += [*_distance_lines(view.distances, paper), *_entropy_lines(view.entropies, paper)]
    return [*lines, *_received_lines(view, top, paper), [], [(CAVEAT, "dim")]]


def title_lines(view: HeadView, paper: Paper) -> list[StyledLine]:
    """Which head this is, and how much of it is known."""
    head, (queries, keys) = view.head, view.head.shape
    facts = [f"{queries:,} {paper.times} {keys:,} {_positions(head, paper)}"]
    if len(head.recorded) < queries:
        facts.append(
            f"rows {head.recorded.start}{paper.dash}{head.recorded.stop - 1} recorded"
            if head.recorded
            else "no rows recorded"
        )
    if view.prompt.number:
        facts.append(f"prompt {view.prompt.number}")
    facts.append("every cell can be computed" if head.exact else "summaries only")
    window = window_words(head)
    lines: list[StyledLine] = [
        [(head.label, "bold"), ("".join(paper.dot + fact for fact in facts), "")]
    ]
    return [*lines, [(window, "")]] if window else lines


def _positions(head: Head, paper: Paper) -> str:
    """Tokens; or positions, with what they stand for."""
    queries, keys = (axis_words(axis, paper.times) for axis in (head.query_axis, head.key_axis))
    if head.query_axis.is_text and head.key_axis.is_text:
        return "tokens"
    said = queries if queries == keys else f"{queries} by {keys}"
    return f"positions ({said})"


def map_lines(cells: MapCells, look: Look, head: Head, paper: Paper) -> list[StyledLine]:
    """The map and its scale; tokens on both axes, where there are few enough to be read."""
    queries, keys = _labels(cells, head)
    rows = Axis(cells.first_row, cells.cell, queries)
    scale, words = cells.scale(look), cells.pooling(paper.times)
    columns = Axis(0, cells.cell, narrow_names(keys, head.key_axis))
    picture = heat_map(cells.shares(look), rows, columns, paper)
    return [*picture, *scale_lines(scale, paper, words)]


def _labels(cells: MapCells, head: Head) -> tuple[list[str] | None, list[str] | None]:
    queries, keys = head.query_names, head.key_names
    is_wide = cells.cell > 1 or max(cells.weights.shape, default=0) > LABELLED
    if is_wide or queries is None or keys is None:
        return None, None
    own = queries[head.recorded.start : head.recorded.stop]
    if (len(own), len(keys)) != cells.weights.shape:
        return None, None  # an unfinished recording may have rows before it has their tokens
    return own, keys


def _number_lines(view: HeadView, paper: Paper) -> list[StyledLine]:
    """Title and number, several to a line."""
    kinds = view.prompt.statistic_kinds
    known = [
        (kinds[name].title, f"{value:.3f}" if kinds[name].span == "one" else number(value))
        for name, value in known_numbers(view).items()
    ]
    width = max((len(name) + len(text) + 1 for name, text in known), default=1)
    across = max((paper.width + 3) // (width + 3), 1)
    lines: list[StyledLine] = []
    for at in range(0, len(known), across):
        line: StyledLine = []
        for name, text in known[at : at + across]:
            between = "   " if line else ""  # none behind the last: it would be cut off
            line += [(between + name, "dim"), (" " * (width - len(name) - len(text)) + text, "")]
        lines.append(line)
    return lines


def _distance_lines(bins: Bins | None, paper: Paper) -> list[StyledLine]:
    if bins is None:
        return []
    best, last = int(np.argmax(bins.values)), int(bins.edges[-1]) - 1
    words = f"most at {bins.span(best, paper.dash)} back: {bins.values[best]:.3f}"
    words += f"; {int(bins.edges[0])} to {last} shown"
    return [_profile_line("distance", spark(bins.values, paper), words)]


def _entropy_lines(bins: Bins | None, paper: Paper) -> list[StyledLine]:
    if bins is None or np.isnan(bins.values).all():
        return []
    values = binned(bins.values, min(_SPARK, max(paper.width - 44, 8)))
    low, high = (number(float(end(values)), 2) for end in (np.nanmin, np.nanmax))
    words = f"{low} to {high} nats along the rows"
    return [_profile_line("entropy", spark(values, paper), words)]


def _profile_line(name: str, picture: str, words: str) -> StyledLine:
    return [(f"{name:9}", "dim"), (picture, ""), (f"  {words}", "dim")]


def _received_lines(view: HeadView, top: int, paper: Paper) -> list[StyledLine]:
    if view.received is None:
        return []
    best = view.looked_at(top)
    spans = [(first, last - 1) for first, last in (one["keys"] for one in best)]
    names = [str(a) if a == b else f"{a}{paper.dash}{b}" for a, b in spans]
    columns = [Column("keys looked at most", names, True)]
    texts = ["" if one["token"] is None else label(one["token"], 16, paper) for one in best]
    if any(texts):
        columns.append(Column(kind_word(view.head.key_axis), texts))
    shares = [one["share"] for one in best]
    columns.append(Column("share", [f"{share:.3f}" for share in shares], True))
    return [[], *weight_table(columns, shares, paper)]
