"""`regard verify`: every byte of a recording checked, and a torn tail cut off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.terminal import write, write_json
from regard.errors import FileError

if TYPE_CHECKING:
    from regard.recording import Report

_MOST = 20  # damages shown per file


def verify(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Recordings, or folders of one recording per rank."
    ),
    repair: bool = typer.Option(
        False, "--repair", help="Cut off an incomplete end and rewrite the index."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
) -> None:
    """Check every byte of a recording, and repair its end.

    If the recording process was killed, the file was never closed. It holds what was written until
    then; how much is missing is unknown. --repair never changes a part that can be read.

    The exit status is 0 if the file is intact (after --repair: is now intact), 1 if it is damaged
    or was not closed, 3 if it is not a recording or cannot be read.
    """
    answers = [_answer(path, repair) for path in _expand(files)]
    if as_json:
        write_json({"files": [_as_dict(path, answer) for path, answer in answers]})
    elif len(answers) == 1 and isinstance(answers[0][1], FileError):
        raise answers[0][1]
    else:
        for path, answer in answers:
            write("\n".join(_lines(path, answer)))
    raise typer.Exit(max(_status(answer) for _, answer in answers))


def _expand(given: list[Path]) -> list[Path]:
    """Folders stand for their files, of ranks or of documents; each file is checked once."""
    from regard.files import is_folder

    paths = [file for path in given for file in (_files(path) if is_folder(path) else [path])]
    return list(dict.fromkeys(paths))


def _files(folder: Path) -> list[Path]:
    from regard.recording.format.frames import rank_files
    from regard.recording.shards import shard_files

    return shard_files(folder) or list(rank_files(folder).values())


def _answer(path: Path, is_repaired: bool) -> tuple[Path, Report | FileError]:
    from regard import recording

    try:
        return path, recording.repair(path) if is_repaired else recording.check(path)
    except FileError as error:
        return path, error


def _status(answer: Report | FileError) -> int:
    if isinstance(answer, FileError):
        return answer.exit_code
    return 0 if answer.is_whole and not answer.was_stopped else 1


def _as_dict(path: Path, answer: Report | FileError) -> dict[str, Any]:
    from dataclasses import asdict

    from regard.files import shown

    if isinstance(answer, FileError):
        return {"file": shown(path), "problem": str(answer)}
    damage = [
        {"offset": one.offset, "length": one.length, "reason": one.reason} for one in answer.damage
    ]
    states = {"is_whole": answer.is_whole, "was_stopped": answer.was_stopped}
    return asdict(answer) | states | {"damage": damage, "problem": None}


def _lines(path: Path, answer: Report | FileError) -> list[str]:
    if isinstance(answer, FileError):
        return [str(answer)]
    rest = len(answer.damage) - _MOST
    return [
        f"{answer.file}: {_state(answer)}; {_count(answer.frames, 'frame')}, "
        f"{_count(answer.tensors, 'tensor')}, {answer.size} bytes{_remark(answer)}",
        *(f"  byte {d.offset}, {d.length} bytes: {d.reason}" for d in answer.damage[:_MOST]),
        *([f"  and {rest} more"] if rest > 0 else []),
        *([f"  {_stopped(answer)}"] if answer.was_stopped else []),
    ]


def _state(report: Report) -> str:
    damaged = f"{len(report.damage)} damaged"
    if report.was_stopped:
        return "not closed" if report.is_whole else f"not closed, {damaged}"
    whole = "whole so far" if report.is_live else "whole"
    return whole if report.is_whole else damaged


def _remark(report: Report) -> str:
    """What a reader may miss in a file that is otherwise fine."""
    if report.is_live:
        return ", still being written"
    if report.finished < report.prompts and not report.was_stopped:
        return f", {report.finished} of {_count(report.prompts, 'prompt')} read to the end"
    return ""


def _stopped(report: Report) -> str:
    """What is there of a recording that was not closed, and what is not."""
    there = f"recovered: {_count(report.tensors, 'tensor')}"
    if report.prompts:
        begun = _count(report.prompts, "prompt")
        there += f", {report.finished} of {begun} read to the end"
    return (
        f"{there}; the recording was not closed: its index, and whatever was to follow, is "
        "missing; --repair writes the index"
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
