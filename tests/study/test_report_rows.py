"""The rows that show a label are looked for where they are told, and are the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import study
from regard.study import heads
from regard.study.evidence import rows_that_show
from support.recordings.planted import KINDS, mixed, record_planted, targets, text


@pytest.fixture
def looked_for(monkeypatch: Any) -> list[tuple[str, str]]:
    """Which rows were looked for, by head and pattern."""
    asked: list[tuple[str, str]] = []

    def counting(pattern: Any, head: Any, measure: Any) -> Any:
        asked.append((head.label, pattern.name))
        return rows_that_show(pattern, head, measure)

    monkeypatch.setattr(heads, "rows_that_show", counting)
    return asked


def names(labels: Any) -> list[tuple[str, str]]:
    return [(one.head.label, one.finding.pattern) for one in labels]


def test_rows_are_looked_for_of_what_is_told_alone(planted: Any, looked_for: Any) -> None:
    report = study.make_report(planted, top=5)
    assert len(looked_for) == 5 < len(report.found)
    assert sorted(looked_for) == sorted(names(report.told))
    report.as_dict(), report.counts(), report.strongest("previous")
    study.report_markdown(report)
    assert len(looked_for) == 5
    rest = list(report.found)
    assert len(looked_for) == len(rest) and len(set(looked_for)) == len(rest)


def test_none_is_looked_for_where_none_is_told(planted: Any, looked_for: Any) -> None:
    assert study.make_report(planted, top=0).counts() and not looked_for


def test_rows_do_not_depend_on_how_many_are_told(planted: Any) -> None:
    every = {
        (head.label, one.pattern): (one.rows, one.counter)
        for head in study.patterns(planted, evidence="labels")
        for one in head
        if one.holds
    }
    for top in (0, 1, 5, 10_000):
        found = study.make_report(planted, top=top).found
        assert names(found) == names(study.make_report(planted, top=10_000).found)
        assert {
            (one.head.label, one.finding.pattern): (one.finding.rows, one.finding.counter)
            for one in found
        } == every
        assert found[-1] == found[len(found) - 1] == list(found)[-1]
    with pytest.raises(IndexError):
        found[len(found)]


def test_what_is_told_outlives_the_file(tmp_path: Any) -> None:
    ids = text(120, seed=3)
    aims = targets(ids, seed=3)
    heads_of_one_layer = np.stack([mixed(aims[kind], 0.0, 0.9, 0.2) for kind in KINDS])
    record_planted(heads_of_one_layer[None], ids, tmp_path / "a.regard")
    with regard.open(tmp_path / "a.regard") as recording:
        report = study.make_report(recording, top=3)
    assert len(report.told) == 3 and all(one.finding.rows for one in report.told)
