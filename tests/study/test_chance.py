"""Tests against chance: their probabilities hold, and every label has passed one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import regard
from regard import study
from regard.study.chance import (
    ALPHA,
    LEAST_ROWS,
    Trial,
    broken_stick,
    hoeffding,
    sharp_by_chance,
    sign_test,
    spelt_p,
)
from regard.study.facts import PlaceFacts
from study.patternless import LENGTHS, MASKS, SHAPES, labels_given
from support.recordings.planted import KINDS, mixed, record_planted, targets, text


@pytest.mark.parametrize("rows", [1, 8, 40])
@pytest.mark.parametrize("chance", [0.02, 0.3, 0.7])
def test_the_bound_is_above_the_exact_probability(rows: int, chance: float) -> None:
    """Of coins, which reach a mean more often than anything else in [0, 1]."""
    weights = [math.comb(rows, k) * chance**k * (1 - chance) ** (rows - k) for k in range(rows + 1)]
    for k in range(rows + 1):
        exact = sum(weights[k:])
        assert exact <= hoeffding(k / rows, chance, rows).p + 1e-12
    assert hoeffding(1.0, chance, rows).p == pytest.approx(chance**rows)
    assert hoeffding(chance, chance, rows).p == 1


def test_choosing_the_best_of_many_costs() -> None:
    one, best = hoeffding(0.8, 0.1, 20), hoeffding(0.8, 0.1, 20, 50)
    assert best.p == pytest.approx(50 * one.p)
    assert hoeffding(0.9, 0.5, 3, 10**400).p == 1  # no overflow


def test_the_sign_test_counts_rows_on_one_side() -> None:
    assert sign_test(12, 12).p == pytest.approx(0.5**12)
    assert sign_test(6, 12).p == 1


@pytest.mark.parametrize("keys", [2, 5, 16, 200])
def test_broken_sticks_are_what_uniform_and_sharp_are_held_against(keys: int) -> None:
    """Their mean is where p is one half; their spread is no larger than the test takes it."""
    p = np.random.default_rng(keys).dirichlet(np.ones(keys), 20_000)
    even = -(p * np.log(np.maximum(p, 1e-300))).sum(-1) / math.log(keys)
    seen = np.full(64, keys)
    assert abs(broken_stick(float(even.mean()), seen, 64).p - 0.5) < 0.15
    high = float(even.mean() + 3.3 * even.std() / math.sqrt(64))
    assert broken_stick(high, seen, 64).p > ALPHA / 2
    peaks = float((p.max(-1) > 0.9).mean())
    assert sharp_by_chance(seen, 0.9) == pytest.approx(peaks, abs=0.01)


def test_what_a_trial_objects_to() -> None:
    assert Trial(LEAST_ROWS, ALPHA).objection == ""
    assert Trial(1, 0.0).objection == f"1 row could have done otherwise; {LEAST_ROWS} needed"
    assert "p = 0.01; 0.0005 needed" in Trial(20, 0.01).objection
    assert Trial(20, math.nan).objection


@pytest.mark.parametrize("length", LENGTHS)
def test_heads_without_a_pattern_get_no_label(length: int) -> None:
    """Of 400 random heads at each length, one in a hundred at most; none below 16 tokens."""
    found = [one for mask in MASKS.values() for one in labels_given(length, mask, 50, (0, 1))]
    wrong = [given for _, given in found if given - SHAPES]
    assert len(wrong) <= len(found) // 100, wrong
    if length < 16:
        assert not any(given for _, given in found)


@pytest.mark.parametrize("length", [64, 128, 192])
def test_planted_heads_are_found(length: int) -> None:
    ids = text(length, seed=2, words=30)
    aims = targets(ids) | {"sink": targets(ids)["uniform"]}
    kinds = [*KINDS, "sink", *(["local-64"] if length >= 128 else [])]
    weights = [
        mixed(aims[kind], 0.7 * (kind == "sink"), 1.0 if kind == "sharp" else 0.9, 0.05, n)
        for n, kind in enumerate(kinds)
    ]
    found = study.patterns(record_planted(np.array([weights]), ids), evidence="none")
    for kind, head in zip(kinds, found, strict=True):
        assert kind in head.labels, (kind, head.labels, head[kind].why_not)
        assert head[kind].n_rows >= LEAST_ROWS and head[kind].p_value <= ALPHA and head[kind].test


def test_two_rows_are_no_evidence() -> None:
    """A token that comes twice: one row of 64 is about copies, however well it shows them."""
    ids = np.arange(64)
    ids[40:42] = ids[10:12]
    weights = mixed(targets(ids)["prefix-matching"])
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    finding = head["prefix-matching"]
    assert finding.score > 0.9 and finding.n_rows == 2
    assert finding.why_not == f"2 rows could have done otherwise; {LEAST_ROWS} needed"


def test_every_label_says_its_rows_and_its_test() -> None:
    ids = text(160, seed=4)
    weights = mixed(targets(ids)["previous"], 0.4, 0.95)
    report = study.make_report(record_planted(weights[None, None], ids))
    for one in report.as_dict()["findings"]:
        assert one["n_rows"] > 0 and one["p_value"] <= ALPHA and "over rows" in one["test"]
        assert f"{one['n_rows']} rows, p " in one["sentence"]


def test_a_short_text_is_said_to_show_nothing() -> None:
    ids = text(12)
    weights = mixed(targets(ids)["previous"])
    report = study.make_report(record_planted(weights[None, None], ids))
    assert report.doubts == ["12 tokens: labels need 16, fewer show nothing"]
    assert report.counts() == {"unclear": 1}
    assert report.heads[0]["previous"].why_not == "a text of 12 tokens; 16 needed"


def test_what_the_mask_leaves_no_choice_about_is_said_at_any_length() -> None:
    """Every row sees itself alone."""
    (_, given), *_ = labels_given(6, regard.Window(left=0), 1, (0,))
    assert given == {"self"}
    (_, given), *_ = labels_given(6, regard.Window(left=1), 1, (0,))
    assert given == set()
    (_, given), *_ = labels_given(1, regard.Causal(), 1, (0,))  # one row is no pattern
    assert given == set()


def test_where_masks_do_not_tell_half_of_a_row_is_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = text(100)
    weights = [mixed(targets(ids)["previous"], strength=share) for share in (0.95, 0.55)]
    made = record_planted(np.array([weights]), ids)
    monkeypatch.setattr(PlaceFacts, "reach", lambda self, slot: None)
    strong, weak = study.patterns(made, evidence="none")
    assert strong.labels == ("previous",) and math.isnan(strong["previous"].chance)
    assert "chance gives as much" in weak["previous"].why_not


@pytest.mark.parametrize("p", [0.0, 3.95e-323, 1e-12, 9.9e-7])
def test_a_p_below_a_millionth_is_said_to_be_below(p: float) -> None:
    assert spelt_p(p) == "< 1e-6"


@pytest.mark.parametrize(
    ("p", "said"), [(1e-6, "1e-6"), (2.04e-5, "2e-5"), (0.000321, "0.00032"), (0.04, "0.04")]
)
def test_any_other_p_is_said(p: float, said: str) -> None:
    assert spelt_p(p) == said
