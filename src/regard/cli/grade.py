"""`regard grade`: check hand calculations; name the first wrong step, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import advancing, print_lines, results, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from regard.learn.grading import Graded
    from regard.learn.worksheets import GradedSheet

    Submitted: TypeAlias = Graded | GradedSheet

_SUFFIXES = (".md", ".json", ".py")  # Python is answered, by what became of grading it
_STATISTICS = (".json", ".csv")


def with_values(words: Sequence[str]) -> list[str]:
    """`--statistics` may stand alone: then it prints, which is spelt `--statistics -`."""
    out: list[str] = []
    for at, word in enumerate(words):
        out.append(word)
        following = words[at + 1] if at + 1 < len(words) else "--"
        is_input = Path(following).suffix.lower() not in _STATISTICS and Path(following).exists()
        if word == "--statistics" and (is_input or (following[:1] == "-" and following != "-")):
            out.append("-")
    return out


def grade(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Markdown or JSON files, or folders of them."
    ),
    csv: str | None = typer.Option(
        None, "--csv", metavar="OUT.csv|-", help="Write one row per file, to a file or to stdout."
    ),
    statistics: str | None = typer.Option(
        None,
        "--statistics",
        metavar="[OUT.json|OUT.csv]",
        help="Print anonymous statistics of the most frequent first mistakes, or write them.",
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdicts as JSON."),
) -> None:
    """Check hand calculations; find the first wrong step and why.

    A Markdown file may be a sheet of `regard learn --exercise`, filled in. Any other Markdown or
    JSON file contains any of these steps, each as a heading followed by rows
    (tables, brackets, tuples, LaTeX, plain numbers), or as JSON: tokens, embeddings, w_q, w_k,
    w_v, Q, K, V, scores, scaled, masked, weights, output. Unreadable lines with numbers are
    listed. The exit status is 0 if everything is right, 1 if something is wrong or unreadable, 2
    if a file cannot be graded.
    """
    from regard.files import check_free

    if as_json and csv == "-":
        raise InputError("--json and --csv - both write to stdout; give --csv a file name")
    if csv and csv != "-":
        check_free(Path(csv), overwrite=overwrite)
    _check_statistics(statistics, overwrite=overwrite, stdout_is_taken=as_json or csv == "-")
    graded = _graded(_expand(files))
    if len(graded) == 1 and graded[0].problem and not (as_json or csv):
        raise InputError(f"{graded[0].name}: {graded[0].problem}")
    if csv:
        _write_csv(csv, graded, overwrite)
    if statistics:
        _write_statistics(statistics, graded, overwrite)
    if as_json:
        _write_json(graded)
    elif "-" not in (csv, statistics):
        _write_report(graded)
    raise typer.Exit(max(one.exit_code for one in graded))


def _graded(paths: list[Path]) -> list[Submitted]:
    from regard.learn.worksheets import grade_written

    graded: list[Submitted] = []
    with advancing("grading") as advance:
        for path in paths:
            graded.append(grade_written(path))
            advance(len(graded), len(paths))
    return graded


def _check_statistics(out: str | None, *, overwrite: bool, stdout_is_taken: bool) -> None:
    from regard.files import check_free, shown

    if out == "-" and stdout_is_taken:
        raise InputError(
            "--statistics and --json or --csv - all write to stdout; give --statistics a file name"
        )
    if out and out != "-":
        if Path(out).suffix.lower() not in _STATISTICS:
            raise InputError(
                f"--statistics {shown(out)}: not a kind of file this writes; give a name that ends "
                f"in {' or '.join(_STATISTICS)}, or nothing to print them"
            )
        check_free(Path(out), overwrite=overwrite)


def _write_statistics(out: str, graded: list[Submitted], overwrite: bool) -> None:
    import json

    from regard.files import write_text
    from regard.learn.grading import statistics

    counted = statistics(graded)
    if out == "-":
        print_lines(results(), counted.lines())
        return
    text = json.dumps(counted.as_dict(), indent=2) + "\n"
    if Path(out).suffix.lower() == ".csv":
        text = counted.as_csv()
    write_text(Path(out), text, "--statistics", overwrite=overwrite)


def _expand(given: Sequence[Path]) -> list[Path]:
    """Folders stand for the gradable files in them; each file is graded once."""
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


def _write_json(graded: list[Submitted]) -> None:
    from regard.learn.grading import tally

    write_json({"summary": tally(graded), "files": [one.as_dict() for one in graded]})


def _write_csv(out: str, graded: list[Submitted], overwrite: bool) -> None:
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

    numbers = ("given", "right", "checked", "blank")
    return {name: text if name in numbers else harmless(text) for name, text in row.items()}


def _write_report(graded: list[Submitted]) -> None:
    from regard.learn.grading import Graded, full, one_line, tally

    console = results()
    if len(graded) == 1:
        only = graded[0]
        print_lines(console, full(only) if isinstance(only, Graded) else only.full())
        return
    width = min(max(len(one.name) for one in graded), 40)
    for one in graded:
        line = one_line(one, width) if isinstance(one, Graded) else one.one_line(width)
        print_lines(console, [line])
    print_lines(console, [[], [(f"{tally(graded)}.", "bold")]])
