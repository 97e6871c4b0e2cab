"""Problems drawn at random. Each other module of this folder whose name begins with a letter is
an area with `check(seed: int)`, which draws the problem that the seed names and raises where
something is wrong.

The suite runs the first `SEEDS` of each area (20 where it does not say so); `python -m fuzz` draws
new ones.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")
_OTHERS = ("test_fuzz",)


def areas() -> list[str]:
    """The names of all areas."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    return [name for name in names if name not in _OTHERS and name[0] != "_"]


def load(area: str) -> ModuleType:
    """An area's module."""
    return importlib.import_module(f"fuzz.{area}")


def seeds_of(area: str) -> range:
    """The seeds that the suite runs."""
    return range(getattr(load(area), "SEEDS", 20))


def failure(check: Callable[[int], None], seed: int) -> Exception | None:
    """What a check raised; None where it passed."""
    try:
        check(seed)
    except Exception as wrong:  # noqa: BLE001 - whatever a check raises is its report
        return wrong
    return None
