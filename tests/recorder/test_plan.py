"""What is kept is known in bytes beforehand, and fits."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.recorder.plan import (
    Choice,
    Size,
    human,
    make_plan,
    parse_budget,
    parse_numbers,
    parse_queries,
)

SMALL = Size(9, 3, 64, 2048, 2048)
LARGE = Size(32, 8, 128, 131_072, 131_072, itemsize=2)


def test_a_short_prompt_keeps_everything() -> None:
    plan = make_plan(2 * 10**9, [SMALL] * 30)
    assert (plan.row_bin, plan.key_bin, plan.top_every, plan.distances) == (1, 1, 1, 0)
    assert plan.exact == frozenset(range(30))
    assert plan.pool_cell == 16


def test_a_long_prompt_of_a_large_model_is_binned_and_some_layers_are_exact() -> None:
    plan = make_plan(2 * 10**9, [LARGE] * 32)
    assert plan.row_bin > 1
    assert plan.statistics_bytes <= 5 * 10**8
    assert 0 < len(plan.exact) < 32


def test_the_layers_that_fit_are_spread() -> None:
    one = make_plan(10**12, [SMALL]).exact_bytes
    statistics = make_plan(10**12, [SMALL] * 30).statistics_bytes
    plan = make_plan(max(2 * statistics, statistics + 4 * one), [SMALL] * 30)
    chosen = sorted(plan.exact)
    assert chosen[0] == 0 and chosen[-1] == 29
    assert max(b - a for a, b in itertools.pairwise(chosen)) <= 30 // len(chosen) + 2


@given(
    budget=st.integers(10**5, 10**11),
    layers=st.integers(1, 40),
    heads=st.integers(1, 32),
    tokens=st.integers(1, 200_000),
)
def test_whatever_is_planned_fits(budget: int, layers: int, heads: int, tokens: int) -> None:
    sizes = [Size(heads, heads, 64, tokens, tokens)] * layers
    try:
        plan = make_plan(budget, sizes)
    except InputError as error:
        assert "too small for anything" in str(error)
        return
    assert plan.total_bytes <= budget
    assert plan.pool_cell >= 16 and plan.pool_cell & (plan.pool_cell - 1) == 0
    assert json.loads(json.dumps(plan.to_dict()))["total_bytes"] == plan.total_bytes
    assert len(plan.lines()) == 3


def test_nothing_fits() -> None:
    with pytest.raises(InputError, match=r"a budget of 1.0 kB is too small.*take .*give at least"):
        make_plan(1000, [SMALL])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5g", 15 * 10**8), ("64MiB", 64 << 20),
        ("1KiB", 1024), ("1000", 1000), (123, 123), ("7b", 7), ("1TB", 10**12),
    ],
)  # fmt: skip
def test_budgets(text: str | int, count: int) -> None:
    assert parse_budget(text) == count


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "2 XB", "nan", "0", 0])
def test_no_budgets(text: str | int) -> None:
    with pytest.raises(InputError, match="2GB"):
        parse_budget(text)


def test_bytes_for_people() -> None:
    assert [human(n) for n in (0, 1, 5, 2500, 3_000_000, 4.2e9)] == [
        "0 bytes", "1 byte", "5 bytes", "2.5 kB", "3.0 MB", "4.2 GB",
    ]  # fmt: skip


def test_a_plan_says_which_places_are_exact() -> None:
    plan = replace(make_plan(10**9, [SMALL] * 3), exact=frozenset({1}))
    assert [plan.is_exact(n) for n in range(3)] == [False, True, False]
    assert "q and k of 1 of 3 attention layers" in plan.lines()[1]
    assert "q and k of no attention layers" in replace(plan, exact=frozenset()).lines()[1]


# ── layers, heads and queries as people write them ─────────────────────────────────────────────


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
