"""Pieces of a tensor read as the tensor they are."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import FileError
from regard.recording import Memory
from regard.recording.pieces import Run, inner_name, sort_pieces

FULL = np.arange(2 * 50 * 3, dtype=np.float32).reshape(2, 50, 3)


def run(starts: dict[int, int], limit: int = 50, bin: int = 1, origin: int = 0, dtype=None) -> Run:
    """Pieces of FULL: start → end."""
    store = Memory()
    for start, end in starts.items():
        part = FULL[:, start:end:bin] if bin > 1 else FULL[:, start:end]
        if dtype == "BF16":
            store.add(
                f"P0/L0/q/{start}", (part.view(np.uint32) >> 16).astype(np.uint16), dtype=dtype
            )
        else:
            store.add(f"P0/L0/q/{start}", part.astype(dtype or np.float32))
    pieces = sort_pieces(store).get((0, "L0"), {}).get("q", {})
    return Run.of(store, pieces, origin, limit, bin)


def test_pieces_follow_each_other():
    found = run({0: 20, 20: 33, 33: 50})
    assert (found.origin, found.stop, len(found)) == (0, 50, 50) and not found.is_binned
    np.testing.assert_array_equal(found.numbers(1), FULL[1])
    np.testing.assert_array_equal(found.numbers(1, 25), FULL[1, :25])
    for start, stop in ((0, 50), (19, 21), (20, 33), (5, 6), (32, 50), (7, 7)):
        np.testing.assert_array_equal(found.take(0, start, stop), FULL[0, start:stop])
    assert found.edges().tolist() == list(range(51))


def test_a_gap_ends_them():
    assert run({0: 20, 21: 50}).stop == 20
    assert run({5: 20}).stop == 0 and run({}).stop == 0 and run({}).numbers(0).shape == (0,)
    assert run({10: 20, 20: 30}, origin=10).stop == 30


def test_the_note_may_lag_behind_them():
    found = run({0: 20, 20: 50}, limit=25)
    assert found.stop == 25
    np.testing.assert_array_equal(found.numbers(0), FULL[0, :25])
    assert run({0: 20, 20: 50}, limit=20).starts == (0,)


def test_bins_may_be_ragged_at_the_end_of_a_piece():
    found = run({0: 20, 20: 34, 34: 50}, bin=8)
    assert found.edges().tolist() == [0, 8, 16, 20, 28, 34, 42, 50]
    np.testing.assert_array_equal(found.numbers(0), FULL[0, [0, 8, 16, 20, 28, 34, 42]])
    assert found.is_binned and found.numbers(0, 21).shape == (4, 3)


def test_overlapping_pieces_are_refused():
    with pytest.raises(FileError, match="'P0/L0/q/10' overlaps"):
        run({0: 20, 10: 50})


def test_halves_are_widened():
    found = run({0: 20, 20: 50}, dtype="BF16")
    assert found.take(0, 3, 30).dtype == np.float32
    words = FULL.view(np.uint32) >> 16 << 16
    np.testing.assert_array_equal(found.numbers(1), words.view(np.float32)[1])
    assert run({0: 50}, dtype=np.float16).take(0, 0, 5).dtype == np.float32
    assert run({0: 50}, dtype=np.float64).take(0, 0, 5).dtype == np.float64


def test_of_ranks_that_say_the_same_the_longest_counts():
    class Two(Memory):
        """Names as a folder has them."""

    store = Two()
    store.add("rank-0000/P0/L0/k/0", FULL[:, :10])
    store.add("rank-0001/P0/L0/k/0", FULL[:, :30])
    store.add("rank-0001/P0/L0/k/30", FULL[:, 30:])
    found = Run.of(store, sort_pieces(store)[0, "L0"]["k"], 0, 50)
    np.testing.assert_array_equal(found.numbers(0), FULL[0])


def test_names():
    assert inner_name("rank-0012/P0/L0/q/0") == ("rank-0012/", "P0/L0/q/0")
    assert inner_name("P0/L0/q/0") == ("", "P0/L0/q/0")
    store = Memory()
    for name in ("P0/L0/q/0", "P0/L0/received", "other", "P0/a.b.L0/lse/7", "P0/L0/q/x"):
        store.add(name, np.zeros(1))
    found = {key: set(value) for key, value in sort_pieces(store).items()}
    assert found == {(0, "L0"): {"q", "received"}, (0, "a.b.L0"): {"lse"}}
