"""`python -m support.families [name …]`: every model type of transformers, or some."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

from support.families.examination import KINDS, Outcome, outcomes
from support.families.shrink import names
from support.families.tables import page, sight_page


def main(words: list[str] | None = None) -> int:
    """Examine, with progress on stderr; 1 where anything is wrong or crashed, 2 for bad usage."""
    parser = argparse.ArgumentParser("python -m support.families", description=__doc__)
    parser.add_argument("names", nargs="*", help="model types; all where none is named")
    parser.add_argument("--json", action="store_true", help="the outcomes on stdout")
    parser.add_argument("--pages", type=Path, help="write the tables into this folder: docs")
    given = parser.parse_args(words)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # for the processes: nothing is fetched
    if unknown := sorted(set(given.names) - set(names())):
        parser.error(f"transformers has no model type {', '.join(unknown)}")
    if given.pages and given.names:
        parser.error("--pages writes tables of all model types; leave the names out")
    found = sorted(_examined(given.names or names()), key=lambda one: one.name)
    counts = Counter(one.kind for one in found)
    print(", ".join(f"{kind} {counts[kind]}" for kind in KINDS), file=sys.stderr)
    if given.json:
        print(json.dumps([one.as_json() for one in found], indent=1))
    if given.pages:
        (given.pages / "families.md").write_text(page(found), encoding="utf-8")
        (given.pages / "check-families.md").write_text(sight_page(found), encoding="utf-8")
    return 1 if counts["wrong"] or counts["crashed"] else 0


def _examined(wanted: list[str]) -> list[Outcome]:
    found: list[Outcome] = []
    for one in outcomes(wanted):
        found.append(one)
        said = f"  {one.said[:400]}" if one.kind != "right" or len(wanted) < len(names()) else ""
        place = f"{len(found):{len(str(len(wanted)))}d}/{len(wanted)}"
        print(f"{place} {one.name}: {one.kind} ({one.seconds:.1f} s){said}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
