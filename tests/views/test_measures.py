"""What is known row by row and key by key: kept, computed, in bins."""

from __future__ import annotations

import numpy as np
import pytest

from draw.recorded import in_memory
from regard.errors import UnavailableError
from regard.export import measures
from regard.export.chosen import Chosen
from regard.export.measures import (
    heaviest,
    is_kept,
    known_numbers,
    pooled,
    received,
    row_edges,
    row_numbers,
)

N = 40


def chosen(label="L0H1", rows=range(N), keys=range(N), **options):
    """A part of a head, and its truth (L, S)."""
    rec, made = in_memory(["x"] * N, layers=2, **options)
    truth = made[0, int(label[1])].truth.weights()[int(label[3])]
    return Chosen(rec.prompts[0], rec[label], rows, keys), truth


@pytest.mark.parametrize("label", ["L0H1", "L1H1"])
def test_kept_numbers_are_given_as_they_are(label):
    one, _ = chosen(label, rows=range(5, 9))
    edges = row_edges(one)
    assert edges.tolist() == [5, 6, 7, 8, 9]
    assert known_numbers(one, edges) == list(one.head.row_numbers)
    for name in one.head.row_numbers:
        wanted = one.head.stored[name].values[5:9]
        np.testing.assert_array_equal(row_numbers(one, name, edges), wanted)


def test_numbers_are_computed_where_they_can_be():
    one, truth = chosen(statistics=False)
    edges = row_edges(one)
    assert known_numbers(one, edges) == ["lse", "entropy", "max_score", "peak", "concentration"]
    np.testing.assert_allclose(row_numbers(one, "peak", edges), truth.max(1), rtol=1e-4)
    np.testing.assert_allclose(
        row_numbers(one, "concentration", edges), (truth**2).sum(1), rtol=1e-4
    )


def test_bins_where_only_bins_were_kept():
    one, truth = chosen("L1H1", row_bin=8)
    edges = row_edges(one)
    assert edges.tolist() == [0, 8, 16, 24, 32, 40]
    assert "lse" not in known_numbers(one, edges) and "peak" in known_numbers(one, edges)
    wanted = truth.max(1).reshape(5, 8).mean(1)
    np.testing.assert_allclose(row_numbers(one, "peak", edges), wanted, rtol=1e-4)


def test_bins_that_a_range_touches():
    one, truth = chosen("L1H1", rows=range(10, 20), row_bin=8)
    edges = row_edges(one)
    assert edges.tolist() == [8, 16, 24]
    wanted = truth.max(1).reshape(5, 8).mean(1)[1:3]
    np.testing.assert_allclose(row_numbers(one, "peak", edges), wanted, rtol=1e-4)


def test_single_rows_of_an_exact_head_are_computed_behind_its_bins():
    one, truth = chosen("L0H1", row_bin=8)
    edges = row_edges(one)
    assert edges.size == N + 1
    np.testing.assert_allclose(row_numbers(one, "peak", edges), truth.max(1), rtol=1e-4)


def test_long_texts_come_in_their_bins(monkeypatch):
    monkeypatch.setattr(measures, "_QUICK", N * N - 1)
    one, truth = chosen("L0H1", row_bin=8, top_every=4)
    edges = row_edges(one)
    assert edges.tolist() == [0, 8, 16, 24, 32, 40] and "lse" not in known_numbers(one, edges)
    wanted = truth.max(1).reshape(5, 8).mean(1)
    np.testing.assert_allclose(row_numbers(one, "peak", edges), wanted, rtol=1e-4)
    assert heaviest(one, 3).rows.tolist() == list(range(0, N, 4))


@pytest.mark.parametrize(("label", "k"), [("L0H1", 12), ("L1H1", 3)])
def test_the_heaviest_keys(label, k):
    one, truth = chosen(label, rows=range(20, 30))
    best = heaviest(one, k)
    assert best.rows.tolist() == list(range(20, 30))
    assert best.keys.shape == best.weights.shape == (10, k)
    np.testing.assert_array_equal(best.keys[:, 0], truth[20:30].argmax(1))
    np.testing.assert_allclose(best.weights[:, 0], truth[20:30].max(1), rtol=1e-4)


def test_no_more_keys_than_were_kept():
    one, _ = chosen("L1H1")
    assert heaviest(one, 99).keys.shape == (N, 8)


def test_every_nth_row_where_no_more_were_kept():
    one, truth = chosen("L1H1", rows=range(3, 20), top_every=4)
    best = heaviest(one, 2)
    assert best.rows.tolist() == [4, 8, 12, 16]
    np.testing.assert_array_equal(best.keys[:, 0], truth[[4, 8, 12, 16]].argmax(1))


@pytest.mark.parametrize("options", [{}, {"statistics": False}])
def test_mass_received(options):
    one, truth = chosen(keys=range(4, 9), **options)
    edges, mass = received(one)
    assert edges.tolist() == [4, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(mass, truth.sum(0)[4:9], rtol=1e-4)


def test_mass_received_in_bins():
    one, truth = chosen("L1H1", keys=range(10, 20), key_bin=8)
    edges, mass = received(one)
    assert edges.tolist() == [8, 16, 24]
    np.testing.assert_allclose(mass, truth.sum(0).reshape(5, 8).sum(1)[1:3], rtol=1e-4)


def test_maps():
    one, _ = chosen("L1H1")
    np.testing.assert_array_equal(pooled(one), one.head.stored["pooled"].values)
    one, truth = chosen(statistics=False)
    np.testing.assert_allclose(pooled(one), truth, rtol=1e-4, atol=1e-7)


def test_what_was_not_kept_and_cannot_be_computed():
    one, _ = chosen("L1H1", statistics=False)
    assert not is_kept(one, "top") and is_kept(one, "rows") and is_kept(one, "statistics")
    for ask in (lambda: heaviest(one, 3), lambda: received(one), lambda: pooled(one)):
        with pytest.raises(UnavailableError, match="budget of 1 kB"):
            ask()
