"""`python -m regard.testing.families [names …] [--json]`: every model type, or some."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from regard.testing.families.catalogue import names
from regard.testing.families.outcome import KINDS, Outcome
from regard.testing.families.pool import outcomes


def main() -> int:
    """Examine, say how it goes on stderr, and end with 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m regard.testing.families", description=__doc__)
    parser.add_argument("names", nargs="*", help="model types; all where none is named")
    parser.add_argument("--json", action="store_true", help="the outcomes on stdout, as JSON")
    given = parser.parse_args()
    found: list[Outcome] = []
    wanted = given.names or names()
    for outcome in outcomes(wanted):
        found.append(outcome)
        said = f"  {outcome.said[:300]}" if outcome.kind != "right" or given.names else ""
        print(
            f"{len(found):4d}/{len(wanted)} {outcome.name}: {outcome.kind} "
            f"({outcome.seconds:.1f} s){said}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    found.sort(key=lambda one: one.name)
    counts = Counter(one.kind for one in found)
    print(", ".join(f"{kind} {counts[kind]}" for kind in KINDS), file=sys.stderr)
    if given.json:
        json.dump([one.as_json() for one in found], sys.stdout, indent=1)
    return 1 if counts["wrong"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
