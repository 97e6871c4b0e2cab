"""`regard grade`: check hand calculations; name the first wrong step, and why where it shows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn.grade_report import Graded

__all__ = ["grade"]

_SUFFIXES = (".md", ".json")


def grade(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Markdown or JSON files, or folders of them."
    ),
    csv: str | None = typer.Option(
        None, "--csv", metavar="OUT.csv|-", help="Write one row per file, to a file or to stdout."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the verdicts as JSON."),
) -> None:
    """Check hand calculations: the first wrong step and cell, what is right, and why.

    A file gives any of these steps, as a heading and a table or bracketed rows, or as JSON:
    tokens, embeddings, w_q, w_k, w_v, Q, K, V, scores, scaled, weights, output. Exit status 0
    when all is right, 1 when something is not, 2 when a file cannot be graded.
    """
    from regard.learn.grade_report import grade_file

    if as_json and csv == "-":
        raise InputError("--json and --csv - both write to stdout; give --csv a file name")
    results = [grade_file(path) for path in _expand(files)]
    if len(results) == 1 and results[0].problem and not (as_json or csv):
        raise InputError(f"{results[0].name}: {results[0].problem}")
    if csv:
        _write_csv(csv, results)
    if as_json:
        _write_json(results)
    elif csv != "-":
        _write_report(results)
    raise typer.Exit(max(result.exit_code for result in results))


def _expand(given: Sequence[Path]) -> list[Path]:
    """Folders stand for the Markdown and JSON files in them; each file is graded once."""
    paths: dict[Path, None] = {}
    for path in given:
        paths.update(dict.fromkeys(_files(path)))
    return list(paths)


def _files(path: Path) -> list[Path]:
    from regard.learn.labels import quoted

    try:
        if not path.is_dir():
            return [path]
        found = sorted(p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES and p.is_file())
    except OSError as error:
        raise InputError(
            f"{quoted(str(path))} cannot be opened ({error.strerror}); give files or folders"
        ) from None
    if not found:
        raise InputError(f"the folder {quoted(str(path))} holds no .md or .json files to grade")
    return found


def _write_json(results: list[Graded]) -> None:
    from regard.cli.terminal import write_json
    from regard.learn.grade_report import tally

    write_json({"summary": tally(results), "files": [result.as_dict() for result in results]})


def _write_csv(out: str, results: list[Graded]) -> None:
    import csv
    import io
    import sys

    from regard.learn.grade_report import COLUMNS

    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_harmless(result.as_row()) for result in results)
    if out == "-":
        sys.stdout.write(text.getvalue())
    else:
        _replace(Path(out), text.getvalue())


def _harmless(row: dict[str, str]) -> dict[str, str]:
    """Words from a file that a spreadsheet would run as a formula are marked as text."""
    numbers = ("given", "right")
    return {
        name: f"'{text}" if text.startswith(("=", "+", "-", "@")) and name not in numbers else text
        for name, text in row.items()
    }


def _replace(path: Path, text: str) -> None:
    """Written beside its place and moved there: never half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"--csv {path}: cannot write there ({error.strerror}); give a folder that exists"
        ) from None


def _write_report(results: list[Graded]) -> None:
    from regard.cli import terminal
    from regard.learn.grade_report import full, one_line, tally
    from regard.learn.styled_lines import print_lines

    console = terminal.results()
    if len(results) == 1:
        print_lines(console, full(results[0]))
        return
    width = min(max(len(result.name) for result in results), 40)
    print_lines(console, [one_line(result, width) for result in results])
    print_lines(console, [[], [(f"{tally(results)}.", "bold")]])
