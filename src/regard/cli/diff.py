"""`regard diff`: two recordings, head by head."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import ascii_only, print_lines, results, write
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.draw import Column, Paper, StyledLine
    from regard.study import Comparison, HeadDifference

_NOTE = (
    "distance: Jensen-Shannon, 0 for equal rows, 1 for rows that share no key; a mean over the "
    "rows that stand for each other."
)
_TOKEN = 40  # cells
_PROFILES = (
    "Of heads without q and k on both sides only profiles are compared, summed over rows: mass by "
    "key, mass by distance. They can agree where rows do not."
)


def diff(
    a: Path = typer.Argument(..., metavar="A", help="A recording, or a folder of one per rank."),
    b: Path = typer.Argument(
        ..., metavar="B", help="Another recording, or the same one to compare two prompts."
    ),
    prompt: int = typer.Option(0, help="Index of the text in A."),
    other: int | None = typer.Option(None, help="Index of the text in B. Default: the same."),
    rows: int = typer.Option(512, help="Evenly spaced rows to compare per head; 0 for all."),
    top: int = typer.Option(20, help="Number of heads to list."),
    at_most: float | None = typer.Option(
        None, "--at-most", help="Exit with status 1 if any head differs by more than this."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print every head as JSON."),
) -> None:
    """Compare two recordings head by head, largest difference first.

    Compares two prompts, checkpoints, dtypes or backends. If the texts differ, rows are matched by
    their tokens. Heads with q and k in both recordings are compared row by row, others by their
    stored profiles.
    """
    if rows < 0 or top < 0:
        raise InputError(f"--rows {rows} --top {top}: give numbers of 0 or more")
    import regard.recording
    from regard.study import compare_recordings

    prompts = prompt, prompt if other is None else other
    with regard.recording.open(a) as left, regard.recording.open(b) as right:
        found = compare_recordings(left, right, prompts=prompts, rows=rows or None)
    if as_json:
        write(json.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        _print(found, top)
    if at_most is not None and found.largest > at_most:
        raise typer.Exit(1)


def _print(found: Comparison, top: int) -> None:
    from regard.draw import finished, paper_of

    console = results()
    paper = paper_of(console, is_ascii=ascii_only(console))
    print_lines(console, finished(_lines(found, top, paper), paper))


def _lines(found: Comparison, top: int, paper: Paper) -> list[StyledLine]:
    from regard.draw import aligned, wrapped

    lines = wrapped(f"{found.a} and {found.b}: {len(found.heads)} heads", paper, "bold")
    lines += wrapped(f"tokens: {found.alignment}", paper)
    for name, only in ((found.a, found.only_a), (found.b, found.only_b)):
        if only:
            some = ", ".join(only[:6]) + (f" and {len(only) - 6} more" if len(only) > 6 else "")
            lines += wrapped(f"only in {name}: {some}", paper)
    shown = found.heads[:top]
    if shown:
        lines += [[], *aligned(_columns(shown, paper), paper)]
    if len(found.heads) > len(shown):
        lines += [[(f"and {len(found.heads) - len(shown)} more, closer", "dim")]]
    notes = [_NOTE] + [_PROFILES] * any(one.how == "profiles" for one in found.heads)
    return [*lines, [], *wrapped(" ".join(notes), paper, "dim")]


def _columns(heads: Sequence[HeadDifference], paper: Paper) -> list[Column]:
    from regard.draw import Column

    return [
        Column("head", [one.label for one in heads]),
        Column("distance", [_figure(one.distance) for one in heads], True),
        Column("by", [_by(one) for one in heads]),
        Column("farthest apart", [_worst(one, paper) for one in heads]),
    ]


def _figure(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def _by(one: HeadDifference) -> str:
    return f"{one.rows} rows" if one.how == "rows" else one.how


def _worst(one: HeadDifference, paper: Paper) -> str:
    """The row that differs most, or what each profile says."""
    from regard.draw.spelling import label

    if one.worst is None:
        return ", ".join(f"{name} {_figure(value)}" for name, value in one.profiles)
    rows = f"row {one.worst[0]}"
    rows += f" and {one.worst[1]}" if one.worst[0] != one.worst[1] else ""
    token = "" if one.worst_token is None else f" '{label(one.worst_token, _TOKEN, paper)}'"
    return f"{rows}{token} ({_figure(one.worst_distance)})"
