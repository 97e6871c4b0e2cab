"""Every test that may be skipped stands on the ledger, with the condition that removes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from house.checks.source import DEFINITIONS

SKIPPERS = ("skip", "skipif", "importorskip", "xfail")
ENTRY = re.compile(r"^\|\s*`(?P<test>[^`]+)`\s*\|(?P<removed>.*)\|\s*$", re.MULTILINE)


def unlisted(tests: Path, ledger: str = "SKIPS.md") -> list[str]:
    """Skips that the ledger does not know, entries without a condition, entries for nothing."""
    path = tests / ledger
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    entries = {match["test"]: match["removed"].strip(" |") for match in ENTRY.finditer(text)}
    places = skipped(tests)
    known = {name for place in places for name in (place, place.partition("::")[0])}
    wrong = [f"{p} is not in {ledger}" for p in places if not _is_listed(p, entries)]
    wrong += [f"{ledger}: {t} says no condition" for t, why in entries.items() if not why]
    wrong += [f"{ledger}: {t} skips nothing" for t in entries if t not in known]
    return wrong


def skipped(tests: Path) -> list[str]:
    """Places that skip: `tests/a/test_b.py::test_c`, or the file alone at module level."""
    found: list[str] = []
    for path in sorted(tests.rglob("*.py")):
        name = path.relative_to(tests.parent).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            place = f"{name}::{node.name}" if isinstance(node, DEFINITIONS) else name
            if _skips(node) and place not in found:
                found.append(place)
    return found


def _is_listed(place: str, entries: dict[str, str]) -> bool:
    return place in entries or place.partition("::")[0] in entries


def _skips(node: ast.AST) -> bool:
    """pytest.skip, pytest.importorskip, pytest.mark.skipif and the like, also by bare name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in SKIPPERS:
            if ast.unparse(inner).startswith(("pytest.", "unittest.", "mark.")):
                return True
        if isinstance(inner, ast.ImportFrom) and inner.module in ("pytest", "unittest"):
            if any(alias.name in SKIPPERS for alias in inner.names):
                return True
    return False
