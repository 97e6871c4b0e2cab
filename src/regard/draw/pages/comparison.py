"""Two prompts side by side on a terminal, the heads that are farthest apart first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from regard.draw.finish import wrapped
from regard.draw.paper import Paper, StyledLine
from regard.draw.spelling import label
from regard.draw.table import Column, aligned
from regard.views.schema import ComparisonAnswer, HeadDifferenceAnswer, Known

_NOTE: Final = (
    "distance: Jensen-Shannon, 0 for equal rows, 1 for rows that share no key; a mean over the "
    "rows that stand for each other."
)
_TOKEN: Final = 40  # cells
_ONLY: Final = 6  # heads that one of the two has, listed


def comparison_lines(told: ComparisonAnswer, top: int, paper: Paper) -> list[StyledLine]:
    """The first `top` heads."""
    a, b, heads = told["a"]["name"], told["b"]["name"], told["heads"]
    lines = wrapped(f"{a} and {b}: {len(heads)} heads", paper, "bold")
    for doubt in told["doubts"]:
        lines += wrapped(doubt, paper, "bold")
    lines += wrapped(f"tokens: {told['alignment']}", paper)
    for name, only in ((a, told["only_a"]), (b, told["only_b"])):
        if only:
            more = f" and {len(only) - _ONLY} more" if len(only) > _ONLY else ""
            lines += wrapped(f"only in {name}: {', '.join(only[:_ONLY])}{more}", paper)
    shown = heads[:top]
    if shown:
        lines += [[], *aligned(_columns(shown, paper), paper)]
    if len(heads) > len(shown):
        lines += [[(f"and {len(heads) - len(shown)} more, closer", "dim")]]
    return [*lines, [], *wrapped(_NOTE, paper, "dim")]


def _columns(heads: Sequence[HeadDifferenceAnswer], paper: Paper) -> list[Column]:
    return [
        Column("head", [one["label"] for one in heads]),
        Column("distance", [_figure(one["distance"]) for one in heads], True),
        Column("by", [_by(one) for one in heads]),
        Column("farthest apart", [_worst(one, paper) for one in heads]),
    ]


def _figure(value: Known) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def _by(one: HeadDifferenceAnswer) -> str:
    return f"{one['rows']} rows" if one["how"] == "rows" else one["how"]


def _worst(one: HeadDifferenceAnswer, paper: Paper) -> str:
    """The row that differs most, or what each profile says."""
    if one["worst_rows"] is None:
        return ", ".join(f"{name} {_figure(value)}" for name, value in one["profiles"].items())
    a, b = one["worst_rows"]
    rows = f"row {a}" if a == b else f"row {a} and {b}"
    text = one["worst_token"]
    token = "" if text is None else f" '{label(text, _TOKEN, paper)}'"
    return f"{rows}{token} ({_figure(one['worst_distance'])})"
