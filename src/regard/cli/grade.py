"""`regard grade`: check hand calculations; name the first wrong step, and why where it shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import print_lines, results, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn.grading import Graded

_SUFFIXES = (".md", ".json")


def grade(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Markdown or JSON files, or folders of them."
    ),
    csv: str | None = typer.Option(
        None, "--csv", metavar="OUT.csv|-", help="Write one row per file, to a file or to stdout."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace OUT.csv if it exists."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdicts as JSON."),
) -> None:
    """Check hand calculations; find the first wrong step and its cause.

    A file contains any of these steps, each as a heading followed by rows (tables, brackets,
    tuples, LaTeX, plain numbers), or as JSON: tokens, embeddings, w_q, w_k, w_v, Q, K, V, scores,
    scaled, masked, weights, output. Unreadable lines with numbers are listed. The exit status is 0
    if everything is right, 1 if something is wrong or unreadable, 2 if a file cannot be graded.
    """
    from regard.files import check_free
    from regard.learn.grading import grade_file

    if as_json and csv == "-":
        raise InputError("--json and --csv - both write to stdout; give --csv a file name")
    if csv and csv != "-":
        check_free(Path(csv), overwrite=overwrite)
    graded = [grade_file(path) for path in _expand(files)]
    if len(graded) == 1 and graded[0].problem and not (as_json or csv):
        raise InputError(f"{graded[0].name}: {graded[0].problem}")
    if csv:
        _write_csv(csv, graded, overwrite)
    if as_json:
        _write_json(graded)
    elif csv != "-":
        _write_report(graded)
    raise typer.Exit(max(one.exit_code for one in graded))


def _expand(given: Sequence[Path]) -> list[Path]:
    """Folders stand for the Markdown and JSON files in them; each file is graded once."""
    paths: dict[Path, None] = {}
    for path in given:
        paths.update(dict.fromkeys(_files(path)))
    return list(paths)


def _files(path: Path) -> list[Path]:
    from regard.learn.text import quoted

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


def _write_json(graded: list[Graded]) -> None:
    from regard.learn.grading import tally

    write_json({"summary": tally(graded), "files": [one.as_dict() for one in graded]})


def _write_csv(out: str, graded: list[Graded], overwrite: bool) -> None:
    import csv
    import io

    from regard.files import write_text
    from regard.learn.grading import COLUMNS

    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_harmless(one.as_row()) for one in graded)
    if out == "-":
        write(text.getvalue().removesuffix("\n"))
    else:
        write_text(Path(out), text.getvalue(), "--csv", overwrite=overwrite)


def _harmless(row: dict[str, str]) -> dict[str, str]:
    """Words from a file that a spreadsheet would run as a formula are marked as text."""
    from regard.export.tables import harmless

    numbers = ("given", "right")
    return {name: text if name in numbers else harmless(text) for name, text in row.items()}


def _write_report(graded: list[Graded]) -> None:
    from regard.learn.grading import full, one_line, tally

    console = results()
    if len(graded) == 1:
        print_lines(console, full(graded[0]))
        return
    width = min(max(len(one.name) for one in graded), 40)
    print_lines(console, [one_line(one, width) for one in graded])
    print_lines(console, [[], [(f"{tally(graded)}.", "bold")]])
