"""Rows are appended to a file whose columns fit, and refused otherwise."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

import regard
from regard.bench.results import Result, append_csv, machine, timed, today
from regard.bench.timing import Samples
from regard.errors import FileError

ROW = Result(
    today(), "cpu", "bare", "cpu", 512, 64, 4, True, "float32", 1.0, 0.9, 1.1, "sdpa", 0.8, 5, 2,
    machine(), "2.13.0", "0.1.0",
)  # fmt: skip


def test_rows_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.csv"
    append_csv(path, [ROW])
    append_csv(path, [ROW, ROW])
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 3
    assert rows[0]["what"] == "bare" and rows[0]["ratio"] == "0.8"


def test_a_row_is_filled_in_from_the_rounds() -> None:
    fields = {
        name: getattr(ROW, name)
        for name in "suite what implementation tokens dim heads causal dtype peer".split()
    }
    row = timed(Samples([0.001, 0.002, 0.0034567]), 2, 0.81249, **fields, threads=7)
    assert (row.median_ms, row.p80_ms, row.ratio, row.rounds) == (2.0, 2.87, 0.812, 3)
    assert (row.threads, row.machine, row.date) == (7, machine(), today())  # others as they are
    assert row.torch == torch.__version__ and row.regard == regard.__version__


def test_another_files_columns_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="has columns a, b"):
        append_csv(path, [ROW])
    assert path.read_text() == "a,b\n1,2\n"


def test_the_shipped_results_have_these_columns() -> None:
    shipped = Path(__file__).parents[2] / "bench" / "results.csv"
    with shipped.open() as file:
        rows = list(csv.DictReader(file))
    assert rows and set(rows[0]) == set(ROW.__dataclass_fields__)
