"""Long recordings made for measuring read like recorded ones."""

from __future__ import annotations

from bench.long_recording import write_large
from regard.recording import Memory, Recording


def test_long_recordings_hold_maps():
    store = Memory()
    write_large(store, 1000, layers=1, heads=5)
    recording = Recording(store)
    pooled = recording["L0H0"].pooled(16)
    assert pooled.shape == (63, 63)
    assert abs(float((pooled * 256).sum()) - 1000) < 40  # ragged edges are smaller than 16 × 16
