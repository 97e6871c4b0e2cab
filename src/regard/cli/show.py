"""`regard show`: a recording in the terminal, from all heads down to single weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.spans import parse_span, pick_prompt
from regard.cli.terminal import ascii_only, print_lines, results, status, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.draw import Paper
    from regard.draw.pages import Look, Page
    from regard.recording import Head, PromptView, Recording

_STATISTIC = "non_sink"
_MOST_CELLS = 512  # a side of a map in JSON
_SLOW = 2**27  # cells of a map that has to be computed


@dataclass(frozen=True)
class _Wish:
    """What of a head is asked for."""

    row: int | None
    token: str | None
    rows: str | None
    keys: str | None
    top: int
    cell: int | None
    look: Look
    as_json: bool

    def given(self) -> list[str]:
        """The options that were used and are about one head."""
        names = ("row", "token", "rows", "keys", "cell")
        return [f"--{name}" for name in names if getattr(self, name) is not None]


def show(
    file: Path = typer.Argument(
        ...,
        metavar="FILE",
        help="A recording, or a folder of recordings (per rank, or of documents).",
    ),
    head: str | None = typer.Argument(
        None, metavar="HEAD", help="A head such as L5H1. Default: an overview of all heads."
    ),
    stat: str | None = typer.Option(
        None, help="Statistic for the overview: sink, previous, entropy … Default: non_sink."
    ),
    row: int | None = typer.Option(
        None, help="Show one row as shaded text, and its top keys; -1 is the last."
    ),
    token: str | None = typer.Option(
        None, help="Show the row of this token (its last occurrence)."
    ),
    rows: str | None = typer.Option(None, metavar="A:B", help="Zoom to rows A to B-1."),
    keys: str | None = typer.Option(None, metavar="C:D", help="Zoom to keys C to D-1."),
    top: int = typer.Option(8, help="Number of top keys to list."),
    cell: int | None = typer.Option(None, help="Tokens per map cell. Default: what fits."),
    largest: bool = typer.Option(
        False, "--max", help="Show the largest weight of each cell, not the mean."
    ),
    raw: bool = typer.Option(False, "--raw", help="Colour by weight, not by the ratio to uniform."),
    prompt: int | None = typer.Option(
        None,
        help="Index of the recorded text. Default: the first; for a folder of documents, an "
        "overview over all texts.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the numbers as JSON."),
) -> None:
    """Show a recording in the terminal: all heads, one head or one row.

    Without HEAD, shows the model, the text and one number per head. With HEAD, shows its map,
    coloured by the ratio of each cell to uniform attention. Regions of up to 40 x 40 tokens show
    every weight.

    In Python, regard.open(FILE)["L5H1"] gives the same numbers; for a short text, numpy.asarray of
    it is the matrix that BertViz and CircuitsVis draw.
    """
    import regard.recording
    from regard.draw.pages import Look

    look = Look("max" if largest else "mean", raw)
    wish = _Wish(row, token, rows, keys, top, cell, look, as_json)
    _check(wish, head, stat)
    with regard.recording.open(file) as recording:
        _show(recording, prompt, head, stat or _STATISTIC, wish)


def _check(wish: _Wish, head: str | None, stat: str | None) -> None:
    """InputError for words that do not go together."""
    used = wish.given()
    if head is None and used:
        raise InputError(f"{used[0]} is about one head; name it, as in: regard show FILE L5H1")
    if head is not None and stat is not None:
        raise InputError(f"--stat is about the overview; leave out {head!r}, or --stat")
    if wish.top < 1:
        raise InputError(f"--top {wish.top}: give a number of keys ≥ 1")
    if wish.cell is not None and wish.cell < 1:
        raise InputError(f"--cell {wish.cell}: give a number of tokens ≥ 1")
    for pair in (("--row", "--token"), ("--row", "--rows"), ("--token", "--rows")):
        if set(pair) <= set(used):
            raise InputError(f"{pair[0]} and {pair[1]} each name rows; give one of them")
    if "--cell" in used and len(used) > 1:
        raise InputError(f"--cell is about the map of a whole head; leave out {used[0]}, or --cell")


def _show(
    recording: Recording, asked: int | None, head: str | None, stat: str, wish: _Wish
) -> None:
    from regard.draw import finished, paper_of, wrapped
    from regard.draw.pages import make_many, make_overview

    console = results()
    paper = paper_of(console, is_ascii=ascii_only(console))
    page: Page
    number, missing = asked or 0, ""
    if head is None and asked is None and recording.files:
        with status().status(f"merging {len(recording.files)} files"):
            page = make_many(recording, stat)
    elif head is not None:
        prompt = pick_prompt(recording, number)
        page = _head_page(prompt, prompt[head], wish, paper)
    else:
        if number:  # else an empty recording has an overview too
            pick_prompt(recording, number)
        page = make_overview(recording, number, stat)
        missing = recording.prompt(number).why_not if recording.prompts else ""
    if wish.as_json:
        write_json(page.as_dict())
    else:
        print_lines(console, finished(page.lines(paper), paper))
        if missing:
            print_lines(console, finished(wrapped(missing, paper, "bold"), paper))


def _head_page(prompt: PromptView, head: Head, wish: _Wish, paper: Paper) -> Page:
    """The whole head, a row or a region."""
    from regard.draw.pages import find_row, make_head, make_region, make_row

    keys = parse_span("--keys", wish.keys, range(head.shape[1]))
    if wish.row is not None or wish.token is not None:
        row = find_row(head, wish.token) if wish.token is not None else _row(head, wish.row or 0)
        return make_row(prompt, head, wish.look, row=row, keys=keys, top=wish.top)
    if wish.rows is not None or wish.keys is not None:
        rows = parse_span("--rows", wish.rows, head.recorded, head.shape[0])
        return make_region(prompt, head, wish.look, rows=rows, keys=keys)
    return make_head(prompt, head, wish.look, cell=_cell(head, wish, paper), top=wish.top)


def _row(head: Head, row: int) -> int:
    """The row as the model counts it."""
    own = row + head.shape[0] if row < 0 else row
    if own not in head.recorded:
        have = f"{head.recorded.start}–{head.recorded.stop - 1}" if head.recorded else "none"
        verb = "was not recorded" if 0 <= own < head.shape[0] else "does not exist"
        raise InputError(f"row {row} {verb}; {head.label} has {have}")
    return own


def _cell(head: Head, wish: _Wish, paper: Paper) -> int | None:
    """Tokens a cell. Without a wish JSON has no map, and a terminal one that fits."""
    from regard.draw import largest_side, widest_side
    from regard.draw.pages import fitting_cell

    side = _MOST_CELLS if wish.as_json else widest_side(paper)
    size = max(len(head.recorded), head.shape[1])
    if wish.cell is not None and -(-size // wish.cell) > side:
        raise InputError(
            f"--cell {wish.cell} makes {-(-size // wish.cell):,} cells a side, and {side} fit; "
            f"give --cell {-(-size // side)} or more, or a region with --rows and --keys"
        )
    if wish.cell is None and wish.as_json:
        return None
    cell = wish.cell or fitting_cell(head, largest_side(paper), wish.look.how)
    if head.exact and len(head.recorded) * head.shape[1] > _SLOW and _is_computed(head, cell, wish):
        status().print(f"computing the map of {head.label}; a while for so long a text")
    return cell


def _is_computed(head: Head, cell: int, wish: _Wish) -> bool:
    own = head.place.pool_cell
    return wish.look.how == "max" or not own or bool(cell % own)
