"""`regard show`: a recording in the terminal, from all heads down to single weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.spans import parse_span
from regard.cli.terminal import show_lines, status, tell_if_slow, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.draw import Paper
    from regard.recording import Head, PromptView, Recording
    from regard.views.uniform import Look

_MOST_CELLS = 512  # a side of a map in JSON


@dataclass(frozen=True)
class _Wish:
    """What of a head is asked for."""

    row: int | None
    token: str | None
    patch: str | None
    key: str | None
    rows: str | None
    keys: str | None
    top: int
    cell: int | None
    look: Look
    as_json: bool

    def given(self) -> list[str]:
        """The options that were used and are about one head."""
        names = ("row", "token", "patch", "key", "rows", "keys", "cell")
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
        None,
        help="Statistic for the overview: sink, previous, entropy … Default: one that tells the "
        "heads apart.",
    ),
    row: int | None = typer.Option(
        None, help="Show one row as shaded text, and its top keys; -1 is the last."
    ),
    token: str | None = typer.Option(
        None, help="Show the row of this token (its last occurrence)."
    ),
    patch: str | None = typer.Option(
        None,
        metavar="R,C",
        help="Show the row of the patch in row R and column C of a picture; F,R,C in frame F.",
    ),
    key: str | None = typer.Option(
        None, metavar="N", help="Show who looks at key N, or at the patch R,C; -1 is the last."
    ),
    rows: str | None = typer.Option(None, metavar="A:B", help="Zoom to rows A to B-1."),
    keys: str | None = typer.Option(None, metavar="C:D", help="Zoom to keys C to D-1."),
    top: int = typer.Option(8, help="Number of top keys to list."),
    cell: int | None = typer.Option(
        None, help="Tokens per map cell. Default: the smallest that fits."
    ),
    largest: bool = typer.Option(
        False, "--max", help="Show the largest weight of each cell, not the mean."
    ),
    raw: bool = typer.Option(False, "--raw", help="Colour by weight, not by the ratio to uniform."),
    prompt: int | None = typer.Option(
        None,
        help="Index of the recorded text. Default: the first; for a folder of documents, an "
        "overview over all texts.",
    ),
    words: bool = typer.Option(
        False, "--words", help="List the words of a recorded sound, with start and end in seconds."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the numbers as JSON."),
) -> None:
    """Show a recording in the terminal: all heads, one head or one row.

    Without HEAD, shows the model, the text and one number per head. With HEAD, shows its map,
    coloured by the ratio of each cell to uniform attention. Regions of up to 40 x 40 tokens show
    every weight.

    Where keys are patches of a picture, a row (--row, --patch) and a key (--key) are drawn over it:
    on the picture itself where the terminal has 24-bit colours and Pillow is installed, else as
    heat alone.

    In Python, regard.open(FILE)["L5H1"] gives the same numbers; for a short text, numpy.asarray of
    it is the matrix that BertViz and CircuitsVis draw.
    """
    import regard.recording
    from regard.views.uniform import Look

    look = Look("max" if largest else "mean", raw)
    wish = _Wish(row, token, patch, key, rows, keys, top, cell, look, as_json)
    _check(wish, head, stat)
    if words and (head is not None or stat is not None or wish.given()):
        raise InputError("--words is about a whole text; leave out HEAD and what is about heads")
    with regard.recording.open(file) as recording:
        if words:
            _show_words(recording, prompt, as_json)
        else:
            _show(recording, prompt, head, stat, wish)


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
    naming = [one for one in used if one in ("--row", "--token", "--patch", "--rows")]
    if len(naming) > 1:
        raise InputError(f"{naming[0]} and {naming[1]} each name rows; give one of them")
    if "--key" in used and len(used) > 1:
        other = next(one for one in used if one != "--key")
        raise InputError(f"--key is about one key and all rows; leave out {other}, or --key")
    if "--cell" in used and len(used) > 1:
        raise InputError(f"--cell is about the map of a whole head; leave out {used[0]}, or --cell")


def _show(
    recording: Recording, asked: int | None, head: str | None, stat: str | None, wish: _Wish
) -> None:
    """What is asked for, as JSON or on the paper that stdout is."""
    if head is None and asked is None and recording.files:
        _show_many(recording, stat, wish)
    elif head is not None:
        prompt = recording.prompt(asked or 0)
        _show_head(prompt, prompt[head], wish)
    else:
        _show_overview(recording, asked or 0, stat, wish)


def _show_many(recording: Recording, stat: str | None, wish: _Wish) -> None:
    from regard.draw.pages import many_lines
    from regard.views.findings import many_answer

    with status().status(f"merging {len(recording.files)} files"):
        merged = recording.merged()
    if wish.as_json:
        write_json(many_answer(recording, merged))
    else:
        show_lines(lambda paper: many_lines(recording, merged, stat, paper))


def _show_words(recording: Recording, asked: int | None, as_json: bool) -> None:
    """When each word of a sound was said; of every clip, or of the one that was asked for."""
    from regard.draw.pages import word_lines
    from regard.study import word_times
    from regard.views.timing import sound_answer

    prompts = recording.prompts if asked is None else [recording.prompt(asked)]
    timed = [(one, word_times(one)) for one in prompts]
    if as_json:
        write_json([sound_answer(one, words) for one, words in timed])
        return
    for one, words in timed:
        show_lines(partial(word_lines, one.title, words))


def _show_overview(recording: Recording, number: int, stat: str | None, wish: _Wish) -> None:
    from regard.draw import wrapped
    from regard.draw.pages import overview_lines
    from regard.recording.statistics import find_statistic
    from regard.views.overview import whole_overview

    if stat is not None:
        find_statistic(stat, recording.statistic_kinds)
    if number:  # else an empty recording has an overview too
        recording.prompt(number)
        number %= len(recording.prompts)
    if wish.as_json:
        write_json(whole_overview(recording, number))
        return
    show_lines(lambda paper: overview_lines(recording, number, stat, paper))
    missing = recording.prompt(number).why_not if recording.prompts else ""
    if missing:
        show_lines(lambda paper: wrapped(missing, paper, "bold"))


def _show_head(prompt: PromptView, head: Head, wish: _Wish) -> None:
    """The whole head, a row or a region."""
    from regard.draw.pages import head_lines, region_lines, row_lines
    from regard.views.head import HeadView, head_answer
    from regard.views.positions import find_patch
    from regard.views.region import make_region
    from regard.views.row import find_row, make_row

    if wish.key is not None:
        _show_key(prompt, head, wish.key, wish)
        return
    keys = parse_span("--keys", wish.keys, range(head.shape[1]))
    if wish.row is not None or wish.token is not None or wish.patch is not None:
        at = find_row(head, wish.token) if wish.token is not None else wish.row or 0
        at = at if wish.patch is None else find_patch(head, "query", wish.patch)
        row = make_row(prompt, head, at, keys=keys, top=wish.top)
        if wish.as_json:
            write_json(row.as_answer())
        else:
            show_lines(lambda paper: row_lines(row, wish.look, paper))
        return
    if wish.rows is not None or wish.keys is not None:
        rows = parse_span("--rows", wish.rows, head.recorded, head.shape[0])
        region = make_region(prompt, head, rows=rows, keys=keys)
        if wish.as_json:
            write_json(region.as_answer())
        else:
            show_lines(lambda paper: region_lines(region, wish.look, paper))
        return
    view = HeadView(prompt, head)
    if not wish.as_json:
        show_lines(
            lambda paper: head_lines(
                view, wish.look, paper, cell=_cell(head, wish, paper), top=wish.top
            )
        )
        return
    told = head_answer(view)
    cells, problem = view.cells(_cell(head, wish), wish.look)
    if cells is not None:
        told["map"] = cells.as_answer()
    told["problems"] += [problem] if problem else []
    told["looked_at"] = view.looked_at(wish.top)
    write_json(told)


def _show_key(prompt: PromptView, head: Head, asked: str, wish: _Wish) -> None:
    """Who looks at a key."""
    from regard.draw.pages import column_lines
    from regard.views.picture import overlay
    from regard.views.positions import column_answer, find_patch

    is_number = asked.strip().lstrip("-").isdecimal()
    over = overlay(head, key=int(asked) if is_number else find_patch(head, "key", asked))
    if wish.as_json:
        write_json(column_answer(prompt, over, wish.top))
    else:
        show_lines(lambda paper: column_lines(prompt, over, wish.look, paper, top=wish.top))


def _cell(head: Head, wish: _Wish, paper: Paper | None = None) -> int | None:
    """Tokens a cell. Without a wish JSON, which needs no paper, has no map; a terminal has one
    that fits."""
    from regard.draw import largest_side, widest_side
    from regard.views.uniform import fitting_cell

    side = _MOST_CELLS if paper is None else widest_side(paper)
    size = max(len(head.recorded), head.shape[1])
    if wish.cell is not None and -(-size // wish.cell) > side:
        raise InputError(
            f"--cell {wish.cell} makes {-(-size // wish.cell):,} cells a side, and {side} fit; "
            f"give --cell {-(-size // side)} or more, or a region with --rows and --keys"
        )
    if wish.cell is None and paper is None:
        return None
    cell = wish.cell or (paper and fitting_cell(head, largest_side(paper), wish.look.how)) or 1
    own = head.place.pool_cell
    if wish.look.how == "max" or not own or cell % own:
        tell_if_slow(head)
    return cell
