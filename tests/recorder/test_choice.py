"""Layers, heads and queries as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from regard.errors import InputError
from regard.recorder.plan import Choice, parse_numbers, parse_queries


def test_numbers_and_ranges() -> None:
    assert parse_numbers("0,5-8, 2", "layers") == [0, 5, 6, 7, 8, 2]


@pytest.mark.parametrize("text", ["", "a", "5-2", "1,,2", "-1", "1.5"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(InputError, match="0,5-10"):
        parse_numbers(text, "layers")


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (None, range(10, 20)), ("12:15", range(12, 15)), (":15", range(10, 15)),
        ("12:", range(12, 20)), (4, range(96, 96)), (slice(0, 12), range(10, 12)),
        ("0:5", range(10, 10)), (95, range(10, 20)), ("95", range(10, 20)),
    ],
)  # fmt: skip
def test_rows_of_a_chunk(given: Any, rows: range) -> None:
    found = Choice.of(None, None, given).rows(10, 20, 100)
    assert len(found) == len(rows)
    assert not len(rows) or found == rows


@pytest.mark.parametrize("given", [0, -3, "5", "x:y", slice(0, 10, 2), range(5, 2), "7:7", 1.5])
def test_no_rows(given: Any) -> None:
    if given == "5":
        assert parse_queries(given) == 5
        return
    with pytest.raises(InputError, match="range of rows"):
        parse_queries(given)


def test_what_is_wrong_is_said_as_it_was_written() -> None:
    with pytest.raises(InputError, match=r"queries='5:1'; give a range of rows"):
        parse_queries("5:1")


def test_heads_that_do_not_exist() -> None:
    choice = Choice.of(None, [0, 5], None)
    assert choice.heads_of(6) == (0, 5)
    with pytest.raises(InputError, match="head 5 does not exist; this model has 0–3"):
        choice.heads_of(4)
