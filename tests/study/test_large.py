"""Long texts: a report costs what it reads, and no q and k."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import regard.recording
from bench.long_recording import write_large
from regard import study
from regard.recording import Writer


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
