"""Chunks, bins, chosen rows and heads together: each number is that of the whole matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

import regard
from recorder.models import tiny, tokens
from recorder.truth import agrees, eager, means, recorded
from regard.errors import UnavailableError
from regard.recorder.plan import Plan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
COUNT = 75


def forced(bins: int, cell: int = 16, distances: int = 0, exact: Sequence[int] = ()) -> Plan:
    """A plan as a budget might make it, with pieces small enough that many are written."""
    return Plan(
        budget=10**9, places=2, row_bin=bins, key_bin=bins, top_every=bins, pool_cell=cell,
        distances=distances, exact=frozenset(exact), statistics_bytes=0, exact_bytes=0,
        write_rows=8,
    )  # fmt: skip


def read_in(model: Any, ids: torch.Tensor, cuts: Sequence[int], plan: Plan, **options: Any) -> Any:
    """The finished recorder of one prompt read in chunks that end at these tokens."""
    cache = DynamicCache(config=model.config)
    ends = [*sorted(set(cuts)), ids.shape[1]]
    with torch.no_grad(), regard.record(model, **options) as rec:
        rec.expect(ids.shape[1], plan)
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            model(ids[:, start:stop], past_key_values=cache, use_cache=True)
    return rec


@pytest.fixture(scope="module")
def read() -> dict[int | None, Any]:
    """By window: a model, its prompt, (H, L, L) of each layer, and the recording in one piece."""
    made: dict[int | None, Any] = {}
    ids = tokens(COUNT)
    for window in (None, 8, 40):
        options = {"sliding_window": window} if window else {}
        model = tiny("mistral" if window else "llama", num_key_value_heads=2, **options)
        truth = [layer[0].numpy() for layer in eager(model, input_ids=ids).attentions]
        made[window] = model, ids, truth, recorded(model, ids)
    return made


GRIDS = ("entropy", "normalized_entropy", "peak", "sharp", "first", "duplicate", "max_score")


@settings(max_examples=30, deadline=None)
@given(
    window=st.sampled_from([None, 8, 40]),
    cuts=st.lists(st.integers(1, COUNT - 1), max_size=5),
    bins=st.sampled_from([1, 2, 4, 8]),
    cell=st.sampled_from([16, 32, 128]),
    distances=st.sampled_from([0, 8, 32]),
    rows=st.none() | st.tuples(st.integers(0, COUNT - 1), st.integers(1, COUNT)),
    heads=st.sets(st.integers(0, 3), min_size=1),
)
def test_however_it_is_cut_and_binned(
    read: Any,
    window: int | None,
    cuts: list[int],
    bins: int,
    cell: int,
    distances: int,
    rows: tuple[int, int] | None,
    heads: set[int],
) -> None:
    model, ids, truth, fine = read[window]
    first, last = (rows[0], min(sum(rows), COUNT)) if rows else (0, COUNT)
    plan = forced(bins, cell, distances, exact=[1])
    queries = slice(first, last) if rows else None
    rec = read_in(model, ids, cuts, plan, queries=queries, heads=heads)
    assert sorted(rec.labels()) == sorted(f"L{n}H{h}" for n in (0, 1) for h in heads)
    for layer, number in ((0, min(heads)), (1, max(heads))):
        head, whole = rec[layer, number], fine[layer, number].stored
        assert head.place.rows == (first, last) and head.exact == (layer == 1)
        agrees(head, truth[layer][number], ids[0], atol=3e-5)
        close = {"rtol": 1e-4, "atol": 3e-5}
        norms = means(whole["output_norm"].values[first:last], bins)
        np.testing.assert_allclose(head.stored["output_norm"].values, norms, **close)
        most = [whole["max_score"].values[at : at + bins].max() for at in range(first, last, bins)]
        if rows is None or bins == 1:
            np.testing.assert_allclose(head.stored["max_score"].values, most, **close)
        values = means(whole["value_norm"].values, bins)
        np.testing.assert_allclose(head.stored["value_norm"].values, values, **close)
        assert ("lse" in head.stored) == (bins == 1 or head.exact)
        if rows is None:
            for name in GRIDS:  # totals are summed before anything is binned
                mine, right = rec.grid(name)[layer], fine.grid(name)[layer]
                at = sorted(heads).index(number) if len(mine) == len(heads) else number
                np.testing.assert_allclose(mine[at], right[number], err_msg=name, **close)
    with pytest.raises(UnavailableError, match="budget"):
        rec[0, min(heads)].rows(first)


@pytest.mark.parametrize("queries", ["50:72", "70:90", "95:", 3])
def test_rows_of_many_chunks(queries: Any) -> None:
    """Rows counted from the end need the length that is announced."""
    model, ids = tiny("llama", num_key_value_heads=2), tokens(100)
    rec = read_in(model, ids, (60, 70, 71, 72), forced(1, exact=[0, 1]), queries=queries)
    agrees(rec["L1H2"], eager(model, input_ids=ids).attentions[1][0, 2], ids[0])
    if queries == 3:
        assert rec["L1H2"].place.rows == (97, 100)


def test_a_plan_serves_one_prompt(read: Any) -> None:
    """What was planned for the announced prompt is not used for the next one."""
    model, ids, *_ = read[None]
    with torch.no_grad(), regard.record(model) as rec:
        rec.expect(COUNT, forced(8))
        model(ids)
        rec.finish()
        model(ids[:, :40])
    bins = [view["L0H0"].place.row_bin for view in rec.recording.prompts]
    assert bins == [8, 1]
    assert [view["L0H0"].exact for view in rec.recording.prompts] == [False, True]


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_is_written_can_be_read_while_it_grows(
    read: Any, tmp_path: Any, in_memory: bool
) -> None:
    model, ids, truth, _ = read[None]
    cache = DynamicCache(config=model.config)
    path, seen, written = None if in_memory else tmp_path / "a.regard", [], [0]
    with torch.no_grad(), regard.record(model, path) as rec:
        rec.expect(COUNT, forced(1, exact=[0, 1]))
        for start in range(0, COUNT, 15):
            model(ids[:, start : start + 15], past_key_values=cache, use_cache=True)
            so_far = rec.so_far()
            head = so_far["L1H0"]
            rows = head.rows(head.recorded)
            seen.append(len(rows))
            written.append(rec.written_bytes)
            np.testing.assert_allclose(rows, truth[1][0][: seen[-1], : rows.shape[1]], atol=3e-6)
            assert so_far.is_live and not so_far.prompts[0].finished
    assert seen == sorted(seen) and seen[0] > 0 and seen[-1] == COUNT
    assert rec["L1H0"].recorded == range(COUNT) and rec.prompts[0].finished
    assert written == sorted(set(written))
    if path is not None:
        assert 0.5 * path.stat().st_size < written[-1] < 2 * path.stat().st_size
