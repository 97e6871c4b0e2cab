"""Tables written piece by piece read back as what they were."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest

from regard.errors import MissingExtraError
from regard.export.tables import write_csv, write_parquet
from regard.tidy import TableColumn, TidyTable

TEXTS = ["plain", "a,b", 'say "x"', "line\nend", "猫", "", "a\rb"]


def table(pieces: int = 3) -> TidyTable:
    """Some pieces of seven rows; a number is missing in each."""

    def chunks():
        for piece in range(pieces):
            numbers = np.float32(piece) + np.arange(7, dtype=np.float32) / 3
            numbers[3] = np.nan
            yield {"n": np.arange(7) + 7 * piece, "value": numbers, "text": TEXTS}

    return made(chunks, n="whole", value="number", text="text")


def made(chunks, **kinds) -> TidyTable:
    """A table of columns of these kinds."""
    return TidyTable("some", tuple(TableColumn(*one, "words") for one in kinds.items()), chunks)


def test_csv_gives_every_value_back(tmp_path):
    path = tmp_path / "a.csv"
    write_csv(table(), path)
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["n", "value", "text"]
    assert [int(n) for n, _, _ in rows] == list(range(21))
    assert [text for _, _, text in rows] == TEXTS * 3
    assert [value for _, value, _ in rows][3::7] == [""] * 3
    wanted = np.concatenate([chunk["value"] for chunk in table().chunks()])
    found = np.array([value or "nan" for _, value, _ in rows], np.float32)
    np.testing.assert_array_equal(found, wanted)  # to the bit


def test_csv_has_no_more_digits_than_a_number_needs(tmp_path):
    path = tmp_path / "a.csv"
    one = made(lambda: iter([{"v": np.array([0.3], np.float32)}]), v="number")
    write_csv(one, path)
    assert path.read_text() == "v\n0.3\n"


def test_parquet_gives_every_value_back(tmp_path):
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    write_parquet(table(), path)
    read = parquet.read_table(path)
    assert read.schema.equals(table().arrow_schema(), check_metadata=True)
    found = read.to_pydict()
    assert found["n"] == list(range(21)) and found["text"] == TEXTS * 3
    assert found["value"][3] is None
    wanted = next(table().chunks())["value"]
    assert [found["value"][n] for n in (0, 1, 2)] == wanted[:3].tolist()
    assert parquet.ParquetFile(path).num_row_groups == 3


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[parquet\]'"):
        write_parquet(table(), tmp_path / "a.parquet")


def test_progress_is_told(tmp_path):
    told = []
    write_csv(table(), tmp_path / "a.csv", told.append)
    assert told == [7, 7, 7]


def test_no_rows_are_a_line_of_names(tmp_path):
    write_csv(table(0), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "n,value,text\n"


def test_no_text_is_a_formula_and_every_text_comes_back(tmp_path):
    texts = ["=1+2", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", "''", "plain", "", "a=b"]
    numbers = [-1.5, 2.0, -3.0] + [0.0] * (len(texts) - 3)
    table = made(lambda: iter([{"text": texts, "n": np.array(numbers)}]), text="text", n="number")
    write_csv(table, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert not any(row["text"].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)
    assert [row["text"].removeprefix("'") for row in rows] == texts
    assert [float(row["n"]) for row in rows] == numbers
