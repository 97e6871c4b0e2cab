"""A file that appears whole or not at all: written beside its place, then moved there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import FileError, InputError
from regard.recording.source import shown

__all__ = ["appearing", "check_free"]


def check_free(path: Path, *, overwrite: bool) -> None:
    """InputError where something is in the way, before any work is done."""
    if path.is_dir():
        raise InputError(f"{shown(path)}: a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise InputError(f"{shown(path)}: exists already; give another name, or --overwrite")


@contextmanager
def appearing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A path to write to. At the end of the block it becomes `path`; after an error it is gone."""
    check_free(path, overwrite=overwrite)
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".regard-", suffix=".part")
        os.close(handle)
    except (OSError, ValueError) as error:
        raise FileError(
            f"{shown(path)}: cannot be written there ({_reason(error)}); give a folder that exists "
            "and may be written to"
        ) from None
    try:
        yield Path(part)
        Path(part).chmod(_mode())
        check_free(path, overwrite=overwrite)  # somebody else may have been quicker
        Path(part).replace(path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{shown(path)}: cannot be written ({_reason(error)})") from None
    finally:
        Path(part).unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _mode() -> int:
    """What a plain open() would have given; mkstemp gives the owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
