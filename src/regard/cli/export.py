"""`regard export`: a recording as a table or as arrays, for other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.spans import parse_span, pick_prompt
from regard.cli.terminal import status, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.export import Chosen
    from regard.recording import Recording

_TABLES = ("csv", "parquet")
_FORMATS = (*_TABLES, "npz", "safetensors")


@dataclass(frozen=True)
class _Wish:
    """What the command line asks for."""

    to: str
    what: tuple[str, ...] | None
    heads: str | None
    prompt: int | None
    rows: str | None
    keys: str | None
    top: int


@dataclass(frozen=True)
class _Written:
    """What was written."""

    count: int
    of: str  # "rows" or "arrays"


def export(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="A recording, or a folder of one per rank."
    ),
    to: str = typer.Option(..., help="csv, parquet, npz or safetensors."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="The file to write. Default: next to FILE, with the same name."
    ),
    what: str | None = typer.Option(
        None, help="What to export, see above. Default: statistics; for npz, all that was kept."
    ),
    heads: str | None = typer.Option(
        None, help="Heads to export: L0H0,L5,L*H3 … Default: all recorded heads."
    ),
    prompt: int | None = typer.Option(None, help="Index of the text. Default: all."),
    rows: str | None = typer.Option(None, metavar="A:B", help="Only rows A to B-1."),
    keys: str | None = typer.Option(None, metavar="C:D", help="Only keys C to D-1."),
    top: int = typer.Option(8, help="Top keys per row."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="Print a summary of the output as JSON."),
) -> None:
    """Write a recording as a table or as arrays.

    A table (csv, parquet) has one line per head (--what statistics), per row of a head (rows), per
    top key of a row (top), per key (received) or per nonzero weight (weights). Arrays (npz,
    safetensors) are named prompt/head/what, such as P0/L5H1/lse, and can be statistics, rows, lse,
    top, received, pooled, weights and qk; separate several with commas.

    In CSV, text that begins with = + - @ ' tab or carriage return is prefixed with an apostrophe so
    that no spreadsheet runs a token as a formula; remove it to get the token. Other formats store
    text unchanged.

    For BertViz and CircuitsVis, which draw dense matrices of short texts, use numpy.asarray of
    regard.open(FILE)["L0H0"], or --what weights --to npz.
    """
    wish = _Wish(to.lower(), _words(what), heads, prompt, rows, keys, top)
    _check(wish)
    path = output or _beside(file, wish)
    _check_output(file, path, overwrite=overwrite)
    written = _export(file, path, wish, overwrite)
    _report(path, wish, written, as_json)


def _words(what: str | None) -> tuple[str, ...] | None:
    return None if what is None else tuple(word.strip() for word in what.split(","))


def _check(wish: _Wish) -> None:
    """InputError for words that are not known or do not go together."""
    from regard.export import ARRAYS, TABLES

    if wish.to not in _FORMATS:
        raise InputError(f"--to {wish.to!r}: give one of {', '.join(_FORMATS)}")
    is_table = wish.to in _TABLES
    known = list(TABLES if is_table else ARRAYS)
    for word in wish.what or ():
        if word not in known:
            raise InputError(f"--what {word!r}: --to {wish.to} takes {', '.join(known)}")
    if is_table and len(wish.what or ()) > 1:
        raise InputError(f"--what {','.join(wish.what or ())}: a table holds one of them")
    if wish.top < 1:
        raise InputError(f"--top {wish.top}: give a number of keys ≥ 1")
    whole = set(wish.what or ("statistics",)) & {"statistics", "pooled"}
    for option, given in (("--rows", wish.rows), ("--keys", wish.keys)):
        if given is not None and whole:
            raise InputError(f"{option}: {whole.pop()} are of whole heads; leave out {option}")


def _check_output(file: Path, path: Path, *, overwrite: bool) -> None:
    """Nothing is in the way, and the recording itself least of all."""
    from regard.files import check_free

    if path.resolve() in (file.resolve(), *(one.resolve() for one in file.glob("*.regard"))):
        raise InputError(f"-o {path}: the recording itself; give another name")
    check_free(path, overwrite=overwrite)


def _beside(file: Path, wish: _Wish) -> Path:
    """run.regard → run.statistics.csv, run.npz."""
    name = file.resolve()
    stem = name.name if name.is_dir() else name.stem
    part = f".{(wish.what or ('statistics',))[0]}" if wish.to in _TABLES else ""
    return file.parent / f"{stem}{part}.{wish.to}"


def _export(file: Path, path: Path, wish: _Wish, overwrite: bool) -> _Written:
    import regard.recording
    from regard.files import appearing

    with regard.recording.open(file) as recording:
        chosen = _choose(recording, wish)
        _tell_if_unknown(chosen, wish)
        with appearing(path, overwrite=overwrite) as part:
            if wish.to in _TABLES:
                return _write_table(chosen, part, wish)
            return _write_arrays(recording, chosen, part, wish)


def _choose(recording: Recording, wish: _Wish) -> list[Chosen]:
    from regard.export import Chosen, matching

    first = pick_prompt(recording, wish.prompt or 0)
    wanted = recording.prompts if wish.prompt is None else [first]
    return [
        Chosen(
            one, head,
            parse_span("--rows", wish.rows, head.recorded, head.shape[0]),
            parse_span("--keys", wish.keys, range(head.shape[1])),
        )
        for one in wanted
        for head in matching(one, wish.heads)
    ]  # fmt: skip


def _tell_if_unknown(chosen: Sequence[Chosen], wish: _Wish) -> None:
    """Numbers that are left empty for want of single keys are explained once."""
    from regard.views.text import why_unknown

    if "statistics" in (wish.what or ("statistics",)):
        prompts = {one.prompt.number: one.prompt for one in chosen}.values()
        reasons = filter(None, (why_unknown(one, "sink") for one in prompts))
        for reason in sorted(set(reasons)):
            status().print(reason)


def _write_table(chosen: Sequence[Chosen], part: Path, wish: _Wish) -> _Written:
    from regard.export import make_table, write_csv, write_parquet

    table = make_table((wish.what or ("statistics",))[0], chosen, wish.top)
    done: list[int] = []
    with _progress(table.rows, "rows") as advance:

        def tell(count: int) -> None:
            done.append(count)
            advance(count)

        (write_csv if wish.to == "csv" else write_parquet)(table, part, tell)
    return _Written(sum(done), "rows")


def _write_arrays(
    recording: Recording, chosen: Sequence[Chosen], part: Path, wish: _Wish
) -> _Written:
    from regard.export import about, make_arrays, write_npz, write_safetensors

    arrays = make_arrays(wish.what, chosen, wish.top)
    facts = about(chosen, recording.model)
    with _progress(len(arrays), "arrays") as advance:
        (write_npz if wish.to == "npz" else write_safetensors)(arrays, part, facts, advance)
    return _Written(len(arrays), "arrays")


@contextmanager
def _progress(total: int, of: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where somebody is looking; it goes away at the end."""
    console = status()
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(of, total=total)
        yield lambda count: progress.advance(task, count)


def _report(path: Path, wish: _Wish, written: _Written, as_json: bool) -> None:
    size = path.stat().st_size
    if as_json:
        facts = {"file": str(path), "format": wish.to, written.of: written.count, "bytes": size}
        write_json(facts | {"what": wish.what})
        return
    write(f"written: {path} ({written.count:,} {written.of}, {size:,} bytes)")
