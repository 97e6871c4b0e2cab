"""Where the command line writes: stdout for results, stderr for everything else."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["results", "status", "write_json"]


def results() -> Console:
    """The console for results; colour only on a terminal and without NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def status() -> Console:
    """The console for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def write_json(value: Any) -> None:
    """One JSON document on stdout. NaN and infinities are errors, never invalid JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
