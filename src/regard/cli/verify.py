"""`regard verify`: every byte of a recording checked, and a torn tail cut off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.terminal import write, write_json
from regard.errors import FileError

if TYPE_CHECKING:
    from regard.recording import Report

__all__ = ["verify"]

_MOST = 20  # damages shown per file


def verify(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Recordings, or folders of one recording per rank."
    ),
    repair: bool = typer.Option(
        False, "--repair", help="Cut off a torn tail and write the index anew."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
) -> None:
    """Check every byte of a recording, and repair its end.

    Repairing never touches a frame that can be read. Exit status 0 where all is well (after
    --repair: is well now), 1 where there is damage, 3 where a file is no recording or cannot be
    read.
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
    paths = [file for path in given for file in (_files(path) if path.is_dir() else [path])]
    return list(dict.fromkeys(paths))


def _files(folder: Path) -> list[Path]:
    from regard.recording.folder import rank_files
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
    return 0 if answer.is_whole else 1


def _as_dict(path: Path, answer: Report | FileError) -> dict[str, Any]:
    from dataclasses import asdict

    from regard.recording.source import shown

    if isinstance(answer, FileError):
        return {"file": shown(path), "problem": str(answer)}
    damage = [
        {"offset": one.offset, "length": one.length, "reason": one.reason} for one in answer.damage
    ]
    return asdict(answer) | {"is_whole": answer.is_whole, "damage": damage, "problem": None}


def _lines(path: Path, answer: Report | FileError) -> list[str]:
    if isinstance(answer, FileError):
        return [str(answer)]
    state = "whole" if answer.is_whole else f"{len(answer.damage)} damaged"
    remark = "" if answer.is_closed else ", still being written" if answer.is_live else ", no index"
    head = (
        f"{answer.file}: {state}; {_count(answer.frames, 'frame')}, "
        f"{_count(answer.tensors, 'tensor')}, {answer.size} bytes{remark}"
    )
    rest = len(answer.damage) - _MOST
    return [
        head,
        *(f"  byte {d.offset}, {d.length} bytes: {d.reason}" for d in answer.damage[:_MOST]),
        *([f"  and {rest} more"] if rest > 0 else []),
    ]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
