"""Files read and written whole, or not at all; what goes wrong names the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from regard.errors import InputError
from regard.learn.text import printable

__all__ = ["read_text", "write_text"]


def read_text(path: Path, *, mib: int, wanted: str) -> str:
    """The text of a file of at most `mib` MiB; an error says what was `wanted`."""
    try:
        with path.open("rb") as file:
            content = file.read((mib << 20) + 1)
        if len(content) <= mib << 20:
            return content.decode("utf-8-sig")
        problem = f"more than {mib} MiB"
    except UnicodeDecodeError:
        problem = "not UTF-8 text"
    except FileNotFoundError:
        problem = "no such file"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    raise InputError(f"{printable(str(path))}: {problem}; give {wanted}")


def write_text(path: Path, text: str, option: str) -> None:
    """Write beside the target, then move over it: a reader never sees half a file.

    `option` is what the user typed before the name.
    """
    name = f"{option} {printable(str(path))}"
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".regard-", suffix=".part")
    except OSError as error:
        raise InputError(
            f"{name}: cannot write there ({error.strerror}); give a folder that exists and "
            "may be written to"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(part).chmod(_mode())
        Path(part).replace(path)
    except OSError as error:
        raise InputError(f"{name}: cannot be written ({error.strerror})") from None
    finally:
        Path(part).unlink(missing_ok=True)


def _mode() -> int:
    """What a plain open() would have given; mkstemp gives the owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
