"""One sentence for what a student's file raises."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

MEMORY: Final = "asks for more memory than is allowed"


class StoppedError(Exception):
    """The file cannot be graded, for this reason."""

    def __init__(self, problem: str, failed: bool = True) -> None:
        super().__init__(problem)
        self.failed = failed


def said(error: BaseException, path: Path) -> tuple[str, int]:
    """One sentence for an exception, with the last line in the student's file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno or 0 for one in frames if one.filename == str(path)]
    line = lines[-1] if lines else 0
    words = " ".join(str(error).split())[:160]
    if isinstance(error, SystemExit):
        return f"line {line} ends the program (sys.exit)", line
    if isinstance(error, MemoryError) or "allocate memory" in words:
        return f"line {line} {MEMORY}", line
    if isinstance(error, ModuleNotFoundError):
        return f"line {line} imports {error.name}, which is not installed", line
    where = f"line {line} raises " if line else ""
    return f"{where}{type(error).__name__}{': ' if words else ''}{words}", line
