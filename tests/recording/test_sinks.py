"""Sinks, from the mass that keys received and from the rows whose heaviest keys are listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import regard
from regard import study
from regard.recording import Recording
from regard.recording.layer import Held
from regard.recording.sinks import (
    MOST_HEAVY,
    SINK,
    UNKNOWN_SINKS,
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


def parked(*shares: tuple[int, float]) -> np.ndarray:
    """(N, N): the rows from each key on give it that share, the rest is even."""
    weights = causal(N) / np.arange(1, N + 1)[:, None]
    for key, share in shares:
        weights[key:] *= 1 - share
        weights[key:, key] += share
    return weights


def listed(weights: np.ndarray, every: int = 1, k: int = 8) -> Tops:
    rows = np.arange(0, N, every)
    keys = np.argsort(-weights[rows], axis=1, kind="stable")[:, :k]
    return Tops(rows, keys, np.take_along_axis(weights[rows], keys, 1))


def columns(weights: np.ndarray) -> Any:
    return find_sinks(weights.sum(0), SEEN, N, count=N)


@pytest.mark.parametrize("shares", [[], [(0, 0.6)], [(0, 0.7), (31, 0.5)], [(90, 0.9)]])
def test_both_ways_find_the_same_keys(shares: list[tuple[int, float]]) -> None:
    weights = parked(*shares)
    reach = VisibleSpans(np.arange(N), np.zeros(N, np.int64), np.arange(1, N + 1))
    for found in (columns(weights), sinks_from_lists(listed(weights), reach, N, 0.0)):
        assert found.keys.tolist() == sorted(key for key, _ in shares)
        mass = weights[:, found.keys].sum(-1).mean()
        assert found.mass == pytest.approx(mass, abs=0.01)
        assert found.mass + found.rest == pytest.approx(1, abs=1e-9)
        assert (found.highest > SINK) == bool(shares)
    some = sinks_from_lists(listed(weights, every=4), reach, N, 0.0)
    assert some.keys.tolist() == sorted(key for key, _ in shares)


def test_a_key_that_few_rows_see_is_no_sink() -> None:
    assert few_rows(1000) == 64 and few_rows(40) == 20 and few_rows(1) == 1
    assert columns(parked((N - 64, 0.9))).keys.tolist() == [N - 64]
    assert columns(parked((N - 63, 0.9))).keys.size == 0


def test_the_rest_of_an_all_but_total_sink_is_a_sum() -> None:
    found = columns(parked((0, 1 - 1e-6)))
    assert found.rest == pytest.approx(1e-6, rel=0.05)


def test_which_of_some_keys_are_sinks() -> None:
    found = columns(parked((7, 0.6)))
    assert found.among(np.array([[7, 3], [-1, 7]])).tolist() == [[True, False], [False, True]]
    assert not UNKNOWN_SINKS.among(np.array([0, 5])).any()


def binned(weights: np.ndarray, size: int) -> Sinks | None:
    got = weights.sum(0)
    bins = np.add.reduceat(got, np.arange(0, N, size))
    return find_sinks(bins, SEEN, N, count=N, size=size, first=float(got[0]))


@pytest.mark.parametrize("size", [2, 3, 16, 64, 199, 200, 256])
@pytest.mark.parametrize("shares", [[], [(0, 0.6)], [(0, 0.7), (31, 0.5)], [(90, 0.9)], [(0, 1)]])
def test_bins_say_the_same_as_keys_or_nothing(size: int, shares: list[tuple[int, float]]) -> None:
    weights = parked(*shares)
    found, right = binned(weights, size), columns(weights)
    if found is not None:
        assert found.keys.tolist() == right.keys.tolist()
        assert found.mass == pytest.approx(right.mass)
        assert found.rest == pytest.approx(right.rest, abs=1e-9)
        assert found.among(np.array([0, N - 1, -1])).tolist() == [right.marks[0], False, False]


def test_what_bins_can_tell() -> None:
    """Key 0 however coarse they are, as long as nothing else holds enough for a sink."""
    near = np.eye(N)  # each key gets 1: no more than few_rows · SINK = 19 in any bin of 16
    for size, is_known in ((2, True), (16, True), (64, False), (N, False)):
        assert (binned(near, size) is not None) == is_known
    for size in (2, 16, 64, N):
        found = binned(parked((0, 0.95)), size)
        assert found is not None and found.keys.tolist() == [0]
        assert binned(parked((90, 0.9)), size) is None  # which key of the bin it is, nobody knows
    assert find_sinks(np.ones(2), SEEN, N, count=N, size=N // 2) is None


def test_a_coarse_recording_still_names_the_key() -> None:
    ids, weights = text(N), parked((0, 0.6))
    coarse = record_planted(weights[None, None], ids, budget="90kB")
    assert coarse["L0H0"].place.key_bin > 1
    (head,) = study.patterns(coarse)
    assert head["sink"].detail["keys"] == [0] and head["sink"].detail["tokens"] == ["<s>"]
    assert head.labels == ("sink",)


def test_too_few_bins_tell_nothing() -> None:
    chunk = Chunk((0, N), (0, N), regard.Causal())
    store, _ = write_recording(chunks=[chunk], key_bin=64, top_every=64, row_bin=64)
    for head in study.patterns(Recording(store)):
        assert "too few bins" in head["sink"].why_not
        assert np.isnan(head.non_sink) and np.isnan(head.sink)
        if head["sharp"].score >= 0.5:
            assert "nobody knows" in head["sharp"].why_not


def heads_that_look_back() -> np.ndarray:
    """(2, N, N): mostly at the token before, mostly at itself; no sink."""
    before = np.eye(N, k=-1)
    before[0, 0] = 1
    return np.stack([0.6 * before + 0.4 * parked(), 0.6 * np.eye(N) + 0.4 * parked()])


def test_labels_that_need_no_sinks_are_given_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the same text with every key; none is invented. Older recordings do not name
    the keys that may be sinks."""
    monkeypatch.setattr(Held, "_heavy", [])
    ids, weights = text(N), heads_that_look_back()
    fine, coarse = (record_planted(weights[None], ids, budget=size) for size in ("9MB", "20kB"))
    assert fine["L0H0"].place.key_bin == 1 and coarse["L0H0"].place.key_bin > 32
    for one, other in zip(study.patterns(fine), study.patterns(coarse), strict=True):
        assert np.isnan(other.non_sink) and one.non_sink == pytest.approx(1)
        assert other.labels == one.labels != ()
        assert "keys are binned by" in other.not_known["sink"]
    report = study.make_report(coarse)
    assert "too few bins" in report.unknown()["sink"]
    assert report.as_dict()["heads"][0]["not_known"]["sink"] == report.unknown()["sink"]


@pytest.mark.parametrize("budget", ["21kB", "24kB", "40kB", "90kB"])
@pytest.mark.parametrize(
    "shares", [[], [(0, 0.6)], [(0, 0.7), (31, 0.5)], [(90, 0.9)], [(5, 0.4), (6, 0.5)]]
)
def test_sinks_are_known_in_every_budget(budget: str, shares: list[tuple[int, float]]) -> None:
    ids, weights = text(N), np.stack([parked(*shares), *heads_that_look_back()])
    fine, coarse = (record_planted(weights[None], ids, budget=size) for size in ("9MB", budget))
    assert coarse["L0H0"].place.key_bin > 1
    for one, other in zip(study.patterns(fine), study.patterns(coarse), strict=True):
        assert other["sink"].detail["keys"] == one["sink"].detail["keys"]
        assert other["sink"].score == pytest.approx(one["sink"].score, abs=1e-5)
        assert other.non_sink == pytest.approx(one.non_sink, abs=1e-5)
        assert set(other.not_known) == {"delimiter", "retrieval"}
        assert set(other.labels) == set(one.labels) - {"delimiter"}
    for name in ("sink", "non_sink"):
        np.testing.assert_allclose(coarse.grid(name), fine.grid(name), atol=1e-5)


def test_more_heavy_keys_than_are_listed() -> None:
    """Thirty keys that each may be a sink by its mass: those beyond the list are as heavy as its
    last at most, which is known to be no sink where enough rows see them."""
    masses = np.zeros(4000)
    masses[10:40] = np.linspace(130, 100, 30)
    for shift, is_known in ((0, True), (3700, False)):  # seen by 300 rows, 90 of mass is enough
        got = np.roll(masses, shift)
        bins = np.add.reduceat(got, np.arange(0, 4000, 64))
        found = find_sinks(
            bins, 4000 - np.arange(4000), 4000, size=64, first=got[0], heavy=named(got)
        )
        assert (found is not None) == is_known
        assert found is None or found.keys.size == 0


MASSES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.25, 1.0, 2.0]),  # many are equal
    st.floats(0, 1e4, width=32),
    st.sampled_from([np.inf, np.nan]),
)


@given(
    few=arrays(np.float64, st.integers(1, 200), elements=MASSES),
    shape=st.tuples(st.integers(0, 3), st.sampled_from([0, 5, 16, 17, 1023, 1024, 1500, 5000])),
    seed=st.integers(0, 99),
    single=st.booleans(),
)
def test_the_heaviest_keys_are_those_of_a_full_sort(
    few: np.ndarray, shape: tuple[int, int], seed: int, single: bool
) -> None:
    """To the bit, and among equal ones the earlier."""
    received = np.random.default_rng(seed).choice(few, shape)
    received = received.astype(np.float32) if single else received
    order = np.argsort(-received, axis=1, kind="stable")[:, :MOST_HEAVY]
    truth = np.take_along_axis(received, order, 1).astype(np.float32)
    keys, masses = heaviest(received)
    assert (keys.dtype, masses.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(keys, order)
    assert masses.tobytes() == truth.tobytes()


def named(*received: np.ndarray) -> Heavy:
    """What ranks list of the mass that keys received."""
    lists = [heaviest(one[None]) for one in received]
    return Heavy.of_ranks([(keys[0].astype(int), masses[0]) for keys, masses in lists])


def test_ranks_that_list_other_keys() -> None:
    """A sink that every rank lists is known; one that a rank leaves out may have more."""
    dice = np.random.default_rng(0)
    one, two = dice.uniform(0, 0.4, N), dice.uniform(0, 0.4, N)
    one[7], two[7], one[9] = 90.0, 70.0, 45.0
    bins = np.add.reduceat(one + two, np.arange(0, N, 16))
    first, count = float(one[0] + two[0]), float((one + two).sum())
    found = find_sinks(bins, SEEN, N, count=count, size=16, first=first, heavy=named(one, two))
    assert found is not None and found.keys.tolist() == [7]
    assert found.mass * count == pytest.approx(160)
    two = np.where(np.arange(N) < 40, 30.0, two)
    two[9] = 15.0  # not among the 16 heaviest of its rank: 45 + 30 would be enough
    bins = np.add.reduceat(one + two, np.arange(0, N, 16))
    assert (
        find_sinks(bins, SEEN, N, count=count, size=16, first=first, heavy=named(one, two)) is None
    )


def test_the_statistic_and_the_study_ask_one_finder() -> None:
    """One number each of the same heads, whatever the bins: where both know it, it is the same."""
    ids, weights = text(N), parked((0, 0.6), (31, 0.5))
    for budget in ("2GB", "90kB"):
        made = record_planted(weights[None, None], ids, budget=budget)
        (head,) = study.patterns(made)
        assert head.sink == pytest.approx(made.grid("sink")[0, 0], rel=1e-12)
        assert head.non_sink == pytest.approx(made.grid("non_sink")[0, 0], rel=1e-12)


def test_what_is_exactly_enough_is_no_sink() -> None:
    """A key counts by its mass, not by a share that rounding may lift over the bound."""
    seen = np.full(4, 70)
    received = np.array([SINK * 70, np.nextafter(SINK * 70, np.inf), 0.0, 1.0])
    found = find_sinks(received, seen, 70)
    assert found is not None and found.keys.tolist() == [1]
