"""Counts without names: what is frequent is listed, what is rare is joined."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from regard.learn.grading.statistics import statistics


@dataclass(frozen=True)
class One:
    """A submission as it is counted."""

    verdict: str
    first_mistake: tuple[str, str] | None = None
    is_partial: bool = False


CLASS = [
    *[One("right")] * 4,
    *[One("wrong", ("scaling", "not-scaled"))] * 3,
    *[One("wrong", ("scaling", "no scale"))] * 2,
    *[One("wrong", ("softmax", "not-normalised"))] * 3,
    *[One("wrong", ("scores", "sign"))] * 2,
    One("wrong", ("softmax", "masked-late")),
    One("unreadable"),
]


def test_the_most_frequent_come_first_and_rare_ones_are_joined():
    found = statistics(CLASS)
    assert [(row.name, row.count) for row in found.verdicts] == [
        ("right", 4), ("wrong", 11), ("unreadable", 1),
    ]  # fmt: skip
    assert [(row.name, row.count) for row in found.steps] == [
        ("scaling", 5), ("softmax", 4), ("other steps (2)", 2),
    ]  # fmt: skip
    assert [(row.name, row.count) for row in found.causes] == [
        ("scaling: no scale", 5), ("softmax: not normalised", 3), ("other causes (3)", 3),
    ]  # fmt: skip
    assert sum(row.share for row in found.causes) == 1


def test_what_is_right_so_far_is_counted_apart():
    found = statistics([One("right"), One("right", is_partial=True), One("wrong", is_partial=True)])
    assert [(row.name, row.count) for row in found.verdicts] == [
        ("right", 1), ("right so far", 1), ("wrong", 1),
    ]  # fmt: skip


def test_the_order_of_files_does_not_matter():
    assert statistics(CLASS) == statistics(CLASS[::-1])


def test_a_rare_mistake_is_nowhere():
    found = statistics(CLASS)
    said = str(found.as_dict()) + found.as_csv() + str(found.lines())
    assert "mask" not in said and "sign" not in said and "scores" not in said


def test_json_and_csv_say_the_same():
    found = statistics(CLASS)
    document = found.as_dict()
    table = list(csv.DictReader(io.StringIO(found.as_csv())))
    assert document["submissions"] == 16 and document["joined_below"] == 3
    assert document["first_mistakes_by_cause"][0] == {
        "name": "scaling: no scale", "count": 5, "share": 0.4545,
    }  # fmt: skip
    assert [row["name"] for row in table if row["table"] == "cause"] == [
        row["name"] for row in document["first_mistakes_by_cause"]
    ]


def test_nothing_wrong_has_no_tables_of_mistakes():
    lines = ["".join(text for text, _ in line) for line in statistics([One("right")]).lines()]
    assert lines[0] == "1 submission" and not any("First mistakes" in line for line in lines)
