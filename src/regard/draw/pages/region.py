"""A part of a head's matrix on a terminal: figures where it is small, a map where it is not."""

from __future__ import annotations

from regard.draw.heat import LABELLED, Axis, heat_map, largest_side
from regard.draw.pages.head import title_lines
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines
from regard.draw.values import value_table
from regard.views.head import HeadView
from regard.views.positions import narrow_names
from regard.views.region import RegionView
from regard.views.text import CAVEAT
from regard.views.uniform import Look, pooling


def region_lines(view: RegionView, look: Look, paper: Paper) -> list[StyledLine]:
    """The region."""
    where = f"rows {_span(view.rows, paper)}, keys {_span(view.keys, paper)}"
    lines = [*title_lines(HeadView(view.prompt, view.head), paper), [(where, "bold")], []]
    is_small = max(view.weights.shape) <= LABELLED
    lines += _figures(view, look, paper) if is_small else _map(view, look, paper)
    return [*lines, [], [(CAVEAT, "dim")]]


def _figures(view: RegionView, look: Look, paper: Paper) -> list[StyledLine]:
    scale = look.scale(view.weights, view.head.shape[1])
    rows = Axis(view.rows.start, 1, view.query_tokens)
    keys = Axis(view.keys.start, 1, narrow_names(view.key_tokens, view.head.key_axis))
    table = value_table(view.weights, scale.shares(view.values(look)), rows, keys, paper)
    if paper.colours == "none":
        return [*table, [(f"weights; masked: {paper.hidden}", "dim")]]
    return [*table, *scale_lines(scale, paper, "figures are weights")]


def _map(view: RegionView, look: Look, paper: Paper) -> list[StyledLine]:
    cell = -(-max(view.weights.shape) // largest_side(paper))
    pooled = view.pooled(look, cell)
    scale = look.scale(pooled, view.head.shape[1])
    rows, keys = Axis(view.rows.start, cell), Axis(view.keys.start, cell)
    picture = heat_map(scale.shares(pooled), rows, keys, paper)
    return [*picture, *scale_lines(scale, paper, pooling(cell, look.how, paper.times))]


def _span(span: range, paper: Paper) -> str:
    return f"{span.start}{paper.dash}{span.stop - 1}"
