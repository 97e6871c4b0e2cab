"""The report: every label with its number, most surprising first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regard import study
from regard.errors import InputError
from support.recordings.planted import KINDS


def test_labels_in_order_of_surprise(planted: Any) -> None:
    report = study.make_report(planted, top=5)
    away = [one.surprise for one in report.found]
    assert away == sorted(away, reverse=True) and len(report.told) == 5
    given = {(head.label, label) for head in report.heads for label in head.labels}
    assert {(one.head.label, one.finding.name) for one in report.found} == given
    for one in report.found:
        assert one.row is not None and f"{one.finding.score:.2f}" in one.sentence


def test_counts_and_the_strongest(planted: Any) -> None:
    report = study.make_report(planted)
    counts = report.counts()
    assert counts["sink"] == len(KINDS) and counts["previous"] == 2
    assert "unclear" not in counts or counts["unclear"] == sum(not h.labels for h in report.heads)
    (first, score), (second, lower) = report.strongest("previous")
    assert (first, second) == ("L0H0", "L1H0") and score > lower
    assert report.unknown() == {"retrieval": "no needle was given"}


def test_json_says_all_of_it(planted: Any) -> None:
    report = study.make_report(planted, top=3)
    back = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert len(back["findings"]) == 3 and len(back["heads"]) == len(planted.labels())
    assert back["labels"] == len(report.found) and back["tokens"] == 160
    assert "not why" in back["caveat"] and "knock" in back["causal_check"]
    first = back["findings"][0]
    assert {
        "label",
        "layer",
        "head",
        "row",
        "pattern",
        "score",
        "chance",
        "threshold",
        "conditional",
        "non_sink",
        "surprise",
        "sentence",
        "rows",
        "counter",
    } <= set(first)
    assert first["sentence"].startswith(first["label"])


def test_doubts_about_the_recording_are_told() -> None:
    import regard
    from regard.recording import Recording
    from support.recordings import Chunk, write_recording

    store, _ = write_recording(chunks=[Chunk((0, 40), (0, 40), regard.Causal())])
    assert "still being written" in study.make_report(Recording(store)).doubts[0]
    store.close()
    assert not study.make_report(Recording(store)).doubts


def test_a_negative_number_of_findings(planted: Any) -> None:
    with pytest.raises(InputError, match="top=-1; give how many"):
        study.make_report(planted, top=-1)
