"""Planted heads are called what they are, and nothing else, whatever a sink takes of their mass."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from regard import study
from regard.study.pattern import LEAST_NON_SINK, every_pattern
from support.recordings.planted import (
    KINDS,
    causal,
    expected,
    mixed,
    record_planted,
    targets,
    text,
)

SINKS = (0.0, 0.5, 0.9, 0.999)
SEEDS = range(6)


def confusion() -> dict[str, Counter[str]]:
    """By label: how often it was given rightly, given wrongly, and missed."""
    found: dict[str, Counter[str]] = {}
    for seed in SEEDS:
        ids, dice = text(288, seed), np.random.default_rng(seed)
        aims = targets(ids, seed)
        cases = [(kind, sink) for kind in KINDS for sink in SINKS]
        weights = []
        for n, (kind, sink) in enumerate(cases):
            strength = 1.0 if kind in ("uniform", "sharp") else dice.uniform(0.8, 0.97)
            noise = 0.05 if kind == "sharp" else 0.3
            weights.append(mixed(aims[kind], sink, strength, noise, seed * 100 + n))
        heads = study.patterns(record_planted(np.array([weights]), ids), evidence="none")
        for (kind, sink), head in zip(cases, heads, strict=True):
            wanted, given = expected(kind, sink), set(head.labels)
            for label in wanted | given:
                word = (
                    "right" if label in wanted & given else "wrong" if label in given else "missed"
                )
                found.setdefault(label, Counter())[word] += 1
    return found


def test_the_confusion_matrix_of_planted_heads() -> None:
    found = confusion()
    assert set(found) == {"sink", *KINDS}  # and no other label was ever given
    for label, count in found.items():
        precision = count["right"] / max(count["right"] + count["wrong"], 1)
        recall = count["right"] / (count["right"] + count["missed"])
        assert precision >= 0.99 and recall >= 0.99, (label, count)


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_pattern_is_seen_in_what_a_sink_leaves(kind: str) -> None:
    """A sink of 0.999 with a perfect pattern in the rest: the share of the rest is high, and no
    label is given."""
    ids = text(160)
    weights = mixed(targets(ids)[kind], 0.999)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("sink",)
    assert head.non_sink == pytest.approx(0.001, rel=0.1)
    if kind in ("previous", "offset", "self", "delimiter"):
        assert head[kind].conditional > 0.8


def test_a_neighbourhood_of_64_needs_a_text_in_which_it_is_no_accident() -> None:
    ids = text(768)
    weights = mixed(targets(ids)["local-64"], 0.0, 0.95, 0.2)
    (head,) = study.patterns(record_planted(weights[None, None], ids), evidence="none")
    assert head.labels == ("local-64",)
    assert head["local-64"].chance == pytest.approx(0.28, abs=0.02)
    short = text(120)
    weights = mixed(targets(short)["local-64"], 0.0, 0.95)
    (head,) = study.patterns(record_planted(weights[None, None], short), evidence="none")
    assert "local-64" not in head.labels


def test_a_head_may_do_two_things() -> None:
    ids = text(200)
    aims = targets(ids)
    both = (mixed(aims["previous"]) + mixed(aims["self"])) / 2
    (head,) = study.patterns(record_planted(both[None, None], ids))
    assert head.labels == ("previous", "self")
    assert head["local-8"].why_not == "a sharper label says it"


def test_a_neighbourhood_beside_a_single_distance_is_told_where_it_passes_alone() -> None:
    ids = text(300)
    aims = targets(ids)
    both = 0.25 * mixed(aims["previous"]) + 0.75 * mixed(aims["local-8"])
    (head,) = study.patterns(record_planted(both[None, None], ids), evidence="none")
    assert head.labels == ("previous", "local-8")


def test_saturated_needs_scores_that_are_a_hazard() -> None:
    ids = text(160)
    weights = mixed(targets(ids)["sharp"])[None, None]
    (head,) = study.patterns(record_planted(weights, ids))
    assert head.labels == ("sharp",)
    assert "is 0, below 100" in head["saturated"].why_not and head["saturated"].score > 0.9
    (head,) = study.patterns(record_planted(weights, ids, raised=150.0))
    assert head.labels == ("sharp", "saturated")
    assert head["saturated"].detail["max_score"] == pytest.approx(150, abs=1)


def test_a_head_that_writes_nothing_is_inactive() -> None:
    ids = text(100)
    weights = np.stack([mixed(targets(ids)["uniform"])] * 4)[None]
    found = study.patterns(record_planted(weights, ids, values=np.array([[1, 1, 0.001, 1.0]])))
    assert [head.labels for head in found] == [
        ("uniform",), ("uniform",), ("uniform", "inactive"), ("uniform",)
    ]  # fmt: skip
    assert found[2]["inactive"].score < 0.01
    assert found[2]["inactive"].rows[0].value <= found[2]["inactive"].counter.value
    (alone,) = study.patterns(record_planted(weights[:, :1], ids))
    assert "no other head" in alone["inactive"].why_not


def test_a_sink_may_be_any_key_and_a_full_stop_that_is_one_is_no_delimiter_pattern() -> None:
    ids = text(300, words=200)
    stop = int(np.flatnonzero(ids == 1)[2])
    sees = causal(300)
    weights = np.where(sees, 1.0, 0)
    weights /= weights.sum(-1, keepdims=True)
    weights[stop:] *= 0.3
    weights[stop:, stop] += 0.7
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("sink",)
    assert head["sink"].detail["keys"] == [stop] and head["sink"].detail["tokens"] == ["."]
    assert head["delimiter"].score > 0.6 and "without sinks" in head["delimiter"].why_not


def test_the_last_tokens_are_no_sinks() -> None:
    """A key that a handful of rows see gets much of each by chance."""
    ids = text(300)
    weights = mixed(targets(ids)["self"], strength=0.9)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head["sink"].detail["keys"] == [] and head.labels == ("self",)


def test_a_repeated_text_explains_its_own_offset() -> None:
    """BOS + r + r: what follows a copy stands at one distance throughout."""
    dice = np.random.default_rng(0)
    r = dice.permutation(np.arange(2, 500))[:80]
    ids = np.concatenate([[0], r, r])
    weights = mixed(targets(ids)["prefix-matching"], strength=0.95)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("prefix-matching",)
    assert head["offset"].detail == {"offset": 79} and head["offset"].score > 0.9
    assert "repeats itself every 79 tokens" in head["offset"].why_not


def test_every_number_is_its_definition(planted: Any, words: np.ndarray) -> None:
    """Against the dense matrix, for every head."""
    n = words.size
    i, j = np.arange(n)[:, None], np.arange(n)
    aims = targets(words, seed=4)
    seen = np.arange(n) + 1
    for head in study.patterns(planted, evidence="none"):
        p = np.asarray(planted[head.label], np.float64)

        def mean(which: np.ndarray, rows: Any = slice(None), p: np.ndarray = p) -> float:
            return float((p * which).sum(-1)[rows].mean())

        def chance(which: np.ndarray, rows: Any = slice(None)) -> float:
            return float(((which & (j <= i)).sum(-1) / seen)[rows].mean())

        cases = {
            "previous": (aims["previous"], slice(1, None)),
            "self": (aims["self"], slice(None)),
            "local-8": (np.abs(i - j) < 8, slice(None)),
            "local-64": (np.abs(i - j) < 64, slice(None)),
            "delimiter": (aims["delimiter"], slice(None)),
            "duplicate-token": (aims["duplicate-token"], aims["duplicate-token"].any(-1)),
            "prefix-matching": (aims["prefix-matching"], aims["prefix-matching"].any(-1)),
        }
        for name, (which, rows) in cases.items():
            assert head[name].score == pytest.approx(mean(which, rows), abs=2e-5), name
            assert head[name].chance == pytest.approx(chance(which, rows), abs=1e-6), name
        offset = head["offset"].detail["offset"]
        assert head["offset"].score == pytest.approx(np.diagonal(p, -offset).mean(), abs=2e-5)
        best = max(np.diagonal(p, -d).mean() for d in range(2, n - 64 + 1))
        assert head["offset"].score == pytest.approx(best, abs=2e-5)
        sinks = [k for k in range(n - 64 + 1) if p[k:, k].mean() > 0.3]
        assert head["sink"].detail["keys"] == sinks
        assert head["sink"].score == pytest.approx(p[:, sinks].sum(-1).mean(), abs=2e-5)
        rest = np.delete(p, sinks, 1).sum(-1).mean()
        assert head.non_sink == pytest.approx(rest, abs=2e-5)
        assert head.sink + head.non_sink == pytest.approx(1, abs=1e-4)
        assert head["sharp"].score == pytest.approx((p.max(-1) > 0.99).mean())


def test_no_q_and_k_are_needed(planted: Any, kept: Any) -> None:
    exact, stored = study.patterns(planted), study.patterns(kept)
    assert [head.labels for head in exact] == [head.labels for head in stored]
    for one, other in zip(exact, stored, strict=True):
        for name in KINDS:
            assert other[name].score == pytest.approx(one[name].score, abs=1e-6)


def test_bins_of_rows_and_keys_change_no_label(words: np.ndarray, planted: Any) -> None:
    aims = targets(words, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(KINDS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    coarse = record_planted(np.array(layers), words, budget="900kB")
    assert coarse["L0H0"].place.row_bin > 1
    for one, other in zip(study.patterns(planted), study.patterns(coarse), strict=True):
        lost = {"delimiter"}  # which needs the mass of single keys
        assert set(other.labels) == set(one.labels) - lost
        for finding in other:
            assert not finding.holds or finding.rows


def test_the_gate_is_the_same_for_all_that_need_it() -> None:
    table = {pattern.name: pattern for pattern in every_pattern()}
    free = {name for name, pattern in table.items() if not pattern.needs_rest}
    assert free == {"sink", "uniform", "inactive"} and LEAST_NON_SINK == 0.1
