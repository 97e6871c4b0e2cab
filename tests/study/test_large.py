"""Long texts: a report costs what it reads, and no q and k."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

import regard.recording
from bench.long_recording import write_large
from regard import study
from regard.recording import Memory, Recording, Writer

LABELS = {"previous": ("previous",), "sink": ("sink",), "duplicate": ("duplicate-token",),
          "self": ("self",), "even": ()}  # fmt: skip


@pytest.mark.parametrize("row_bin", [1, 8])
def test_the_made_heads_are_called_what_they_are(row_bin: int) -> None:
    store = Memory()
    write_large(store, 4096, layers=1, heads=5, exact_layer=None, row_bin=row_bin)
    store.close()
    found = study.patterns(Recording(store))
    assert [head.labels for head in found] == list(LABELS.values())


def test_sixteen_thousand_tokens(tmp_path: Path) -> None:
    with Writer(tmp_path / "long.regard") as writer:
        write_large(writer, 16_384, layers=3, heads=5, exact_layer=1)
    with regard.recording.open(tmp_path / "long.regard") as recording:
        tracemalloc.start()
        report = study.make_report(recording, top=100)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert report.counts()["previous"] == 3
    assert peak < 200e6  # a matrix of one head would take 1 GB
