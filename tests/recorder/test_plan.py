"""What a user may choose, and how much of it fits a budget, in bytes that are known beforehand."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from recorder.models import Stack, tiny, tokens
from recorder.truth import agrees, eager, recorded
from regard.errors import InputError
from regard.recorder.plan import Size, make_plan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SMALL = Size(9, 3, 64, 2048, 2048)


# ── layers, heads and rows as people write them ──────────────────────────────────────────────


@pytest.mark.parametrize(
    ("layers", "wanted"),
    [
        (None, range(9)), (4, [4]), ([7, 0], [0, 7]), (range(2, 4), [2, 3]),
        ("0,5-8, 2", [0, 2, 5, 6, 7, 8]), (" 3 - 3 ", [3]), ("8", [8]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("heads", "kept"), [("1,0", [0, 1]), ((3, 3, 0), [0, 3]), (2, [2])])
def test_layers_and_heads(layers: Any, wanted: Any, heads: Any, kept: Any) -> None:
    options = {"layers": layers, "heads": heads}
    rec = recorded(Stack(9), torch.randn(1, 3, 32), options=options)
    assert rec.labels() == [f"L{n}H{h}" for n in wanted for h in kept]


@pytest.mark.parametrize(
    ("queries", "rows"),
    [
        (None, (0, 50)), ("20:30", (20, 30)), (" 3 : 7 ", (3, 7)), (":7", (0, 7)),
        ("45:", (45, 50)), (slice(None, 4), (0, 4)), (slice(2, 4, 1), (2, 4)), (4, (46, 50)),
        (range(20, 90), (20, 50)), (" 4 ", (46, 50)), (99, (0, 50)),
        (slice(np.int64(1), 3), (1, 3)),
    ],
)  # fmt: skip
def test_rows(queries: Any, rows: tuple[int, int]) -> None:
    model, ids = tiny("llama"), tokens(50)
    head = recorded(model, ids, options={"queries": queries})["L1H1"]
    assert head.place.rows == rows
    agrees(head, eager(model, input_ids=ids).attentions[1][0, 1], ids[0])
    if rows[0]:
        with pytest.raises(InputError, match=f"row {rows[0] - 1} .*{rows[0]}"):
            head.rows(rows[0] - 1)


def test_the_last_rows_of_every_stack() -> None:
    from recorder.test_weights import translator

    inputs = {"input_ids": tokens(20), "decoder_input_ids": tokens(6)}
    rec = recorded(translator("bart"), **inputs, options={"queries": 3})
    rows = {label: place.rows for label, place in rec.prompts[0].places.items() if "L0" in label}
    assert rows == {"cross.L0": (3, 6), "decoder.L0": (3, 6), "encoder.L0": (17, 20)}


NO_NUMBERS = [True, [1.0], [None], ["3"], [0, -1], [], (), "5-2", "1,,2", "-1", "x", "", "1.5"]
NO_ROWS = [
    "", "7:3", "3:3", "-4:", "a:b", "1:2:3", "0", "1.5", slice(-3, None), slice(0, 9, 2),
    slice(4, 4), range(9, 3), range(0, 9, 2), range(-2, 3), 0, -1, 2.5, [3], slice("a", "b"),
    slice(0.5, 3), True, "9" * 5000,
]  # fmt: skip
NO_BUDGETS = [
    float("nan"), float("inf"), -1, 0, 0.4, True, None, [], "", "GB", "-1GB", "2 XB", "nan", "0",
    "1e9", "2 GB more", "٣GB", "9" * 400,
]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        *(("layers", one, "such as") for one in NO_NUMBERS),
        *(("heads", one, "such as") for one in NO_NUMBERS),
        *(("queries", one, "give a range of rows such as '100:200'") for one in NO_ROWS),
        *(("budget", one, "such as '2GB'") for one in NO_BUDGETS),
    ],
)
def test_what_is_no_choice_is_refused_before_anything_runs(
    option: str, value: Any, said: str
) -> None:
    with pytest.raises(InputError, match=f"^{option}.*{said}") as caught:
        regard.record(Stack(1), **{option: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": [2, 7]}, r"layer 7 does not exist; this model has 0–2"),
        ({"heads": [4]}, r"head 4 does not exist; this model has 0–3"),
        ({"queries": "50:60"}, "no row was recorded"),
        ({"budget": 1}, r"a budget of 1 byte is too small for anything"),
        (
            {"budget": "9kB"},
            r"of 8\.\d kB is too small .* 3 layers take 4\d\.\d kB; give at least that",
        ),
    ],
)
def test_what_the_model_does_not_have_leaves_no_file(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    recorder = regard.record(Stack(3), tmp_path / "a.regard", **options)
    with pytest.raises(InputError, match=said), torch.no_grad(), recorder:
        recorder.model(torch.randn(1, 10, 32))
    assert not list(tmp_path.iterdir())


def test_a_layer_that_is_not_chosen_leaves_nothing() -> None:
    model = tiny("llama", num_hidden_layers=3)
    with torch.no_grad(), regard.record(model, layers=[1]) as rec:
        model(tokens(9))
        model(tokens(12))
    for prompt in rec.prompts:
        assert {label[:2] for label in prompt.labels()} == {"L1"}
        assert np.isfinite(prompt["L1H0"].entropy()).all()


# ── budgets ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5g", 15 * 10**8), ("64MiB", 64 << 20),
        ("1KiB", 1024), ("1000", 1000), (123, 123), ("7b", 7), ("1TB", 10**12), ("2ti", 2 << 40),
        (" 7 mB ", 7 * 10**6), (1e6, 10**6), ("99ib", 99),
    ],
)  # fmt: skip
def test_budgets(text: Any, count: int) -> None:
    assert regard.record(Stack(1), budget=text).budget == count


def test_a_small_budget_keeps_statistics_of_all_heads(tmp_path: Path) -> None:
    model, ids = tiny("llama", num_hidden_layers=6), tokens(600)
    full = recorded(model, ids)
    for budget, binned, most in (("2MB", 1, 2e6), ("700kB", 2, 7e5), ("250kB", 4, 1e6)):
        path = tmp_path / f"{budget}.regard"
        with torch.no_grad(), regard.record(model, path, budget=budget) as rec:
            model(ids)
        assert path.stat().st_size <= most
        assert rec["L0H0"].place.row_bin >= binned and rec.grid("non_sink").shape == (6, 4)
        for stat in ("entropy", "peak", "duplicate", "first", "previous"):
            np.testing.assert_allclose(rec.grid(stat), full.grid(stat), atol=1e-4, err_msg=stat)
    with pytest.raises(regard.errors.UnavailableError, match=r"the budget of 24\d\.\d kB"):
        rec["L0H0"][5, 3]


@given(
    budget=st.integers(10**5, 10**11),
    layers=st.integers(1, 40),
    heads=st.integers(1, 32),
    length=st.integers(1, 200_000),
    wanted=st.none() | st.sets(st.integers(0, 39)),
)
def test_whatever_is_planned_fits_and_more_budget_never_keeps_less(
    budget: int, layers: int, heads: int, length: int, wanted: set[int] | None
) -> None:
    sizes = [Size(heads, heads, 64, length, length)] * layers
    chosen = None if wanted is None else sorted(n for n in wanted if n < layers)
    try:
        plan = make_plan(budget, sizes, chosen)
    except InputError as error:
        assert "too small for anything" in str(error)
        return
    assert plan.total_bytes <= budget
    assert plan.pool_cell >= 16 and plan.pool_cell & (plan.pool_cell - 1) == 0
    assert plan.exact <= set(range(layers) if chosen is None else chosen)
    assert json.loads(json.dumps(plan.to_dict()))["total_bytes"] == plan.total_bytes
    more = make_plan(4 * budget, sizes, chosen)
    assert more.row_bin <= plan.row_bin and more.pool_cell <= plan.pool_cell
    if (more.row_bin, more.pool_cell) == (plan.row_bin, plan.pool_cell):
        assert len(more.exact) >= len(plan.exact)
    everything = make_plan(10**14, sizes, chosen)
    assert everything.exact == set(range(layers) if chosen is None else chosen)
    assert (everything.row_bin, everything.key_bin, everything.top_every) == (1, 1, 1)
    side = length / everything.pool_cell
    assert side <= 512 and (everything.pool_cell == 16 or side > 256)


def test_a_long_prompt_of_a_large_model_is_binned_and_some_layers_are_exact() -> None:
    large = Size(32, 8, 128, 131_072, 131_072, itemsize=2)
    plan = make_plan(2 * 10**9, [large] * 32)
    assert plan.row_bin > 1 and plan.distances > 0
    assert plan.statistics_bytes <= 5 * 10**8 and 0 < len(plan.exact) < 32


def test_the_layers_that_fit_are_spread() -> None:
    one = make_plan(10**12, [SMALL]).exact_bytes
    statistics = make_plan(10**12, [SMALL] * 30).statistics_bytes
    plan = make_plan(max(2 * statistics, statistics + 4 * one), [SMALL] * 30)
    chosen = sorted(plan.exact)
    assert chosen[0] == 0 and chosen[-1] == 29
    assert max(b - a for a, b in itertools.pairwise(chosen)) <= 30 // len(chosen) + 2


def test_plans_in_words() -> None:
    plan = make_plan(10**10, [SMALL] * 3)
    assert "every row" in plan.lines()[0] and "q and k of all" in plan.lines()[1]
    assert plan.lines()[2].endswith("of 10.0 GB")
    some = replace(plan, exact=frozenset({1}), row_bin=8, unheard=("a", "b"))
    assert "bins of 8 rows" in some.lines()[0] and "1 of 3 attention layers" in some.lines()[1]
    assert "q and k of no attention" in replace(plan, exact=frozenset()).lines()[1]
    assert some.lines()[3] == "not heard: a, b"
