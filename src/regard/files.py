"""Files as a user names them: only regular ones are read or replaced, and what is written appears
whole or not at all.

A link is followed: the file it points at is read or replaced, the link stays.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import FileError, InputError

_LONGEST = 400  # characters of a path inside a message
_LARGE = 64_000_000  # bytes of a file that takes the system a while to free
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shown(path: str | os.PathLike[str]) -> str:
    """A path inside a message: control characters replaced, a very long one without its middle."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in os.fspath(path))
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def reason(error: Exception) -> str:
    """What the system says is wrong, without the path."""
    return getattr(error, "strerror", None) or str(error)


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def check_regular(path: Path) -> None:
    """OSError where the path names no regular file: a pipe would wait for its other end, a device
    may never end, and neither can be replaced."""
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind != stat.S_IFREG:
        raise OSError(0, f"{_KINDS.get(kind, 'something else')}, not a file", str(path))


def real(path: str | os.PathLike[str]) -> Path:
    """Where a path leads. A link that leads to itself stays as it is: whoever opens it is refused
    by the system, where pathlib would raise RuntimeError."""
    return Path(os.path.realpath(path))


def is_folder(path: Path) -> bool:
    """Whether the path names one; a name that the system does not take names none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading; OSError where there is none."""
    check_regular(path)
    return path.open("rb")


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def check_free(path: Path, *, overwrite: bool) -> None:
    """InputError where something is in the way that may not be replaced, before any work."""
    try:
        check_regular(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(path)}: {reason(error)}; give the name of a file") from None
    if not overwrite:
        raise InputError(f"{shown(path)}: exists already; give another name, or --overwrite")


def check_output(source: Path, path: Path, *, overwrite: bool) -> None:
    """InputError where `path` is the recording `source`, a file in its folder, or not free."""
    if real(path) in (real(source), *map(real, source.glob("*.regard"))):
        raise InputError(f"-o {shown(path)}: the recording itself; give another name")
    check_free(path, overwrite=overwrite)


def create_new(path: Path) -> int:
    """A descriptor of a file that was not there, with the permissions of any new file."""
    binary = getattr(os, "O_BINARY", 0)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | binary, 0o666)


def replace(part: Path, path: Path) -> None:
    """`part`, which is on the disk, becomes `path`; it takes over the permissions of an older
    file there."""
    target = real(path)
    with suppress(FileNotFoundError):  # nothing is replaced
        part.chmod(stat.S_IMODE(target.stat().st_mode))
    held = _hold(target)
    try:
        part.replace(target)
    finally:
        if held is not None:
            threading.Thread(target=os.close, args=(held,), name="regard-free", daemon=True).start()


def _hold(path: Path) -> int | None:
    """A large file keeps its space until this descriptor is closed, which a thread can wait for:
    the system takes half a second to free 2 GB. None where the caller may as well wait."""
    if not hasattr(os, "O_PATH"):  # another way of opening would keep Windows from replacing it
        return None
    with suppress(OSError):  # there is none, or it is freed at once
        if path.stat().st_size >= _LARGE:
            return os.open(path, os.O_PATH)
    return None


@contextmanager
def appearing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A path to write to. At the end of the block it becomes `path`; after an error it is gone."""
    check_free(path, overwrite=overwrite)
    folder = real(path).parent
    part = folder / f".regard-{secrets.token_hex(8)}.part"
    try:
        os.close(create_new(part))
    except (OSError, ValueError) as error:
        raise FileError(
            f"{shown(path)}: cannot be written there ({reason(error)}); give a folder that exists "
            "and may be written to"
        ) from None
    try:
        yield part
        _sync(part)
        check_free(path, overwrite=overwrite)  # somebody else may have been quicker
        replace(part, path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{shown(path)}: cannot be written ({reason(error)})") from None
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str, option: str, *, overwrite: bool) -> None:
    """A text file, whole or not at all. `option` is what the user typed before the name."""
    try:
        with appearing(path, overwrite=overwrite) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    except (InputError, FileError) as error:
        raise InputError(f"{option} {error}") from None


def _sync(path: Path) -> None:
    """On the disk, before its name says that it is whole."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
