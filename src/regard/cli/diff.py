"""`regard diff`: two recordings, head by head."""

from __future__ import annotations

from pathlib import Path

import typer

from regard.cli.terminal import advancing, show_lines, write_json
from regard.errors import InputError


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
    from regard.draw.pages import comparison_lines
    from regard.views.comparison import Side, make_comparison
    from regard.views.overview import who_is

    with regard.recording.open(a) as left, regard.recording.open(b) as right:
        first = Side(left, prompt, who_is(left))
        second = Side(right, prompt if other is None else other, who_is(right)._replace(number=1))
        with advancing("comparing heads") as advance:
            found = make_comparison(first, second, rows=rows or None, go_on=advance)
    if as_json:
        write_json(found)
    else:
        show_lines(lambda paper: comparison_lines(found, top, paper))
    if at_most is not None and found["largest"] > at_most:
        raise typer.Exit(1)
