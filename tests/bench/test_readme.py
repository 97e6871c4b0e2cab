"""Every figure of the README's table is a row of bench/results.csv."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS = ("bare", "row stats", "everything", "afterwards", "eager with weights", "backward")


def _measured() -> dict[tuple[str, ...], str]:
    with (ROOT / "bench" / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["dtype"] == "float32"]
    masks = {"True": "causal", "False": "full"}
    return {
        (row["tokens"], row["dim"], masks[row["causal"]], row["what"]): row["ratio"] for row in rows
    }


def test_the_table_quotes_the_results() -> None:
    lines = re.findall(
        r"^\| (\d+) \| (\d+) \| (\w+) \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert len(lines) >= 8
    measured = _measured()
    for tokens, dim, mask, figures in lines:
        for what, figure in zip(COLUMNS, figures.split(" | "), strict=True):
            assert measured[tokens, dim, mask, what] == figure
