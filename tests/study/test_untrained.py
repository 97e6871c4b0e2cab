"""Models that learnt nothing get no label, said in one sentence; a head that follows a pattern
opens the recording's labels; and rows of one token are one sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from fuzz import labels
from regard import study
from regard.study.chance import beyond_many, distinct, hoeffding, tokens_apart
from regard.study.heads import WITHHELD
from regard.views.findings import report_answer
from study.patternless import Random
from support.recordings.planted import Words, mixed, record_planted, targets, text


def untrained() -> Any:
    """Heads whose scores are nearly alike, as before training."""
    model = Random(regard.Causal(), 4, 16, 0)
    ids = torch.tensor(text(120))[None]
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(ids)
    return recording


def test_labels_are_withheld_in_one_sentence() -> None:
    report = study.make_report(untrained())
    assert report.counts() == {"unclear": 4} and report.withheld == WITHHELD
    assert report.heads[0]["uniform"].why_not == WITHHELD
    assert report.heads[0]["uniform"].score > 0.95  # the statistics stay
    assert f"None.\n\nN{WITHHELD[1:]}." in study.report_markdown(report)
    assert report_answer(report)["why_nobody"] == WITHHELD


def test_a_head_that_follows_a_pattern_opens_them() -> None:
    ids = text(200)
    kinds = [mixed(targets(ids)[kind], 0.0, 0.97, 0.2) for kind in ("uniform", "previous")]
    even, both = (record_planted(np.array([some]), ids) for some in (kinds[:1], kinds))
    assert study.patterns(even)[0].labels == ()
    assert [head.labels for head in study.patterns(both)] == [("uniform",), ("previous",)]


def test_rows_of_one_token_are_one_sample() -> None:
    tokens = np.array([[1, 2], [3, 2], [1, 2], [1, 4]])
    assert distinct(tokens, np.ones(4, bool)) == 3
    assert distinct(tokens[:, 1:], np.ones(4, bool)) == 2
    assert distinct(None, np.array([True, False, True, True])) == 3
    assert hoeffding(0.9, 0.1, 40, samples=4).p == hoeffding(0.9, 0.1, 4).p
    assert hoeffding(0.9, 0.1, 40, samples=4).rows == 40


def test_one_word_that_is_copied_is_no_head_of_copies() -> None:
    """Fifty rows, all of the same word."""
    ids = np.arange(200) + 5
    ids[100:200:2] = 3
    weights = mixed(targets(ids)["duplicate-token"], 0.2)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head["duplicate-token"].n_rows == 49 and head["duplicate-token"].score > 0.7
    assert "duplicate-token" not in head.labels


def test_mass_of_one_row_is_no_label() -> None:
    ids = np.random.default_rng(0).permutation(np.arange(2, 400))[:200]
    ids[0], ids[150:160] = 0, ids[30:40]
    weights = mixed(np.zeros((200, 200), bool) | (np.arange(200) == 0))
    weights[155] = mixed(targets(ids)["duplicate-token"])[155]
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head["duplicate-token"].n_rows == 10 and head.labels == ("sink",)


@pytest.mark.parametrize("budget", [None, "60kB", "30kB"])
@pytest.mark.parametrize("kind", ["duplicate-token", "prefix-matching"])
def test_a_tenth_has_to_be_left_in_the_rows_of_the_label(kind: str, budget: str | None) -> None:
    ids = text(300, words=100)
    weights = mixed(targets(ids)[kind], 0.961)
    options = {} if budget is None else {"budget": budget}
    (head,) = study.patterns(record_planted(weights[None, None], ids, **options))
    assert head.labels == ("sink",) and head[kind].score < 0.05


def test_tokens_lie_apart_where_others_do_not() -> None:
    dice = np.random.default_rng(0)
    ids, some = np.arange(60), np.arange(60) < 2
    even = np.ones(60)
    noise = np.exp(dice.standard_normal(60))
    assert tokens_apart(np.stack([noise, even], -1), ids, some, ~some) > 0.01
    raised = np.where(some, 40.0, noise)
    assert tokens_apart(np.stack([raised, even], -1), ids, some, ~some) < 1e-4
    alike = np.where(some, 40.0, 1.0)
    p = tokens_apart(np.stack([alike, even], -1), np.where(some, 0, 1), some, ~some)
    assert p == 1  # one other token tells nothing of how far tokens lie apart
    assert not beyond_many(1e-4, 10) and beyond_many(1e-5, 10)


@pytest.mark.parametrize("seed", range(6))
def test_random_heads(seed: int) -> None:
    labels.check(seed)
