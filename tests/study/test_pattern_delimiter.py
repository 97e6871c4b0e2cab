"""Punctuation and line breaks."""

from __future__ import annotations

import numpy as np
import pytest

from regard import study
from support.recordings.planted import mixed, record_planted, targets, text


def test_mass_chance_and_share_of_the_rest() -> None:
    ids = text(250)
    weights = mixed(targets(ids)["delimiter"], 0.4, 0.9)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    finding = head["delimiter"]
    stops = ids == 1
    assert finding.score == pytest.approx(weights[:, stops].sum(-1).mean(), abs=1e-4)
    chance = (np.cumsum(stops) / np.arange(1, 251)).mean()
    assert finding.chance == pytest.approx(chance)
    assert finding.conditional == pytest.approx(finding.score / 0.6, abs=0.03)
    assert set(head.labels) == {"sink", "delimiter"}


def test_an_even_head_gives_delimiters_their_share_and_no_more() -> None:
    ids = text(250)
    (head,) = study.patterns(record_planted(mixed(targets(ids)["uniform"])[None, None], ids))
    assert head["delimiter"].score == pytest.approx(head["delimiter"].chance, abs=1e-4)
    assert "delimiter" not in head.labels


def test_a_text_of_punctuation_alone_gives_no_label() -> None:
    ids = np.full(90, 1)
    ids[0] = 0
    (head,) = study.patterns(record_planted(mixed(targets(ids)["self"], 0, 0.9)[None, None], ids))
    assert head["delimiter"].score > 0.9 and head["delimiter"].chance > 0.9
    assert head.labels == ("self",)


def test_a_text_without_any_says_so() -> None:
    ids = np.arange(80) + 5
    (head,) = study.patterns(record_planted(mixed(targets(ids)["self"])[None, None], ids))
    assert head["delimiter"].why_not == "this text has no punctuation and no line break"


def test_rows_point_at_a_delimiter() -> None:
    ids = text(200)
    weights = mixed(targets(ids)["delimiter"], 0.0, 0.95, 0.2)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    finding = head["delimiter"]
    for one in finding.rows:
        assert ids[one.key] == 1 and one.key_token == "."
        assert one.value == pytest.approx(weights[one.row, ids == 1].sum(), abs=1e-4)
    first = int(np.flatnonzero(ids == 1)[0])
    assert finding.counter.row >= first  # rows before the first full stop see none
