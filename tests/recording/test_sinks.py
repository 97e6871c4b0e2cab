"""Sinks: from the mass that keys received, however coarse its bins are, and from the rows whose
heaviest keys are listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import regard
from regard import study
from regard.recording import Memory, Recording
from regard.recording.sinks import (
    MOST_HEAVY,
    SINK,
    Heavy,
    Sinks,
    Tops,
    few_rows,
    find_sinks,
    heaviest,
    sinks_from_lists,
)
from regard.recording.visibility import VisibleSpans
from support.recordings import Chunk, write_recording
from support.recordings.planted import causal, record_planted, text

N = 200
SEEN = N - np.arange(N)
SHARES: list[list[tuple[int, float]]] = [
    [], [(0, 0.6)], [(0, 0.7), (31, 0.5)], [(90, 0.9)], [(5, 0.4), (6, 0.5)], [(0, 1)],
]  # fmt: skip


def parked(*shares: tuple[int, float]) -> np.ndarray:
    """(N, N): the rows from each key on give it that share, the rest is even."""
    weights = causal(N) / np.arange(1, N + 1)[:, None]
    for key, share in shares:
        weights[key:] *= 1 - share
        weights[key:, key] += share
    return weights


def columns(weights: np.ndarray) -> Any:
    return find_sinks(weights.sum(0), SEEN, N, count=N)


def binned(weights: np.ndarray, size: int) -> Sinks | None:
    got = weights.sum(0)
    bins = np.add.reduceat(got, np.arange(0, N, size))
    return find_sinks(bins, SEEN, N, count=N, size=size, first=float(got[0]))


def named(*received: np.ndarray) -> Heavy:
    """What ranks list of the mass that keys received."""
    lists = [heaviest(masses[None]) for masses in received]
    return Heavy.of_ranks([(keys[0].astype(int), masses[0]) for keys, masses in lists])


@pytest.mark.parametrize("shares", SHARES[:4])
def test_columns_and_listed_rows_have_the_same_sinks(shares):
    weights, reach = parked(*shares), VisibleSpans(np.arange(N), 0 * SEEN, np.arange(1, N + 1))

    def listed(every: int) -> Tops:
        rows = np.arange(0, N, every)
        keys = np.argsort(-weights[rows], axis=1, kind="stable")[:, :8]
        return Tops(rows, keys, np.take_along_axis(weights[rows], keys, 1))

    for sinks in (columns(weights), sinks_from_lists(listed(1), reach, N, 0.0)):
        assert sinks.keys.tolist() == sorted(key for key, _ in shares)
        assert sinks.mass == pytest.approx(weights[:, sinks.keys].sum(-1).mean(), abs=0.01)
        assert sinks.mass + sinks.rest == pytest.approx(1, abs=1e-9)
        assert (sinks.highest > SINK) == bool(shares)
    some = sinks_from_lists(listed(4), reach, N, 0.0)
    assert some.keys.tolist() == sorted(key for key, _ in shares)


def test_a_key_that_few_rows_see_is_no_sink():
    assert few_rows(1000) == 64 and few_rows(40) == 20 and few_rows(1) == 1
    assert columns(parked((N - 64, 0.9))).keys.tolist() == [N - 64]
    assert columns(parked((N - 63, 0.9))).keys.size == 0


def test_what_is_exactly_enough_is_no_sink_and_little_is_not_lost():
    """A key counts by its mass, not by a share that rounding may lift over the bound."""
    received = np.array([SINK * 70, np.nextafter(SINK * 70, np.inf), 0.0, 1.0])
    assert find_sinks(received, np.full(4, 70), 70).keys.tolist() == [1]
    assert columns(parked((0, 1 - 1e-6))).rest == pytest.approx(1e-6, rel=0.05)


# ── in bins ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [2, 3, 16, 64, 199, 200, 256])
def test_bins_say_the_same_as_keys_or_nothing(size):
    for weights in (parked(*shares) for shares in SHARES):
        sinks, right = binned(weights, size), columns(weights)
        if sinks is not None:
            assert sinks.keys.tolist() == right.keys.tolist()
            assert sinks.mass == pytest.approx(right.mass)
            assert sinks.rest == pytest.approx(right.rest, abs=1e-9)
            marks = [bool(right.marks[0]), False, False]
            assert sinks.among(np.array([0, N - 1, -1])).tolist() == marks


def test_what_bins_can_tell():
    """Key 0 however coarse they are, as long as nothing else holds enough for a sink."""
    near = np.eye(N)  # each key gets 1: no more than few_rows · SINK = 19 in any bin of 16
    for size, is_known in ((2, True), (16, True), (64, False), (N, False)):
        assert (binned(near, size) is not None) == is_known
    for size in (2, 16, 64, N):
        sinks = binned(parked((0, 0.95)), size)
        assert sinks is not None and sinks.keys.tolist() == [0]
        assert binned(parked((90, 0.9)), size) is None  # which key of the bin it is, nobody knows
    assert find_sinks(np.ones(2), SEEN, N, count=N, size=N // 2) is None


def test_more_heavy_keys_than_are_listed():
    """Thirty keys that each may be a sink by its mass: those beyond the list are as heavy as its
    last at most, which is known to be no sink where enough rows see them."""
    masses = np.zeros(4000)
    masses[10:40] = np.linspace(130, 100, 30)
    for shift, is_known in ((0, True), (3700, False)):  # seen by 300 rows, 90 of mass is enough
        got = np.roll(masses, shift)
        bins = np.add.reduceat(got, np.arange(0, 4000, 64))
        sinks = find_sinks(
            bins, 4000 - np.arange(4000), 4000, size=64, first=got[0], heavy=named(got)
        )
        assert (sinks is not None) == is_known
        assert sinks is None or sinks.keys.size == 0


def test_ranks_that_list_other_keys():
    """A sink that every rank lists is known; a key that a rank leaves out may have more."""
    dice = np.random.default_rng(0)
    a, b = dice.uniform(0, 0.4, N), dice.uniform(0, 0.4, N)
    a[7], b[7], a[9] = 90.0, 70.0, 45.0

    def sinks_of(*ranks: np.ndarray) -> Sinks | None:
        total = np.sum(ranks, axis=0)
        bins, count = np.add.reduceat(total, np.arange(0, N, 16)), float((a + b).sum())
        return find_sinks(
            bins, SEEN, N, count=count, size=16, first=float(total[0]), heavy=named(*ranks)
        )

    sinks = sinks_of(a, b)
    assert sinks is not None and sinks.keys.tolist() == [7]
    assert sinks.mass * float((a + b).sum()) == pytest.approx(160)
    many = np.where(np.arange(N) < 40, 30.0, b)
    many[9] = 15.0  # not among the 16 heaviest of its rank: 45 + 30 would be enough
    assert sinks_of(a, many) is None


MASSES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.25, 1.0, 2.0]),  # many are equal
    st.floats(0, 1e4, width=32),
    st.sampled_from([np.inf, np.nan]),
)


@given(
    few=arrays(np.float64, st.integers(1, 200), elements=MASSES),
    shape=st.tuples(st.integers(0, 3), st.sampled_from([0, 5, 16, 17, 1023, 1024, 1500, 5000])),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_heaviest_keys_are_those_of_a_full_sort(
    few: np.ndarray, shape: tuple[int, int], seed: int, dtype: Any
) -> None:
    """To the bit, and among equal ones the earlier."""
    received = np.random.default_rng(seed).choice(few, shape).astype(dtype)
    order = np.argsort(-received, axis=1, kind="stable")[:, :MOST_HEAVY]
    truth = np.take_along_axis(received, order, 1).astype(np.float32)
    keys, masses = heaviest(received)
    assert (keys.dtype, masses.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(keys, order)
    assert masses.tobytes() == truth.tobytes()


# ── in recordings ────────────────────────────────────────────────────────────────────────────


def looking_back() -> np.ndarray:
    """(2, N, N): mostly at the token before, mostly at itself; no sink."""
    before = np.eye(N, k=-1)
    before[0, 0] = 1
    return np.stack([0.6 * before + 0.4 * parked(), 0.6 * np.eye(N) + 0.4 * parked()])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("budget", ["21kB", "24kB", "40kB", "90kB"])
@pytest.mark.parametrize("shares", SHARES[:5])
def test_sinks_are_known_in_every_budget(budget, shares):
    ids, weights = text(N), np.stack([parked(*shares), *looking_back()])
    fine, coarse = (record_planted(weights[None], ids, budget=size) for size in ("9MB", budget))
    assert coarse["L0H0"].place.key_bin > 1
    for head, other in zip(study.patterns(fine), study.patterns(coarse), strict=True):
        assert other["sink"].detail["keys"] == head["sink"].detail["keys"]
        assert other["sink"].score == pytest.approx(head["sink"].score, abs=1e-5)
        assert other.non_sink == pytest.approx(head.non_sink, abs=1e-5)
        assert set(other.not_known) == {"delimiter", "retrieval"}
        assert set(other.labels) == set(head.labels) - {"delimiter"}
    for name in ("sink", "non_sink"):
        np.testing.assert_allclose(coarse.grid(name), fine.grid(name), atol=1e-5)
    named = [head["sink"].detail["keys"] for head in study.patterns(coarse)]
    assert named == [columns(weights[0]).keys.tolist(), [], []]


def test_labels_that_need_no_sinks_are_given_without_them():
    """As of the same text with every key; none is invented. Older recordings do not name the keys
    that may be sinks."""
    ids, weights = text(N), looking_back()
    fine, coarse = (record_planted(weights[None], ids, budget=size) for size in ("9MB", "20kB"))
    older, store = Memory(), coarse.recording.store
    for name, entry in store.entries.items():
        if "heavy" not in name:
            older.add(name, store.words(name), entry.metadata, dtype=entry.dtype)
    older.note(store.metadata)
    report = study.make_report(Recording(older))
    for head, other in zip(study.patterns(fine), report.heads, strict=True):
        assert np.isnan(other.non_sink) and head.non_sink == pytest.approx(1)
        assert other.labels == head.labels != ()
        assert "keys are binned by" in other.not_known["sink"]
    assert "too few bins" in report.unknown()["sink"]
    assert report.as_dict()["heads"][0]["not_known"]["sink"] == report.unknown()["sink"]


def test_too_few_bins_tell_nothing():
    chunk = Chunk((0, N), (0, N), regard.Causal())
    store, _ = write_recording(chunks=[chunk], key_bin=64, top_every=64, row_bin=64)
    for head in study.patterns(Recording(store)):
        assert "too few bins" in head["sink"].why_not
        assert np.isnan(head.non_sink) and np.isnan(head.sink)
        if head["sharp"].score >= 0.5:
            assert "nobody knows" in head["sharp"].why_not
