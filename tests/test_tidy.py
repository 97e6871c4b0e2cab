"""Tidy tables: numpy, Arrow, and others by Arrow's PyCapsule interface."""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module

import numpy as np
import pyarrow
import pytest

from regard.errors import MissingExtraError, UnavailableError
from regard.tidy import TableColumn, TidyTable

TEXTS = ["plain", "猫", ""]
SCHEMA = (
    TableColumn("n", "whole", "counted"),
    TableColumn("value", "number", "measured", "nats"),
    TableColumn("text", "text"),
)


def table(pieces: int = 2, **options) -> TidyTable:
    """Some chunks of three lines; a number is missing in each."""

    def chunks():
        for piece in range(pieces):
            numbers = np.array([piece, np.nan, 0.3], np.float32)
            yield {"n": np.arange(3) + 3 * piece, "value": numbers, "text": TEXTS}

    return TidyTable("some", SCHEMA, chunks, {"model": "half \ud800"}, **options)


def test_columns_are_numpy():
    found = table().columns
    assert found["n"].tolist() == list(range(6)) and found["n"].dtype == np.int64
    assert found["value"].dtype == np.float32 and np.isnan(found["value"][[1, 4]]).all()
    assert found["text"].tolist() == TEXTS * 2 and found["text"].dtype == object
    assert [one.size for one in table(0).columns.values()] == [0, 0, 0]


def test_lines_are_counted_once_where_they_are_not_known_before():
    calls = []
    one = table(at_most=99)
    counting = dataclasses.replace(one, chunks=lambda: (calls.append(1), one.chunks())[1])
    assert len(counting) == len(counting) == 6 and calls == [1]
    assert len(table(at_most=6, is_counted=True)) == 6


def test_it_is_frozen_and_says_what_it_is():
    one = table(at_most=1234)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "other"
    assert repr(one) == "TidyTable(some: up to 1,234 lines × 3 columns: n, value, text)"
    wide = dataclasses.replace(one, schema=SCHEMA[:1] * 9, at_most=7, is_counted=True)
    assert repr(wide).startswith("TidyTable(some: 7 lines × 9 columns: n, n,")
    assert repr(wide).endswith("n, …)") and "lines" not in repr(table())


@pytest.mark.parametrize("read", [pyarrow.table, TidyTable.to_arrow])
def test_arrow(read):
    found = read(table())
    assert found["n"].to_pylist() == list(range(6)) and found["text"].to_pylist() == TEXTS * 2
    third = float(np.float32(0.3))
    assert found["value"].to_pylist() == [0, None, third, 1, None, third]
    assert found.schema.metadata == {b"regard.table": b"some", b"regard.model": b"half ?"}
    assert found.schema.field("value").metadata == {b"words": b"measured", b"unit": b"nats"}
    assert read(table(0)).num_rows == 0


def test_arrow_by_capsules():
    assert pyarrow.schema(table()).names == ["n", "value", "text"]
    reader = pyarrow.RecordBatchReader.from_stream(table())
    assert [batch.num_rows for batch in reader] == [3, 3]


def test_an_error_on_the_way_stops_the_stream():
    def chunks():
        yield from table(1).chunks()
        raise UnavailableError("gone")

    broken = dataclasses.replace(table(), chunks=chunks)
    with pytest.raises(UnavailableError, match="gone"):
        broken.to_arrow()
    with pytest.raises(Exception, match="gone"):
        pyarrow.table(broken)


@pytest.mark.parametrize("read", ["to_pandas", "to_polars", "polars", "pandas"])
def test_pandas_and_polars_read_it(read):
    if read.startswith("to_"):
        found = getattr(table(), read)()
    elif read == "polars":
        found = import_module("polars").DataFrame(table())  # by the PyCapsule interface
    else:
        found = import_module("pandas").DataFrame.from_arrow(table())
    known = table().columns
    assert list(found.columns) == list(known) and len(found) == 6
    assert found["n"].to_list() == known["n"].tolist()
    assert found["text"].to_list() == known["text"].tolist()
    np.testing.assert_array_equal(np.array(found["value"].to_list(), float), known["value"])


@pytest.mark.parametrize(("package", "ask"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_what_is_not_installed_is_named(package, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnavailableError, match=f"{package} is not installed; .* {package}"):
        getattr(table(), ask)()


@pytest.mark.parametrize("ask", ["to_arrow", "__arrow_c_stream__", "__arrow_c_schema__"])
def test_without_pyarrow_the_extra_is_named(ask, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[parquet\]'"):
        getattr(table(), ask)()
    assert len(table().columns["n"]) == 6
