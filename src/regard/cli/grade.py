"""`regard grade`: check hand calculations and code; name the first wrong step, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import print_lines, results, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn.grading import Graded
    from regard.learn.programs import GradedCode

_SUFFIXES = (".md", ".json", ".py")


def grade(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Markdown, JSON or Python files, or folders of them."
    ),
    csv: str | None = typer.Option(
        None, "--csv", metavar="OUT.csv|-", help="Write one row per file, to a file or to stdout."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace OUT.csv if it exists."),
    as_json: bool = typer.Option(False, "--json", help="Print the verdicts as JSON."),
    entry: str = typer.Option(
        "", "--entry", metavar="NAME", help="The function or class to grade in Python files."
    ),
    timeout: float = typer.Option(
        20.0, "--timeout", metavar="SECONDS", min=0.1, help="Stop a Python file that runs longer."
    ),
    course: str = typer.Option(
        "",
        "--for",
        metavar="TOOL",
        help="Print one Python file's results as JSON for gradescope, otter or nbgrader.",
    ),
) -> None:
    """Check calculations or code; find the first wrong step and why.

    A Python file contains attention as a function or a class, in numpy or torch. It runs in a
    process of its own, with limits, beside the definition on small inputs.

    A Markdown or JSON file contains any of these steps, each as a heading followed by rows
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
    _check_course(course, as_json, csv)
    graded = _graded(_expand(files), entry, timeout)
    if course:
        _write_course(course, graded)
        raise typer.Exit(max(one.exit_code for one in graded))
    if len(graded) == 1 and graded[0].problem and not (as_json or csv):
        raise InputError(f"{graded[0].name}: {graded[0].problem}")
    if csv:
        _write_csv(csv, graded, overwrite)
    if as_json:
        _write_json(graded)
    elif csv != "-":
        _write_report(graded)
    raise typer.Exit(max(one.exit_code for one in graded))


def _graded(paths: list[Path], entry: str, timeout: float) -> list[Graded | GradedCode]:
    """Code in child processes, all at once; hand calculations here."""
    from regard.learn.grading import grade_file
    from regard.learn.programs import grade_code

    code = [path for path in paths if path.suffix.lower() == ".py"]
    if entry and not code:
        raise InputError("--entry chooses a function or class of a .py file; none is given")
    done = dict(zip(code, grade_code(code, entry, timeout), strict=True))
    return [done.get(path) or grade_file(path) for path in paths]


def _check_course(course: str, as_json: bool, csv: str | None) -> None:
    from regard.learn.programs import FORMATS

    if course and course not in FORMATS:
        raise InputError(f"--for '{course}' is not known; use {', '.join(FORMATS)}")
    if course and (as_json or csv):
        raise InputError("--for writes JSON of its own; leave out --json and --csv")


def _write_course(course: str, graded: list[Graded | GradedCode]) -> None:
    from regard.learn.programs import GradedCode, as_format

    if len(graded) != 1 or not isinstance(graded[0], GradedCode):
        raise InputError(f"--for {course} takes one .py file; {len(graded)} files were given")
    write_json(as_format(graded[0], course))


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
        raise InputError(
            f"the folder {quoted(str(path))} holds no .md, .json or .py files to grade"
        )
    return found


def _write_json(graded: list[Graded | GradedCode]) -> None:
    from regard.learn.grading import tally

    write_json({"summary": tally(graded), "files": [one.as_dict() for one in graded]})


def _write_csv(out: str, graded: list[Graded | GradedCode], overwrite: bool) -> None:
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


def _write_report(graded: list[Graded | GradedCode]) -> None:
    from regard.learn.grading import full, one_line, tally
    from regard.learn.programs import GradedCode

    console = results()
    if len(graded) == 1:
        only = graded[0]
        print_lines(console, only.full() if isinstance(only, GradedCode) else full(only))
        return
    width = min(max(len(one.name) for one in graded), 40)
    for one in graded:
        line = one.one_line(width) if isinstance(one, GradedCode) else one_line(one, width)
        print_lines(console, [line])
    print_lines(console, [[], [(f"{tally(graded)}.", "bold")]])
