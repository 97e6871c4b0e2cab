"""Every test that may be skipped stands on the ledger, with the condition that removes it."""

from __future__ import annotations

import ast
import re

from house.checks.source import DEFINITIONS, Sources

LEDGER = "tests/SKIPS.md"
SKIPPERS = ("skip", "skipif", "importorskip", "xfail")
ENTRY = re.compile(r"^\|\s*`(?P<test>[^`]+)`\s*\|(?P<removed>.*)\|\s*$", re.MULTILINE)


def unlisted(sources: Sources) -> list[str]:
    """Skips that the ledger does not have, entries without a condition, entries for nothing."""
    text = sources[LEDGER].text if LEDGER in sources else ""
    entries = {match["test"]: match["removed"].strip(" |") for match in ENTRY.finditer(text)}
    places = skipped(sources)
    known = {name for place in places for name in (place, place.partition("::")[0])}
    wrong = [f"{p} is not in {LEDGER}" for p in places if not _is_listed(p, entries)]
    wrong += [f"{LEDGER}: {t} has no condition" for t, why in entries.items() if not why]
    wrong += [f"{LEDGER}: {t} skips nothing" for t in entries if t not in known]
    return wrong


def skipped(sources: Sources) -> list[str]:
    """Places that skip: `tests/a/test_b.py::test_c`, or the file alone at module level."""
    places: dict[str, None] = {}
    for source in sources.below("tests"):
        if not any(word in source.text for word in SKIPPERS):
            continue
        for node in source.tree.body:
            place = f"{source.path}::{node.name}" if isinstance(node, DEFINITIONS) else source.path
            if _skips(node):
                places[place] = None
    return list(places)


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
