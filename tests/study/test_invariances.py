"""What must not depend on order or on company: distances, alignments, rollout, labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard import study
from regard.recording import Memory, Stream
from regard.recording.pieces import sort_pieces
from regard.recording.sinks import SINK, few_rows, find_sinks
from regard.recording.visibility import VisibleSpans
from regard.study.align import align
from regard.study.divergence import js_distance, js_of_masses
from regard.study.rollout import roll_out
from support.recordings.planted import mixed, record_planted, targets, text

MASSES = arrays.arrays(np.float64, 6, elements=st.floats(0, 10))
SHARES = MASSES.map(lambda m: (m + 1e-3) / (m + 1e-3).sum())
IDS = st.lists(st.integers(0, 3), max_size=25)


def stream(ids: list[int]) -> Stream:
    store = Memory()
    store.add("P0/tokens/ids/0", np.array(ids, np.int32))
    return Stream(store, sort_pieces(store), 0, "tokens")


# ── distances between distributions ──────────────────────────────────────────────────────────


@given(SHARES, SHARES, SHARES)
def test_it_is_a_distance(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> None:
    assert 0 <= js_distance(p, q) <= 1
    assert js_distance(p, p) == pytest.approx(0, abs=1e-7)
    assert js_distance(p, q) == pytest.approx(float(js_distance(q, p)))
    assert js_distance(p, r) <= js_distance(p, q) + js_distance(q, r) + 1e-9


@given(SHARES, SHARES, st.permutations(range(6)), st.floats(0.01, 100))
def test_neither_order_nor_size_matters(
    p: np.ndarray, q: np.ndarray, order: list[int], size: float
) -> None:
    assert js_distance(p[order], q[order]) == pytest.approx(float(js_distance(p, q)), abs=1e-9)
    assert js_of_masses(size * p, q) == pytest.approx(float(js_distance(p, q)), abs=1e-6)


@given(MASSES)
def test_nothing_is_as_far_from_something_as_can_be(p: np.ndarray) -> None:
    assert js_of_masses(p, np.zeros(6)) == (1.0 if p.sum() > 0 else 0.0)
    assert js_of_masses(np.zeros(6), np.zeros(6)) == 0


# ── which token stands for which ─────────────────────────────────────────────────────────────


@given(IDS, IDS)
def test_pairs_ascend_and_are_no_worse_from_the_other_side(a: list[int], b: list[int]) -> None:
    counts = len(a), len(b)
    one, other = align(stream(a), stream(b), counts), align(stream(b), stream(a), counts[::-1])
    for found in (one, other):
        assert (np.diff(found.a) > 0).all() and (np.diff(found.b) > 0).all()
    if len(a) != len(b):
        assert all(a[i] == b[j] for i, j in zip(one.a, one.b, strict=True))
        assert all(b[i] == a[j] for i, j in zip(other.a, other.b, strict=True))
    else:
        assert one.is_identity and other.is_identity


@given(IDS, IDS, st.lists(st.integers(4, 9), min_size=1, max_size=6))
def test_words_put_in_between_are_left_out(
    before: list[int], after: list[int], new: list[int]
) -> None:
    a, b = before + after, before + new + after
    found = align(stream(a), stream(b), (len(a), len(b)))
    assert len(found) == len(a) and not set(found.b.tolist()) & set(
        range(len(before), len(before) + len(new))
    )


@pytest.mark.parametrize("sizes", [(9, 0), (0, 9), (9, 4), (4, 9), (4, 4)])
def test_too_few_ids_on_either_side_are_said(sizes: tuple[int, int]) -> None:
    """A side with more ids than rows does not make up for the other."""
    a, b = (stream(list(range(size))) for size in sizes)
    found = align(a, b, (6, 6))
    assert found.how == "row by row; the tokens are not known" and len(found) == 6


# ── rollout ──────────────────────────────────────────────────────────────────────────────────


class Matrix:
    """A layer that is known as a whole."""

    def __init__(self, weights: np.ndarray) -> None:
        self.shape, self.T = weights.shape, weights.T


@st.composite
def layers(draw: Any) -> list[np.ndarray]:
    """Rows of weights that add up to 1."""
    size, count = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    dice = np.random.default_rng(draw(st.integers(0, 10**6)))
    made = dice.random((count, size, size)) + 1e-3
    return list(made / made.sum(-1, keepdims=True))


@given(layers(), st.floats(0, 1))
def test_rollout_is_the_product_of_its_layers(made: list[np.ndarray], residual: float) -> None:
    size = len(made[0])
    whole = np.eye(size)
    for weights in made:
        whole = ((1 - residual) * weights + residual * np.eye(size)) @ whole
    for token in range(size):
        found = roll_out([Matrix(one) for one in made], token, residual=residual)
        np.testing.assert_allclose(found.shares, whole[token], atol=1e-9)
        assert found.shares.sum() == pytest.approx(1) and found.layers == len(made)


@given(layers())
def test_heads_of_a_layer_are_their_mean(made: list[np.ndarray]) -> None:
    together = roll_out([[Matrix(one) for one in made]], -1)
    mean = roll_out([Matrix(np.mean(made, axis=0))], -1)
    np.testing.assert_allclose(together.shares, mean.shares, atol=1e-12)
    alone = roll_out([Matrix(made[0])], -1, residual=1.0)
    assert alone.shares.tolist() == [0.0] * (len(made[0]) - 1) + [1.0]


# ── who sees what, and sinks ─────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=8),
       arrays.arrays(bool, 12), st.integers(-3, 15), st.integers(-3, 15))  # fmt: skip
def test_intervals_count_as_cells_do(
    spans: list[tuple[int, int]], marks: np.ndarray, start: int, stop: int
) -> None:
    low, high = (np.array([f(s) for s in spans], np.int64) for f in (min, max))
    reach = VisibleSpans(np.arange(len(spans)), low, high)
    j = np.arange(12)
    seen = (j >= low[:, None]) & (j < high[:, None])
    assert reach.visible.tolist() == seen.sum(1).tolist()
    assert reach.among(marks).tolist() == (seen & marks).sum(1).tolist()
    inside = seen & (j >= start) & (j < stop)
    assert reach.within(start, stop).tolist() == inside.sum(1).tolist()


@given(arrays.arrays(np.float64, 20, elements=st.floats(0, 1)), st.integers(1, 200))
def test_mass_on_sinks_and_beside_them_is_all_of_it(shares: np.ndarray, rows: int) -> None:
    seen = np.full(20, rows)
    found = find_sinks(shares * rows, seen, rows, count=rows)
    assert found is not None
    assert found.mass + found.rest == pytest.approx(shares.sum())
    assert found.keys.tolist() == np.flatnonzero(shares * rows > SINK * seen).tolist()
    assert found.highest == pytest.approx(shares.max()) and few_rows(rows) <= max(rows, 1)
    assert not found.among(np.array([-1, -7])).any()


# ── labels ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [0, 1])
def test_a_head_is_called_the_same_wherever_it_stands(seed: int) -> None:
    """Its labels and scores depend on neither its number nor its neighbours, but for the one
    pattern that is a comparison with them."""
    ids = text(120, seed=seed)
    aims = targets(ids, seed=seed)
    kinds = ["previous", "duplicate-token", "delimiter", "uniform"]
    heads = [mixed(aims[kind], strength=0.9, seed=n) for n, kind in enumerate(kinds)]
    forth = study.patterns(record_planted(np.array([heads]), ids))
    back = study.patterns(record_planted(np.array([heads[::-1]]), ids))[::-1]
    for kind, weights, one, other in zip(kinds, heads, forth, back, strict=True):
        (alone,) = study.patterns(record_planted(weights[None, None], ids))
        assert kind in one.labels and one.labels == other.labels == alone.labels
        for found in zip(one, other, alone, strict=True):
            if found[0].pattern != "inactive":
                scores = [each.score for each in found]
                assert scores == pytest.approx([scores[0]] * 3, abs=1e-6, nan_ok=True)
