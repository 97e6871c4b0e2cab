"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from regard.errors import InputError
from regard.learn.labels import printable

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write beside the target, then move over it: a reader never sees half a file."""
    name = printable(str(path))
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".regard-", suffix=".part")
    except OSError as error:
        raise InputError(
            f"--save {name}: cannot write there ({error.strerror}); give a folder that exists and "
            "may be written to"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(part).chmod(_mode())
        Path(part).replace(path)
    except OSError as error:
        raise InputError(f"--save {name}: cannot be written ({error.strerror})") from None
    finally:
        Path(part).unlink(missing_ok=True)


def _mode() -> int:
    """What a plain open() would have given; mkstemp gives the owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
