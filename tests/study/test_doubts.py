"""A report says what it rests on: doubts first, evidence beside findings, numbers spelt alike."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import study
from regard.errors import InputError
from regard.mask import Causal
from regard.recording import Memory, Recording
from regard.study.finding import Finding, HeadStudy, SeenAt, as_number
from regard.study.words import in_figures, knock_out_sentence, sentence
from support.recordings import Chunk, tear, write_recording
from support.recordings.planted import record_planted, text

EVIDENCE = {
    "text": {
        "delta_logit": -0.5,
        "typical_delta_logit": 0.02,
        "kl": 0.125,
        "typical_kl": 0.001,
        "delta_logprob": -0.33,
        "typical_delta_logprob": 0.03,
    },
    "copying": {
        "delta_logit": -1.25,
        "typical_delta_logit": -0.01,
        "delta_logprob": -1.5,
        "typical_delta_logprob": -0.04,
    },
}
ROW = SeenAt(7, 7, " cat", 0.91, True, 6, " the", 0.9)


def finding(**changes: Any) -> Finding:
    plain = Finding("previous", 0.8, 0.05, 0.3, 0.9, "", rows=(ROW,), compared=0.8)
    return replace(plain, **changes)


def head(*findings: Finding, sink: float = 0.0) -> HeadStudy:
    return HeadStudy("L1H2", "", 1, 2, sink, 1 - sink, findings)


# ── doubts ───────────────────────────────────────────────────────────────────────────────────


def test_a_live_recording_is_told_to_be_live() -> None:
    store = Memory()
    write_recording(store, chunks=[Chunk((0, 90), (0, 90), Causal())])
    page = study.report_markdown(study.make_report(Recording(store)))
    assert "**still being written: this is about what there is so far**" in page
    store.close()
    assert "still being written" not in study.report_markdown(study.make_report(Recording(store)))


def test_a_torn_recording_is_told_to_be_torn(tmp_path: Any) -> None:
    path = tmp_path / "a.regard"
    write_recording(path, chunks=[Chunk((0, 90), (0, 90), Causal())], pieces=30)
    tear(path, 0.9)
    with regard.open(path) as rec:
        report = study.make_report(rec)
    assert any(doubt.startswith("damaged at byte ") for doubt in report.doubts)
    assert all(f"**{doubt[:16]}" in study.report_markdown(report) for doubt in report.doubts)


def test_none_found_and_none_asked_for_are_two_things(planted: Any) -> None:
    assert "None asked for." in study.report_markdown(study.make_report(planted, top=0))
    ids = text(40, seed=1)
    # half at random, half even: no pattern at all
    dice = np.random.default_rng(0).random((40, 40)) + 1.0
    weights = np.tril(dice) / np.tril(dice).sum(-1, keepdims=True)
    report = study.make_report(record_planted(weights[None, None], ids))
    found = [one.finding.name for one in report.found]
    page = study.report_markdown(replace(report, found=[]))
    assert "\nNone.\n" in page and set(found) <= {"uniform"}


# ── evidence ─────────────────────────────────────────────────────────────────────────────────


def test_knock_outs_stand_beside_what_they_are_about(planted: Any) -> None:
    first = study.make_report(planted).told[0].head.label
    report = study.make_report(planted, knocked={first: EVIDENCE})
    page = study.report_markdown(report)
    assert page.count(f"   {knock_out_sentence(EVIDENCE)}.") >= 1
    assert json.loads(json.dumps(report.as_dict()))["knocked"] == {first: EVIDENCE}
    words = knock_out_sentence(EVIDENCE)
    for number in ("-0.50", "+0.02", "0.125", "0.001", "-1.25", "-0.01", "-0.33", "-1.50"):
        assert number in words


@pytest.mark.parametrize(("causal", "name"), [(None, "prefix-matching"), (0.05, "prefix-matching"),
                                              (0.1, "induction"), (2.0, "induction")])  # fmt: skip
def test_induction_needs_causal_evidence(causal: float | None, name: str) -> None:
    one = finding(pattern="prefix-matching", causal=causal)
    assert one.name == name and one.as_dict()["pattern"] == name
    assert replace(one, why_not="too low").name == "prefix-matching"
    words = sentence(head(one), one)
    assert ("and writes it" in words) == (name == "induction")
    assert ("its knock-out lowers" in words) == (name == "induction")


# ── words ────────────────────────────────────────────────────────────────────────────────────


def test_a_counter_example_says_where_the_row_looks_instead() -> None:
    away = SeenAt(12, 12, " sat", 0.01, True, 3, " mat", 0.77)
    words = sentence(head(), finding(counter=away))
    assert "; not at row 12 ' sat' (0.01), which looks at key 3 ' mat' (0.77)" in words.replace(
        "0.010", "0.01"
    )
    blind = replace(away, key=None, weight=None)
    assert "which looks" not in sentence(head(), finding(counter=blind))
    weak = replace(away, value=0.6)
    assert "; least at row 12" in sentence(head(), finding(counter=weak))


def test_bins_and_bounds_are_told_as_such() -> None:
    bins = SeenAt(8, 15, None, 0.4, False)
    words = sentence(head(), finding(rows=(bins,)))
    assert "best seen at rows 8–15 (at least 0.40)" in words


def test_what_is_not_on_sinks_is_told_only_beside_a_sink() -> None:
    assert "of what is not on sinks" in sentence(head(sink=0.4), finding())
    assert "of what is not on sinks" not in sentence(head(), finding())
    unknown = finding(chance=float("nan"), conditional=float("nan"))
    words = sentence(head(sink=0.4), unknown)
    assert "chance" not in words and "nan" not in words


@given(st.floats(0, 1))
def test_figures_are_short_and_near(value: float) -> None:
    words = in_figures(value)
    assert len(words) <= 7
    if words == "<0.001":
        assert 0 < value < 0.0005
    else:
        assert float(words) == pytest.approx(value, rel=0.06, abs=0.005 if value > 0.09 else 1e-9)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_json_has_no_number_for_what_is_none(value: float | None) -> None:
    assert as_number(value) is None and as_number(0.5) == 0.5
    told = json.dumps(finding(score=float("nan")).as_dict() | head(finding()).as_dict())
    assert "NaN" not in told and "Infinity" not in told


def test_a_pattern_is_found_by_its_name_or_all_are_named() -> None:
    one = head(finding(), finding(pattern="sink", why_not="too little"))
    assert one["previous"].score == 0.8 and one.labels == ("previous",)
    assert str(one) == "L1H2: previous 0.80"
    assert str(head(finding(why_not="no"))) == "L1H2: unclear"
    with pytest.raises(InputError, match="no pattern 'grammar'; there are previous, sink"):
        one["grammar"]
