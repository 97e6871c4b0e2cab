"""Which heads are meant, which part of each, and what is known of it: kept, computed, in bins."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError, UnavailableError
from regard.views import parts
from regard.views.parts import (
    HeadPart,
    Selection,
    check_exact,
    heaviest,
    known_rows,
    matching,
    part_of,
    received,
)
from support.recordings import in_memory

N = 40
LAYER = [f"L0H{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("patterns", "labels"),
    [
        (None, [*LAYER, *(f"L1H{n}" for n in range(4))]),
        ("L0H2", ["L0H2"]),
        ("l0h2", ["L0H2"]),
        ("L0", LAYER),
        ("L0H*", LAYER),
        ("L*H3", ["L0H3", "L1H3"]),
        ("L1H0,L0H1", ["L0H1", "L1H0"]),  # in the order of the model
        ("L0H1, L0H1", ["L0H1"]),
        ("L[01]H0", ["L0H0", "L1H0"]),
        (["L1H0", "L0H1"], ["L0H1", "L1H0"]),
    ],
)
def test_patterns(patterns, labels):
    assert matching(in_memory()[0].labels(), patterns) == labels


@pytest.mark.parametrize("patterns", ["L9", "L0H1,L0H9", "", "nonsense"])
def test_a_pattern_that_means_nothing(patterns):
    with pytest.raises(InputError, match=r"means no recorded head; there are 'L0H0' … 'L1H3'"):
        matching(in_memory()[0].labels(), patterns)


def test_stacks_have_names():
    labels = [f"{stack}.L0H{n}" for stack in ("cross", "encoder") for n in range(4)]
    assert matching(labels, "cross.L0") == labels[:4]
    assert matching(labels, "*.L0H1") == ["cross.L0H1", "encoder.L0H1"]


def test_a_part_of_the_recorded_rows():
    rec, _ = in_memory(rows=(4, 12))
    one = HeadPart(rec.prompts[0], rec["L0H1"], range(6, 9), range(2, 5))
    assert one.name == "P0/L0H1"
    assert (one.own_rows, one.own_keys) == (slice(2, 5), slice(2, 5))


def test_parts_of_all_texts():
    rec, _ = in_memory(prompts=2)
    some = Selection(rec, "L0H1,L1H0", rows=slice(-3, None), keys=2)
    assert [(one.name, one.rows, one.keys) for one in some.parts()] == [
        (f"P{prompt}/{label}", range(9, 12), range(2, 3))
        for prompt in (0, 1)
        for label in ("L0H1", "L1H0")
    ]
    assert {one.prompt.number for one in Selection(rec, prompt=-1).parts()} == {1}


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        (None, range(20)),
        (slice(3, 7), range(3, 7)),
        (slice(0, 4), range(4)),
        (slice(-5, -2), range(15, 18)),
        (range(3, 7), range(3, 7)),
        (7, range(7, 8)),
        (np.int64(-1), range(19, 20)),
    ],
)
def test_ranges(wanted, meant):
    assert part_of("rows", wanted, range(20)) == meant


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (slice(9, 99), r"rows 9:99: not a part of what there is; that is 0:20"),
        (slice(-99, None), r"rows -99:: not a part"),
        (20, r"rows 20: not a part"),
        (slice(0, 9, 2), "without a step"),
        ("3:7", r"rows '3:7': give a slice or range"),
        (slice("a", 3), "give a slice or range"),
    ],
)
def test_ranges_that_are_not_there(wanted, said):
    with pytest.raises(InputError, match=said):
        part_of("rows", wanted, range(20))


def test_single_cells_are_needed():
    rec, _ = in_memory()
    check_exact(HeadPart(rec.prompts[0], rec["L0H0"], range(2), range(2)))
    with pytest.raises(UnavailableError, match=r"L1H0: it did not fit .*; name heads of other"):
        check_exact(HeadPart(rec.prompts[0], rec["L1H0"], range(2), range(2)))


# ── what is known ────────────────────────────────────────────────────────────────────────────


def part(label="L0H1", rows=range(N), keys=range(N), **options):
    """A part of a head, and its truth (L, S)."""
    rec, made = in_memory(["x"] * N, layers=2, **options)
    truth = made[0, int(label[1])].truth.weights()[int(label[3])]
    return HeadPart(rec.prompts[0], rec[label], rows, keys), truth


@pytest.mark.parametrize("label", ["L0H1", "L1H1"])
def test_kept_numbers_are_given_as_they_are(label):
    one, _ = part(label, rows=range(5, 9))
    edges, known = known_rows(one)
    assert edges.tolist() == [5, 6, 7, 8, 9]
    assert list(known) == list(one.head.row_numbers)
    for name in one.head.row_numbers:
        wanted = one.head.stored[name].values[5:9]
        np.testing.assert_array_equal(known[name](), wanted)


def test_numbers_are_computed_where_they_can_be():
    one, truth = part(statistics=False)
    known = known_rows(one)[1]
    assert list(known) == ["lse", "entropy", "max_score", "peak", "concentration"]
    np.testing.assert_allclose(known["peak"](), truth.max(1), rtol=1e-4)
    np.testing.assert_allclose(known["concentration"](), (truth**2).sum(1), rtol=1e-4)


@pytest.mark.parametrize(
    ("rows", "bins"), [(range(N), range(5)), (range(10, 20), range(1, 3)), (range(10, 11), [1])]
)
def test_bins_where_only_bins_were_kept(rows, bins):
    """Those that a range touches; of one row its bin."""
    one, truth = part("L1H1", rows=rows, row_bin=8)
    edges, known = known_rows(one)
    assert edges.tolist() == [*(8 * n for n in bins), 8 * (bins[-1] + 1)]
    assert "lse" not in known and "peak" in known
    wanted = truth.max(1).reshape(5, 8).mean(1)[list(bins)]
    np.testing.assert_allclose(known["peak"](), wanted, rtol=1e-4)


def test_single_rows_of_an_exact_head_are_computed_behind_its_bins():
    one, truth = part("L0H1", row_bin=8)
    edges, known = known_rows(one)
    assert edges.size == N + 1
    np.testing.assert_allclose(known["peak"](), truth.max(1), rtol=1e-4)


def test_long_texts_come_in_their_bins(monkeypatch):
    monkeypatch.setattr(parts, "_QUICK", N * N - 1)
    one, truth = part("L0H1", row_bin=8, top_every=4)
    edges, known = known_rows(one)
    assert edges.tolist() == [0, 8, 16, 24, 32, 40] and "lse" not in known
    wanted = truth.max(1).reshape(5, 8).mean(1)
    np.testing.assert_allclose(known["peak"](), wanted, rtol=1e-4)
    assert heaviest(one, 3).rows.tolist() == list(range(0, N, 4))


@pytest.mark.parametrize(("label", "k"), [("L0H1", 12), ("L1H1", 3)])
def test_the_heaviest_keys(label, k):
    one, truth = part(label, rows=range(20, 30))
    best = heaviest(one, k)
    assert best.rows.tolist() == list(range(20, 30))
    assert best.keys.shape == best.weights.shape == (10, k)
    np.testing.assert_array_equal(best.keys[:, 0], truth[20:30].argmax(1))
    np.testing.assert_allclose(best.weights[:, 0], truth[20:30].max(1), rtol=1e-4)
    assert label == "L0H1" or heaviest(one, 99).keys.shape == (10, 8)  # as many as were kept


def test_every_nth_row_where_no_more_were_kept():
    one, truth = part("L1H1", rows=range(3, 20), top_every=4)
    best = heaviest(one, 2)
    assert best.rows.tolist() == [4, 8, 12, 16]
    np.testing.assert_array_equal(best.keys[:, 0], truth[[4, 8, 12, 16]].argmax(1))


@pytest.mark.parametrize("options", [{}, {"statistics": False}])
def test_mass_received(options):
    one, truth = part(keys=range(4, 9), **options)
    edges, mass = received(one)
    assert edges.tolist() == [4, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(mass(), truth.sum(0)[4:9], rtol=1e-4)
    one, truth = part("L1H1", keys=range(10, 20), key_bin=8)
    edges, mass = received(one)
    assert edges.tolist() == [8, 16, 24]
    np.testing.assert_allclose(mass(), truth.sum(0).reshape(5, 8).sum(1)[1:3], rtol=1e-4)


def test_what_was_not_kept_and_cannot_be_computed():
    one, _ = part("L1H1", statistics=False)
    for ask in (lambda: heaviest(one, 3), lambda: received(one)[1]()):
        with pytest.raises(UnavailableError, match="budget of 1 kB"):
            ask()
