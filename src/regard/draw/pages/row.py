"""One row of a head on a terminal: the text shaded by where it looks, and the heaviest keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.draw.finish import wrapped
from regard.draw.pages.head import title_lines
from regard.draw.paper import Paper, StyledLine
from regard.draw.passage import Passage, shaded_text
from regard.draw.scale import scale_lines
from regard.draw.spelling import label, number
from regard.draw.table import Column, weight_table
from regard.views.head import HeadView
from regard.views.row import RowView, token_at
from regard.views.text import CAVEAT, count
from regard.views.uniform import Look


def row_lines(view: RowView, look: Look, paper: Paper) -> list[StyledLine]:
    """The row."""
    head = view.head
    lines = [*title_lines(HeadView(view.prompt, head), paper), _about(view, paper), []]
    if view.weights is None:
        why = f"only the heaviest keys are known: {head.why_not}"
        lines += wrapped(why, paper, "dim", indent=2)
    elif head.key_tokens is not None:
        lines += [*_text_lines(view, view.weights, look, paper), []]
    return [*lines, *_top_lines(view, paper), [], [(CAVEAT, "dim")]]


def _about(view: RowView, paper: Paper) -> StyledLine:
    text = view.token
    name = f"row {view.row}" + ("" if text is None else f" {label(text, 24, paper)}")
    facts = [f"sees {count(view.visible, 'key')}"]
    if view.weights is not None:
        facts += _measures(view.weights, len(view.keys) == view.head.shape[1])
    return [(name, "bold"), (paper.dot + paper.dot.join(facts), "")]


def _measures(weights: NDArray[np.float64], is_whole: bool) -> list[str]:
    if not is_whole:
        return [f"{weights.sum():.3f} of its weight on the keys shown"]
    some = weights[weights > 0]
    return [f"entropy {number(float(-(some * np.log(some)).sum()) + 0.0)} nats"]


def _text_lines(
    view: RowView, weights: NDArray[np.float64], look: Look, paper: Paper
) -> list[StyledLine]:
    tokens = (view.head.key_tokens or [])[view.keys.start : view.keys.stop]
    known = len(tokens)
    scale = look.scale(weights, view.head.shape[1])
    values = weights if look.raw else weights * view.visible
    shares = np.where(view.seen[view.keys.start : view.keys.stop], scale.shares(values), np.nan)
    at = view.row - view.keys.start
    query = at if view.head.place.kind == "self" and 0 <= at < known else None
    passage = Passage(tokens, weights[:known], shares[:known], query, view.keys.start)
    marked = "heaviest keys are marked" if paper.colours == "none" else "dim: not visible"
    lines = shaded_text(passage, paper)
    if paper.colours == "none":
        return [*lines, [(marked, "dim")]]
    return [*lines, *scale_lines(scale, paper, marked)]


def _top_lines(view: RowView, paper: Paper) -> list[StyledLine]:
    tokens, total = view.head.key_tokens, 0.0
    shares, sums = [weight for _, weight in view.top], []
    for weight in shares:
        total += weight
        sums.append(f"{total:.3f}")
    columns = [Column("key", [str(key) for key, _ in view.top], True)]
    if tokens is not None:
        texts = [token_at(tokens, key) for key, _ in view.top]
        columns.append(Column("token", ["" if t is None else label(t, 16, paper) for t in texts]))
    columns.append(Column("weight", [f"{weight:.3f}" for weight in shares], True))
    columns.append(Column("together", sums, True))
    return weight_table(columns, shares, paper)
