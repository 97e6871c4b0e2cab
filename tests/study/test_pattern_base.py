"""When a label is given, and what is said where it is not."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.study.facts import HeadFacts, PlaceFacts
from regard.study.pattern import LEAST_NON_SINK, Measure, Pattern, every_pattern
from regard.study.pattern.base import MassPattern, unknown

TABLE = {pattern.name: pattern for pattern in every_pattern()}
NAN = math.nan


def head(non_sink: float = 1.0) -> Any:
    return SimpleNamespace(non_sink=non_sink)


def says(pattern: str, measure: Measure, non_sink: float = 1.0) -> str:
    return TABLE[pattern].objection(head(non_sink), measure)


def test_the_table() -> None:
    """Names, thresholds and which of them need mass outside sinks."""
    assert {name: pattern.threshold for name, pattern in TABLE.items()} == {
        "sink": 0.3, "previous": 0.3, "self": 0.3, "offset": 0.3, "local-8": 0.5, "local-64": 0.5,
        "duplicate-token": 0.3, "prefix-matching": 0.3, "delimiter": 0.3, "retrieval": 0.1,
        "uniform": 0.95, "sharp": 0.5, "saturated": 0.5, "inactive": 0.1,
    }  # fmt: skip
    assert "induction" not in TABLE  # a word that needs causal evidence
    assert [name for name, pattern in TABLE.items() if pattern.lower] == ["inactive"]


def test_a_label_needs_its_threshold_above_chance() -> None:
    assert says("previous", Measure(0.31, 0.005)) == ""
    assert says("previous", Measure(0.31, 0.02)) == (
        "0.31 less chance 0.02 is below the threshold of 0.3"
    )
    assert says("previous", Measure(0.31, NAN)) == ""  # chance that nobody knows is none
    assert says("previous", Measure(0.29, NAN)) == "0.29 is below the threshold of 0.3"


def test_a_label_needs_mass_that_is_not_on_sinks() -> None:
    assert says("previous", Measure(0.5, 0.0), LEAST_NON_SINK) == ""
    assert says("previous", Measure(0.5, 0.0), 0.09) == (
        "0.09 of the mass is not on sinks; 0.1 needed"
    )
    for named in ("delimiter", "sharp", "saturated"):
        assert "nobody knows" in says(named, Measure(0.6, 0.0), NAN)
    for free in ("sink", "uniform"):
        assert says(free, Measure(0.97, NAN), 0.0) == ""
    assert says("inactive", Measure(0.05), 0.0) == ""


@pytest.mark.parametrize(
    "name", ["previous", "self", "offset", "local-8", "local-64", "duplicate-token",
             "prefix-matching"],
)  # fmt: skip
def test_a_label_that_a_few_keys_cannot_make_needs_no_sinks(name: str) -> None:
    """Few rows have a given key at a given distance, or as a copy of their token."""
    assert says(name, Measure(0.6, 0.0), NAN) == ""
    assert "not on sinks" in says(name, Measure(0.6, 0.0), 0.05)
    assert "below the threshold" in says(name, Measure(0.2, 0.0), NAN)


def test_what_falls_on_sinks_does_not_count() -> None:
    measure = Measure(0.9, 0.1, rest=0.2)
    assert measure.apart == 0.2
    assert says("delimiter", measure) == (
        "0.2 without sinks less chance 0.1 is below the threshold of 0.3"
    )


def test_a_low_number_is_the_finding() -> None:
    assert says("inactive", Measure(0.1)) == ""
    assert says("inactive", Measure(0.4)) == "0.4 is above the threshold of 0.1"


def test_what_is_not_known_has_no_label() -> None:
    measure = unknown("the tokens are not known")
    assert math.isnan(measure.score)
    assert says("previous", measure) == "the tokens are not known"


def test_an_objection_of_the_pattern_itself_comes_last() -> None:
    measure = Measure(0.5, 0.0, objection="a sharper label says it")
    assert says("local-8", measure) == "a sharper label says it"
    assert "threshold" in says("local-8", Measure(0.4, 0.0, objection="a sharper label says it"))


def facts(planted: Any, label: str) -> HeadFacts:
    view = planted.prompts[0]
    place = PlaceFacts(view, label.partition("H")[0])
    return next(one for one in place.heads() if one.label == label)


def mass_patterns() -> list[Pattern]:
    return [pattern for pattern in TABLE.values() if isinstance(pattern, MassPattern)]


@pytest.mark.parametrize("pattern", mass_patterns(), ids=lambda one: one.name)
def test_members_counts_and_chances_are_one_definition(planted: Any, pattern: Any) -> None:
    """Counting the members that a row sees gives its count; dividing gives its chance."""
    one = facts(planted, "L1H0")
    measure = pattern.measure(one)
    counts, chances = (f(one, measure.detail) for f in (pattern.counts, pattern.chances))
    rows = np.arange(160)
    members = np.stack([pattern.members(one, measure, row) for row in rows.tolist()])
    seen = members & (rows <= rows[:, None])
    np.testing.assert_array_equal(seen.sum(-1), counts)
    np.testing.assert_allclose(chances, counts / (rows + 1))
    eligible = pattern.eligible(one, measure.detail)
    assert measure.chance == pytest.approx(chances[eligible].mean())


@pytest.mark.parametrize("pattern", mass_patterns(), ids=lambda one: one.name)
def test_rows_are_the_mass_on_members_or_less(planted: Any, pattern: Any) -> None:
    one = facts(planted, "L1H0")
    measure = pattern.measure(one)
    found = pattern.rows(one, measure)
    p = np.asarray(planted["L1H0"], np.float64)
    for n, row in enumerate(found.first.tolist()):
        mass = p[row][pattern.members(one, measure, row)].sum()
        assert found.values[n] <= mass + 1e-5
        if found.known[n]:
            assert found.values[n] == pytest.approx(mass, abs=2e-4)


def test_what_heads_share_is_made_once(planted: Any) -> None:
    place = PlaceFacts(planted.prompts[0], "L0")
    made: list[int] = []
    first, second, *_ = place.heads()
    for one in (first, second, first):
        assert one.once("a", lambda: made.append(1) or 7) == 7
    assert made == [1]
