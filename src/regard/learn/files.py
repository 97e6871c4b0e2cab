"""Text files of a learner; what goes wrong names the file."""

from __future__ import annotations

from pathlib import Path

from regard.errors import InputError
from regard.files import open_file, reason, shown


def read_text(path: Path, *, mib: int, wanted: str) -> str:
    """The text of a file of at most `mib` MiB; an error says what was `wanted`."""
    try:
        with open_file(path) as file:
            content = file.read((mib << 20) + 1)
        if len(content) <= mib << 20:
            return content.decode("utf-8-sig")
        problem = f"more than {mib} MiB"
    except UnicodeDecodeError:
        problem = "not UTF-8 text"
    except FileNotFoundError:
        problem = "no such file"
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({reason(error)})"
    raise InputError(f"{shown(path)}: {problem}; give {wanted}")
