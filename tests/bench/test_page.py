"""How soon the page is there: real servers, a real browser, small sizes."""

from __future__ import annotations

from regard.bench.page import measure
from regard.recording import Memory, Recording


def test_a_small_round():
    overview, head, file = measure([2048], rounds=2)
    assert [row.what for row in (overview, head, file)] == ["overview", "head", "file"]
    assert (overview.tokens, file.tokens) == (2048, 128)
    assert overview.peer == "budget of 1000 ms" and file.peer == "budget of 500 ms"
    for row in (overview, head, file):
        assert 0 < row.p20_ms <= row.median_ms <= row.p80_ms
        assert row.rounds == 2 and row.heads == 144


def test_long_recordings_hold_maps():
    from regard.bench.long_recording import write_large

    store = Memory()
    write_large(store, 1000, layers=1, heads=5)
    recording = Recording(store)
    pooled = recording["L0H0"].pooled(16)
    assert pooled.shape == (63, 63)
    assert abs(float((pooled * 256).sum()) - 1000) < 40  # ragged edges are smaller than 16 × 16
