"""What a user may write for layers, heads, rows and budgets, and what is said of the rest."""

from __future__ import annotations

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

NUMBERS = st.integers(0, 99_999)
SPANS = st.tuples(NUMBERS, st.integers(0, 30)).map(lambda one: (one[0], one[0] + one[1]))


# ── layers and heads ─────────────────────────────────────────────────────────────────────────


@given(st.lists(SPANS, min_size=1, max_size=6), st.sampled_from(["", " "]))
def test_numbers_and_ranges_are_read_as_written(spans: list[tuple[int, int]], space: str) -> None:
    words = [f"{a}" if a == b else f"{a}{space}-{space}{b}" for a, b in spans]
    found = parse_numbers(f"{space},{space}".join(words), "layers")
    assert found == [n for a, b in spans for n in range(a, b + 1)]


@given(st.text(max_size=12))
def test_any_text_is_numbers_or_is_refused_in_words(text: str) -> None:
    try:
        found = parse_numbers(text, "layers")
    except InputError as error:
        assert "such as 0,5-10" in str(error) and repr(text) in str(error)
    else:
        assert found and all(type(n) is int and n >= 0 for n in found)


@pytest.mark.parametrize(
    "given", [True, [1.0], [None], ["3"], [0, -1], [], (), "5-2", "1,,2", "-1"]
)
def test_what_is_no_layer(given: Any) -> None:
    with pytest.raises(InputError, match="such as"):
        Choice.of(given, None, None)


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(1, 41))
def test_heads_are_told_once_and_in_order(heads: list[int], total: int) -> None:
    choice = Choice.of(None, heads, None)
    if max(heads) < total:
        assert list(choice.heads_of(total)) == sorted(set(heads))
    else:
        low = min(n for n in heads if n >= total)
        with pytest.raises(InputError, match=rf"head {low} does not exist; .* 0–{total - 1}"):
            choice.heads_of(total)


def test_all_where_nothing_is_chosen() -> None:
    every = Choice.of(None, None, None)
    assert every.has_layer(99) and every.heads_of(3) == (0, 1, 2)
    every.check_layers(1)
    assert every.rows(3, 9, 20) == range(3, 9)
    one = Choice.of(4, 2, None)
    assert one.has_layer(4) and not one.has_layer(3) and one.heads_of(5) == (2,)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


@given(
    start=st.integers(0, 60),
    stop=st.integers(0, 60),
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    last=st.integers(0, 70),
)
def test_rows_of_chunks_are_the_rows_of_the_whole(
    start: int, stop: int, cuts: list[int], last: int
) -> None:
    """Wherever a prompt is cut, each chosen row is recorded once and no other is."""
    length = sum(cuts)
    asked: Any = last or slice(start, max(stop, start + 1))
    choice, found, at = Choice.of(None, None, asked), [], 0
    for count in cuts:
        found += choice.rows(at, at + count, length)
        at += count
    every = list(range(length))
    assert found == (every[max(length - last, 0) :] if last else every[asked])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("3:7", range(3, 7)), (" 3 : 7 ", range(3, 7)), (":7", range(7)), ("5", 5), (" 5 ", 5),
        ("3:", range(3, 2**62)), (slice(None, 4), range(4)), (slice(2, 4, 1), range(2, 4)),
        (range(2, 4), range(2, 4)), (9, 9), (None, None),
    ],
)  # fmt: skip
def test_rows_as_people_write_them(given: Any, wanted: Any) -> None:
    assert parse_queries(given) == wanted


@pytest.mark.parametrize(
    "given",
    ["", "7:3", "3:3", "-4:", "a:b", "1:2:3", "0", "1.5", slice(-3, None), slice(0, 9, 2),
     slice(4, 4), range(9, 3), range(0, 9, 2), range(-2, 3), 0, -1, 2.5, [3], slice("a", "b"),
     slice(0.5, 3), True, "9" * 5000],
)  # fmt: skip
def test_what_is_no_range_of_rows(given: Any) -> None:
    with pytest.raises(InputError, match="give a range of rows such as '100:200'"):
        parse_queries(given)


# ── budgets ──────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 10**15))
def test_what_is_said_of_bytes_is_about_as_many(count: int) -> None:
    text = human(count)
    assert float(text.split()[0]) > 0
    assert parse_budget(text.partition(" byte")[0]) == pytest.approx(count, rel=0.06)


@given(
    st.integers(1, 999),
    st.sampled_from("kmgt"),
    st.sampled_from(["", "i"]),
    st.sampled_from(["", "b", "B"]),
    st.booleans(),
)
def test_units(number: int, unit: str, binary: str, byte: str, upper: bool) -> None:
    power = "kmgt".index(unit) + 1
    text = f"{number} {unit.upper() if upper else unit}{binary}{byte}"
    assert parse_budget(text) == number * (1024 if binary else 1000) ** power


@pytest.mark.parametrize(
    "given",
    [float("nan"), float("inf"), -1, 0.4, True, None, [], "1e9", "2 GB more", "٣GB", "9" * 400],
)
def test_what_is_no_budget(given: Any) -> None:
    with pytest.raises(InputError, match="such as '2GB'"):
        parse_budget(given)


# ── plans ────────────────────────────────────────────────────────────────────────────────────

PLACES = st.lists(
    st.builds(
        Size,
        heads=st.integers(1, 16),
        key_heads=st.integers(1, 4),
        dim=st.sampled_from([8, 64, 128]),
        queries=st.integers(1, 50_000),
        keys=st.integers(1, 50_000),
        itemsize=st.sampled_from([2, 4]),
    ),
    min_size=1,
    max_size=12,
)


@given(PLACES, st.integers(10**6, 10**10))
def test_more_budget_never_tells_less(places: list[Size], budget: int) -> None:
    try:
        small = make_plan(budget, places)
    except InputError:
        return
    large = make_plan(4 * budget, places)
    assert large.row_bin <= small.row_bin and large.pool_cell <= small.pool_cell
    if large.row_bin == small.row_bin and large.pool_cell == small.pool_cell:
        assert len(large.exact) >= len(small.exact)


@given(PLACES, st.data())
def test_only_wanted_places_are_exact(places: list[Size], data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.integers(0, len(places) - 1)))
    plan = make_plan(10**13, places, wanted)
    assert plan.exact == wanted
    assert plan.is_exact(0) == (0 in wanted)
    assert bool(plan.exact_bytes) == bool(wanted)


def test_maps_have_at_most_512_cells_a_side() -> None:
    for tokens in (1, 8192, 8193, 200_000):
        plan = make_plan(10**12, [Size(4, 4, 64, tokens, tokens)])
        assert tokens / plan.pool_cell <= 512
        assert plan.pool_cell == 16 or tokens / plan.pool_cell > 256


def test_plans_in_words() -> None:
    place = Size(4, 4, 64, 4096, 4096)
    everything = make_plan(10**10, [place] * 3)
    assert "every row" in everything.lines()[0] and "q and k of all" in everything.lines()[1]
    little = make_plan(200_000, [place] * 3)
    assert f"bins of {little.row_bin} rows" in little.lines()[0]
    assert "q and k of no " in little.lines()[1] and little.exact_bytes == 0
    assert everything.lines()[2].endswith("of 10.0 GB")
