"""One row of a head on a terminal: the text shaded by where it looks, and the heaviest keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.axes import Axis
from regard.colour.scale import Scale
from regard.draw.finish import wrapped
from regard.draw.pages.head import title_lines
from regard.draw.pages.picture import overlay_lines
from regard.draw.paper import Paper, StyledLine
from regard.draw.passage import Passage, shaded_text
from regard.draw.scale import scale_lines
from regard.draw.spelling import label, number
from regard.draw.table import Column, weight_table
from regard.views.head import HeadView
from regard.views.picture import overlay
from regard.views.positions import axis_words, kind_word
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
    lines += [*_top_lines(view, paper), []]
    if view.weights is not None and len(view.keys) == head.shape[1] and head.key_axis.grids():
        lines += [*overlay_lines(view.prompt, overlay(head, query=view.row), look, paper), []]
    return [*lines, [(CAVEAT, "dim")]]


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
    if not view.head.key_axis.is_text:
        passage = _without_patches(
            passage, view.head.key_axis, scale, 1 if look.raw else view.visible, paper
        )
    marked = "heaviest keys are marked" if paper.colours == "none" else "dim: not visible"
    lines = shaded_text(passage, paper)
    if paper.colours == "none":
        return [*lines, [(marked, "dim")]]
    return [*lines, *scale_lines(scale, paper, marked)]


def _without_patches(
    passage: Passage, axis: Axis, scale: Scale, times: float, paper: Paper
) -> Passage:
    """The text with every picture within it as one word that has the weight of all its patches,
    coloured by their mean."""
    tokens: list[str] = []
    numbers: list[tuple[float, float]] = []
    query, stop = None, passage.start + len(passage.tokens)
    for first, part in axis.starts():
        own = range(max(first, passage.start), min(first + part.count, stop))
        if not own:
            continue
        here = slice(own.start - passage.start, own.stop - passage.start)
        weights, shares = passage.weights[here], passage.shares[here]
        if passage.query is not None and passage.start + passage.query in own:
            query = len(tokens) + (passage.query - here.start if part.kind == "text" else 0)
        if part.kind == "text":
            tokens += passage.tokens[here]
            numbers += zip(weights.tolist(), shares.tolist(), strict=True)
        else:
            known = ~np.isnan(shares)
            mean = float(weights[known].mean()) * times if known.any() else np.nan
            tokens.append(f" [{axis_words(Axis((part,)), paper.times)}]")
            numbers.append((float(weights.sum()), float(scale.shares(mean))))
    given, coloured = np.array(numbers, np.float64).reshape(-1, 2).T
    return Passage(tokens, given, coloured, query)


def _top_lines(view: RowView, paper: Paper) -> list[StyledLine]:
    tokens, total = view.head.key_names, 0.0
    shares, sums = [weight for _, weight in view.top], []
    for weight in shares:
        total += weight
        sums.append(f"{total:.3f}")
    columns = [Column("key", [str(key) for key, _ in view.top], True)]
    if tokens is not None:
        texts = [token_at(tokens, key) for key, _ in view.top]
        heading = kind_word(view.head.key_axis)
        columns.append(Column(heading, ["" if t is None else label(t, 16, paper) for t in texts]))
    columns.append(Column("weight", [f"{weight:.3f}" for weight in shares], True))
    columns.append(Column("together", sums, True))
    return weight_table(columns, shares, paper)
