"""What is binned where it was measured is what the host would have made of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.recorder.bins import Gathered, binned, grain
from regard.recorder.plan import Plan, Size, make_plan
from regard.recorder.reduce import SHARP, in_bins, totals
from regard.recording.measures import TOTALS


def plan_of(size: int) -> Plan:
    plan = make_plan(10**9, [Size(2, 1, 8, 64, 64)])
    return replace(plan, row_bin=size, top_every=size)


def some_rows(count: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(count)
    names = ("lse", "entropy", "max_score", "concentration", "peak", "output_norm", "first")
    rows = {name: torch.rand(3, count) for name in names}
    return rows | {"top_weights": torch.rand(3, count, 2), "top_keys": torch.ones(3, count, 2)}


@given(cuts=st.lists(st.integers(1, 20), min_size=1, max_size=6), size=st.sampled_from([1, 2, 8]))
def test_bins_of_pages_are_the_bins_of_all_rows(cuts: list[int], size: int) -> None:
    plan, rows, start = plan_of(size), some_rows(sum(cuts)), 0
    held = {name: Gathered(*grain(name, plan)) for name in rows}
    for cut in cuts:
        page = {name: numbers[:, start : start + cut] for name, numbers in rows.items()}
        bins, loose = in_bins(page, plan, start % size == 0)
        for name, pieces in held.items():
            found = [part[name].numpy() if name in part else None for part in (loose, bins)]
            pieces.put(*found)
        start += cut
    for name, pieces in held.items():
        assert pieces.held == start
        taken = pieces.take(last=True)
        assert taken is not None and taken[0] == 0
        right = binned(rows[name].numpy(), *grain(name, plan))
        np.testing.assert_allclose(taken[1], right, rtol=1e-6)


def test_rows_that_do_not_begin_a_bin_stay_rows() -> None:
    rows = {"entropy": torch.rand(2, 16), "lse": torch.rand(2, 16)}
    bins, loose = in_bins(rows, plan_of(4), begins=False)
    assert list(loose) == ["entropy"] and loose["entropy"] is rows["entropy"]
    assert list(bins) == ["lse"] and bins["lse"] is rows["lse"]  # never binned


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("matches", [True, False])
def test_totals(heads: int, matches: bool) -> None:
    rows = {name: some_rows(40)[name] for name in TOTALS if name in some_rows(40)}
    rows["peak"][:, ::7] = 1
    if matches:
        rows |= {"duplicate": torch.rand(3, 40), "prefix": torch.rand(3, 40)}
    even, visible = torch.rand(3, 40), torch.arange(40).repeat(heads, 1) % 4
    names, sums = totals(rows, even, visible, plan_of(1))
    assert names == TOTALS
    found = dict(zip(names, sums.numpy().T, strict=True))
    seen = np.broadcast_to(visible.numpy(), (3, 40))
    right = {name: rows[name].double().numpy().sum(1) for name in TOTALS if name in rows} | {
        "rows": (seen > 0).sum(1),
        "normalized_rows": (seen > 1).sum(1),
        "normalized_entropy": np.where(seen > 1, even.double().numpy(), 0).sum(1),
        "sharp": (rows["peak"].numpy() > SHARP).sum(1),
        "max_score": rows["max_score"].numpy().max(1),
    }
    for name in TOTALS:
        np.testing.assert_allclose(found[name], right.get(name, np.zeros(3)), rtol=1e-12)
    assert found["rows"].dtype == np.float64 and (found["sharp"] >= 6).all()


def test_a_score_that_is_no_number_is_seen_in_the_totals() -> None:
    rows = {name: numbers for name, numbers in some_rows(5).items() if numbers.ndim == 2}
    rows["max_score"][1, 2] = torch.nan
    names, sums = totals(rows, torch.rand(3, 5), torch.ones(1, 5), plan_of(1))
    most = sums[:, names.index("max_score")]
    assert most.isnan().tolist() == [False, True, False]
