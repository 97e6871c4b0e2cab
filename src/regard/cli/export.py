"""`regard export`: a recording as a table or as arrays, for other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.spans import read_span
from regard.cli.terminal import status, write, write_json
from regard.errors import InputError
from regard.files import check_output, real

if TYPE_CHECKING:
    from regard.recording import PromptView, Recording

_TABLES = ("csv", "parquet")
_FORMATS = (*_TABLES, "npz", "safetensors")


def export(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="A recording, or a folder of one per rank."
    ),
    to: str = typer.Option(..., help="Format: csv, parquet, npz or safetensors."),
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

    A table (csv, parquet) has one line per head (--what statistics; merged: over all texts), per
    row of a head (rows), per top key of a row (top), per key (received), per nonzero weight
    (weights), per position of a layer's queries and keys (positions) or per label of a head
    (findings). Rows and keys that are patches of a picture have their frame, row and column beside
    them, and moments of a sound their seconds. Of a training run it has one line per step, head
    and statistic (training; the loss has lines of its own, without a head) or per alarm (alarms).
    In Python it is regard.open(FILE).table(WHAT).

    Arrays (npz, safetensors) are named prompt/head/what, such as P0/L5H1/lse, and can be
    statistics, rows, lse, top, received, pooled, weights and qk; separate several with commas.

    In CSV, text that begins with = + - @ ' tab or carriage return is prefixed with an apostrophe so
    that no spreadsheet runs a token as a formula; remove it to get the token. Other formats store
    text unchanged.

    For BertViz and CircuitsVis, which draw dense matrices of short texts, use numpy.asarray of
    regard.open(FILE)["L0H0"], or --what weights --to npz.
    """
    to, words = to.lower(), None if what is None else [one.strip() for one in what.split(",")]
    part: dict[str, Any] = {
        "heads": heads, "prompt": prompt, "rows": read_span("--rows", rows),
        "keys": read_span("--keys", keys), "top": top,
    }  # fmt: skip
    _check(to, words, part)
    path = output or _beside(file, to, words)
    check_output(file, path, overwrite=overwrite)
    count, of = _export(file, path, to, words, part, overwrite)
    size = path.stat().st_size
    if as_json:
        write_json({"file": str(path), "format": to, of: count, "bytes": size, "what": words})
    else:
        write(f"written: {path} ({count:,} {of}, {size:,} bytes)")


def _check(to: str, words: Sequence[str] | None, part: dict[str, Any]) -> None:
    """InputError for words that are not known or do not go together."""
    from regard.export import ARRAYS
    from regard.views.table import TABLES

    if to not in _FORMATS:
        raise InputError(f"--to {to!r}: give one of {', '.join(_FORMATS)}")
    known = list(TABLES if to in _TABLES else ARRAYS)
    for word in words or ():
        if word not in known:
            raise InputError(f"--what {word!r}: --to {to} takes {', '.join(known)}")
    if to in _TABLES and len(words or ()) > 1:
        raise InputError(f"--what {','.join(words or ())}: a table holds one of them")
    if part["top"] < 1:
        raise InputError(f"--top {part['top']}: give a number of keys ≥ 1")
    whole = set(words or ("statistics",)) & {"statistics", "pooled"}
    for option in ("rows", "keys"):
        if part[option] is not None and whole:
            raise InputError(f"--{option}: {whole.pop()} are of whole heads; leave out --{option}")


def _beside(file: Path, to: str, words: Sequence[str] | None) -> Path:
    """run.regard → run.statistics.csv, run.npz."""
    name = real(file)
    stem = name.name if name.is_dir() else name.stem
    table = f".{(words or ['statistics'])[0]}" if to in _TABLES else ""
    return file.parent / f"{stem}{table}.{to}"


def _export(
    file: Path, path: Path, to: str, words: Sequence[str] | None, part: dict[str, Any],
    overwrite: bool,
) -> tuple[int, str]:  # fmt: skip
    """How many rows or arrays were written."""
    import regard.recording
    from regard.files import appearing
    from regard.views.parts import Selection

    with regard.recording.open(file) as recording:
        if "statistics" in (words or ("statistics",)):
            _tell_if_unknown(Selection(recording, **part).prompts)
        with appearing(path, overwrite=overwrite) as place:
            if to in _TABLES:
                return _write_table(recording, place, to, words or ["statistics"], part), "rows"
            return _write_arrays(recording, place, to, words, part), "arrays"


def _tell_if_unknown(prompts: Sequence[PromptView]) -> None:
    """Numbers that are left empty for want of single keys are explained once."""
    from regard.views.text import why_unknown

    for reason in sorted(set(filter(None, (why_unknown(one, "sink") for one in prompts)))):
        status().print(reason)


def _write_table(
    recording: Recording, place: Path, to: str, words: Sequence[str], part: dict[str, Any]
) -> int:
    from regard.export import write_csv, write_parquet

    table = recording.table(words[0], **part)
    lengths: list[int] = []
    with _progress(table.at_most, "rows") as advance:

        def tell(count: int) -> None:
            lengths.append(count)
            advance(count)

        (write_csv if to == "csv" else write_parquet)(table, place, tell)
    return sum(lengths)


def _write_arrays(
    recording: Recording, place: Path, to: str, words: Sequence[str] | None, part: dict[str, Any]
) -> int:
    from regard.export import about, make_arrays, write_npz, write_safetensors
    from regard.views.parts import Selection

    chosen = list(Selection(recording, **part).parts())
    arrays = make_arrays(words, chosen, part["top"])
    with _progress(len(arrays), "arrays") as advance:
        facts = about(chosen, recording.model)
        (write_npz if to == "npz" else write_safetensors)(arrays, place, facts, advance)
    return len(arrays)


@contextmanager
def _progress(total: int | None, of: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where somebody is looking; it goes away at the end."""
    console = status()
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(of, total=total)
        yield lambda count: progress.advance(task, count)
