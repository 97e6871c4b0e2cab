"""Findings: names, labels, JSON."""

from __future__ import annotations

import json
import math

import pytest

from regard.errors import InputError
from regard.study import Finding, HeadStudy, SeenAt
from regard.study.finding import CAUSAL, as_number

NAN = math.nan


def finding(pattern: str = "previous", **fields: object) -> Finding:
    facts = {"score": 0.8, "chance": 0.01, "threshold": 0.3, "conditional": 0.9, "why_not": ""}
    return Finding(pattern, **(facts | fields))  # type: ignore[arg-type]


def head(*findings: Finding) -> HeadStudy:
    return HeadStudy("L5H1", "", 5, 1, 0.1, 0.9, findings)


def test_a_label_is_a_finding_that_holds() -> None:
    both = head(finding(), finding("sharp", why_not="0.1 is below the threshold of 0.5"))
    assert both.labels == ("previous",) and str(both) == "L5H1: previous 0.80"
    assert both["previous"].holds and not both["sharp"].holds
    assert [one.pattern for one in both] == ["previous", "sharp"]


def test_unclear_is_an_answer() -> None:
    nothing = head(finding(why_not="too little"))
    assert nothing.labels == () and str(nothing) == "L5H1: unclear"
    assert nothing.as_dict()["labels"] == ["unclear"]


def test_a_pattern_that_does_not_exist_is_an_error_that_lists_them() -> None:
    with pytest.raises(InputError, match="no pattern 'induction'; there are previous"):
        head(finding())["induction"]


@pytest.mark.parametrize(
    ("causal", "why_not", "name"),
    [
        (None, "", "prefix-matching"),
        (CAUSAL / 2, "", "prefix-matching"),
        (-3.0, "", "prefix-matching"),
        (CAUSAL, "", "induction"),
        (5.0, "below", "prefix-matching"),
    ],
)
def test_induction_needs_causal_evidence(causal: float | None, why_not: str, name: str) -> None:
    one = finding("prefix-matching", causal=causal, why_not=why_not)
    assert one.name == name
    assert head(one)["prefix-matching"] is one  # by either name
    assert finding("previous", causal=9.0).name == "previous"


def test_json_has_null_for_what_is_not_known() -> None:
    seen = SeenAt(3, 3, " cat", 0.5, True, 2, " the", NAN)
    one = finding(score=NAN, chance=NAN, rows=(seen,), detail={"offset": 1})
    text = json.dumps(one.as_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["score"] is None and back["rows"][0]["weight"] is None and not one.known
    assert back["detail"] == {"offset": 1} and back["counter"] is None
    json.dumps(head(one).as_dict(), allow_nan=False)
    assert (as_number(None), as_number(math.inf), as_number(1)) == (None, None, 1.0)
