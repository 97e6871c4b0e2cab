"""One sheet per seed in a folder, the keys in a folder beside it: all of them or none."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import InputError
from regard.files import reason, shown
from regard.learn.text import quoted
from regard.learn.worksheets.sheet import Sheet

_MOST = 10_000
_FILES = (".md", ".json", ".html", ".txt", ".csv", ".pdf", ".zip")  # no name of a folder


def seeds_of(text: str) -> list[int]:
    """The seeds of "7" or "1:200", both ends included."""
    found = re.fullmatch(r"([0-9]{1,15})(?::([0-9]{1,15}))?", text.strip())
    if not found:
        raise InputError(
            f"--exercise {quoted(text)}: give a seed ≥ 0, as in --exercise 7, or a range, as in "
            "--exercise 1:200"
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if not first <= last < first + _MOST:
        raise InputError(
            f"--exercise {text}: give a range that goes up and has at most {_MOST:,} seeds, as in "
            "--exercise 1:200"
        )
    return list(range(first, last + 1))


def save_sheets(
    folder: Path,
    seeds: list[int],
    make: Callable[[int], Sheet],
    *,
    name: str,
    overwrite: bool,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write FOLDER/NAME-001.md … and FOLDER-keys/NAME-001.md …; how many sheets were written.

    The keys stand apart, so that the folder can be handed out as it is. Both are made in a folder
    beside them and then moved; in one that exists, files of the same names are replaced.
    """
    for one in (folder, keys_of(folder)):
        _check_folder(one, overwrite=overwrite)
    if folder.suffix.lower() in _FILES and not folder.is_dir():
        raise InputError(
            f"--save {shown(folder)}: {len(seeds):,} sheets need a folder, and this is the name of "
            f"a file; give --save {shown(folder.with_suffix(''))}"
        )
    width = max(3, len(str(seeds[-1])))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".regard-", suffix=".part", dir=folder.parent))
    except OSError as error:
        raise InputError(f"--save {shown(folder)}: cannot be written ({reason(error)})") from None
    try:
        for kind in ("sheets", "keys"):
            (part / kind).mkdir()
        for done, seed in enumerate(seeds, 1):
            sheet, file = make(seed), f"{name}-{seed:0{width}}.md"
            for path, text in (
                (part / "sheets" / file, sheet.text),
                (part / "keys" / file, sheet.key),
            ):
                path.write_text(text + "\n", encoding="utf-8", newline="\n")
            advance(done, len(seeds))
        with _undisturbed():
            _move(part / "keys", keys_of(folder))
            _move(part / "sheets", folder)
    except OSError as error:
        raise InputError(f"--save {shown(folder)}: cannot be written ({reason(error)})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return len(seeds)


def keys_of(folder: Path) -> Path:
    """Where the keys of a folder of sheets stand: sheets-keys beside sheets."""
    whole = folder.absolute()
    return (
        folder.with_name(f"{folder.name}-keys")
        if folder.name
        else whole.with_name(f"{whole.name}-keys")
    )


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        is_file = taken and not folder.is_dir()
    except OSError as error:
        raise InputError(f"--save {shown(folder)}: cannot be opened ({reason(error)})") from None
    if is_file:
        raise InputError(f"--save {shown(folder)}: is a file; a range of seeds needs a folder")
    if taken and not overwrite:
        raise InputError(
            f"--save {shown(folder)}: exists already and is not empty; give another folder, or "
            "--overwrite"
        )


def _move(part: Path, folder: Path) -> None:
    if not folder.exists():
        part.chmod(0o777 & ~_umask())  # that of any new folder
        part.replace(folder)
        return
    for file in sorted(part.glob("*.md")):
        file.replace(folder / file.name)


def _umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the files have their names."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
