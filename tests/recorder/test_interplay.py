"""Bins, chunks, chosen rows and heads together: each number is that of the whole matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from recorder.models import tiny, tokens
from recorder.truth import eager
from regard.errors import InputError, UnavailableError
from regard.recorder.plan import Plan
from regard.recorder.session import Recorder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
_COUNT = 75


def forced(bins: int, cell: int = 16, distances: int = 0, exact: Sequence[int] = ()) -> Plan:
    """A plan as a budget might make it, with pieces small enough that many are written."""
    return Plan(
        budget=10**9, places=2, row_bin=bins, key_bin=bins, top_every=bins, pool_cell=cell,
        distances=distances, exact=frozenset(exact), statistics_bytes=0, exact_bytes=0,
        write_rows=8,
    )  # fmt: skip


def read_in(model: Any, ids: torch.Tensor, cuts: Sequence[int], plan: Plan, **options: Any) -> Any:
    """The finished recorder of one prompt read in chunks that end at these tokens."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    ends = [*sorted(set(cuts)), ids.shape[1]]
    with torch.no_grad(), regard.record(model, **options) as rec:
        rec.expect(ids.shape[1], plan)
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            model(ids[:, start:stop], past_key_values=cache, use_cache=True)
    return rec


def means(numbers: np.ndarray, size: int) -> np.ndarray:
    """Of each bin along the last axis, a ragged one at last."""
    starts = range(0, numbers.shape[-1], size)
    return np.stack([numbers[..., at : at + size].mean(-1) for at in starts], -1)


def agrees_in_bins(head: Any, weights: np.ndarray) -> None:
    """Everything a binned recording keeps of a head, against its matrix."""
    whole = np.asarray(weights, np.float64)
    first, last = head.place.rows
    p, place, stored = whole[first:last], head.place, head.stored
    near = {"atol": 3e-5, "rtol": 1e-4}
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    for name, truth in (
        ("entropy", entropy),
        ("peak", p.max(-1)),
        ("first", p[:, 0]),
        ("concentration", (p**2).sum(-1)),
    ):
        np.testing.assert_allclose(
            stored[name].values, means(truth, place.row_bin), err_msg=name, **near
        )
    received = means(p.sum(0), place.key_bin)
    ragged = np.minimum(np.arange(len(received)) * place.key_bin + place.key_bin, whole.shape[1])
    sizes = ragged - np.arange(len(received)) * place.key_bin
    np.testing.assert_allclose(stored["received"].values, received * sizes, atol=3e-4)
    picked = p[:: place.top_every]
    keys, found = stored["top_keys"].values, stored["top_weights"].values
    np.testing.assert_allclose(
        np.where(keys < 0, 0, np.take_along_axis(picked, np.maximum(keys, 0), 1)), found, **near
    )
    np.testing.assert_allclose(found[:, 0], picked.max(-1), **near)
    kept = np.zeros_like(whole)
    kept[first:last] = p
    cell = place.pool_cell
    down, across = (range(0, n, cell) for n in whole.shape)
    map_of = [[kept[a : a + cell, b : b + cell].mean() for b in across] for a in down]
    np.testing.assert_allclose(stored["pooled"].values, map_of, **near)
    distance = np.arange(len(whole))[:, None] - np.arange(whole.shape[1])
    edges, profile = stored["offsets"].edges, stored["offsets"].values
    by_bin, _ = np.histogram(distance.ravel(), edges, weights=kept.ravel())
    np.testing.assert_allclose(profile, by_bin, atol=3e-4)


@pytest.fixture(scope="module")
def read() -> tuple[Any, torch.Tensor, list[np.ndarray]]:
    """A model, its prompt, and (H, L, L) of each layer."""
    model, ids = tiny("llama", num_key_value_heads=2), tokens(_COUNT)
    return model, ids, [layer[0].numpy() for layer in eager(model, input_ids=ids).attentions]


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, _COUNT - 1), max_size=5),
    bins=st.sampled_from([1, 2, 4, 8]),
    cell=st.sampled_from([16, 32, 128]),
    distances=st.sampled_from([0, 8, 32]),
    rows=st.tuples(st.integers(0, _COUNT - 1), st.integers(1, _COUNT)),
    heads=st.sets(st.integers(0, 3), min_size=1),
)
def test_however_it_is_cut_and_binned(
    read: Any,
    cuts: list[int],
    bins: int,
    cell: int,
    distances: int,
    rows: tuple[int, int],
    heads: set[int],
) -> None:
    model, ids, truth = read
    first, last = rows[0], min(rows[0] + rows[1], _COUNT)
    plan = forced(bins, cell, distances, exact=[1])
    rec = read_in(model, ids, cuts, plan, queries=slice(first, last), heads=heads)
    assert sorted(rec.labels()) == sorted(f"L{n}H{h}" for n in (0, 1) for h in heads)
    for layer, head in ((0, min(heads)), (1, max(heads))):
        one = rec[layer, head]
        assert one.place.rows == (first, last) and one.shape == (_COUNT, _COUNT)
        agrees_in_bins(one, truth[layer][head])
    exact = rec[1, max(heads)].rows(range(first, last))
    np.testing.assert_allclose(exact, truth[1][max(heads)][first:last], atol=3e-6)
    with pytest.raises(UnavailableError, match="budget"):
        rec[0, min(heads)].rows(first)


@pytest.mark.parametrize("window", [8, 40])
def test_windows_in_chunks_and_bins(window: int) -> None:
    model = tiny("mistral", num_key_value_heads=2, sliding_window=window)
    ids = tokens(_COUNT)
    truth = eager(model, input_ids=ids).attentions
    rec = read_in(model, ids, (30, 31, 60), forced(4, 32, 8))
    for layer in (0, 1):
        agrees_in_bins(rec[layer, 3], truth[layer][0, 3].numpy())


def test_a_grid_of_bins_is_the_grid_of_rows(read: Any) -> None:
    """Totals are summed before anything is binned."""
    model, ids, _ = read
    fine = read_in(model, ids, (), forced(1, exact=[0, 1]))
    for bins in (4, 16):
        coarse = read_in(model, ids, (17, 40), forced(bins, distances=8))
        for name in ("entropy", "normalized_entropy", "peak", "sharp", "first", "max_score"):
            np.testing.assert_allclose(
                coarse.grid(name), fine.grid(name), rtol=1e-4, atol=1e-5, err_msg=name
            )


def test_largest_scores_of_a_bin_are_its_largest(read: Any) -> None:
    model, ids, _ = read
    fine = read_in(model, ids, (), forced(1))["L1H2"].stored["max_score"].values
    coarse = read_in(model, ids, (9,), forced(8))["L1H2"].stored["max_score"].values
    wanted = [fine[at : at + 8].max() for at in range(0, _COUNT, 8)]
    np.testing.assert_allclose(coarse, wanted, rtol=1e-5)


def test_a_plan_serves_one_prompt(read: Any) -> None:
    """What was planned for the announced prompt is not used for the next one."""
    model, ids, _ = read
    with torch.no_grad(), regard.record(model) as rec:
        rec.expect(_COUNT, forced(8))
        model(ids)
        rec.finish()
        model(ids[:, :40])
    bins = [view["L0H0"].place.row_bin for view in rec.recording.prompts]
    assert bins == [8, 1]
    assert [view["L0H0"].exact for view in rec.recording.prompts] == [False, True]


# ── while it is being made ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_is_written_can_be_read_while_it_grows(
    read: Any, tmp_path: Any, in_memory: bool
) -> None:
    from transformers import DynamicCache

    model, ids, truth = read
    cache = DynamicCache(config=model.config)
    path = None if in_memory else tmp_path / "a.regard"
    seen = []
    with torch.no_grad(), regard.record(model, path) as rec:
        rec.expect(_COUNT, forced(1, exact=[0, 1]))
        for start in range(0, _COUNT, 15):
            part = ids[:, start : start + 15]
            model(part, past_key_values=cache, use_cache=True)
            so_far = rec.so_far()
            head = so_far["L1H0"]
            found = head.rows(head.recorded)
            seen.append(len(found))
            right = truth[1][0][: seen[-1], : found.shape[1]]
            np.testing.assert_allclose(found, right, atol=3e-6)
            assert so_far.is_live and not so_far.prompts[0].finished
    assert seen == sorted(seen) and seen[0] > 0 and seen[-1] == _COUNT
    assert rec["L1H0"].recorded == range(_COUNT) and rec.prompts[0].finished


def test_written_bytes_grow_and_are_about_the_files(read: Any, tmp_path: Any) -> None:
    model, ids, _ = read
    path = tmp_path / "a.regard"
    with torch.no_grad(), regard.record(model, path) as rec:
        before = rec.written_bytes
        model(ids)
        rec.finish()
        during = rec.written_bytes
    assert before < during
    assert 0.5 * path.stat().st_size < during < 2 * path.stat().st_size


def test_an_unfinished_recording_is_not_asked(read: Any) -> None:
    model, ids, _ = read
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
        with pytest.raises(InputError, match="being made; ask after the with block"):
            rec["L0H0"]
        with pytest.raises(InputError, match="being made"):
            rec.labels()
        assert rec._repr_html_() is None
    assert "<" in rec._repr_html_() and rec.labels()


def test_a_key_that_is_pressed_ends_the_prompt_there(read: Any, tmp_path: Any) -> None:
    model, ids, truth = read
    path = tmp_path / "a.regard"
    with pytest.raises(KeyboardInterrupt), torch.no_grad(), regard.record(model, path):
        model(ids)
        raise KeyboardInterrupt
    with regard.open(path) as rec:
        assert rec.damage == () and not rec.prompts[0].finished
        np.testing.assert_allclose(np.asarray(rec["L1H3"]), truth[1][3], atol=3e-6)


def test_facts_and_sayings_are_kept(read: Any) -> None:
    model, ids, _ = read
    with torch.no_grad(), regard.record(model) as rec:
        rec.note(check={"rows": 3})
        model(ids)
        rec.say(0, title="a title", bos="<s>")
        rec.say(7, title="of nobody")
    made = rec.recording
    assert made.check == {"rows": 3}
    assert (rec.prompts[0].title, rec.prompts[0].bos) == ("a title", "<s>")
    assert made.model["family"] == "llama" and made.model["layers"] == 2
    assert made.model["parameters"] == sum(p.numel() for p in model.parameters())
    assert made.plan["row_bin"] == 1
    assert set(made.made) == {"regard", "torch", "transformers", "date"}


def test_only_modules_are_recorded() -> None:
    with pytest.raises(InputError, match=r"model is a str; give a torch\.nn\.Module"):
        regard.record("llama")  # type: ignore[arg-type]


def test_what_python_asks_of_any_object_is_no_question_to_the_recording(read: Any) -> None:
    rec = regard.record(read[0])
    assert isinstance(rec, Recorder)
    with pytest.raises(AttributeError):
        _ = rec.__array_interface__
    with pytest.raises(InputError, match="has not begun"):
        _ = rec.begun
