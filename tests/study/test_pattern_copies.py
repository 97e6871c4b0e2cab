"""Copies and what followed them: sinks that happen to match, rows that see no copy."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard import study
from regard.recording import Recording
from support.recordings import Chunk, write_recording
from support.recordings.planted import mixed, record_planted, targets, text


def test_a_sink_whose_token_comes_again_is_no_duplicate_pattern() -> None:
    """Every second token is the first one; all look at the first."""
    ids = np.where(np.arange(200) % 2, np.arange(200) + 10, 5)
    weights = np.zeros((200, 200))
    weights[:, 0] = 1
    weights = 0.8 * weights + 0.2 * mixed(targets(ids)["uniform"])
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    finding = head["duplicate-token"]
    assert head.labels == ("sink",)
    assert finding.score > 0.8 and "without sinks" in finding.why_not
    assert finding.conditional < 0.6


def test_the_share_of_the_rest_is_that_of_the_same_rows() -> None:
    """A head that parks where there is no copy and looks at copies where there are."""
    ids = text(240, words=100)
    aim = targets(ids)["duplicate-token"]
    weights = mixed(aim, 0.3)
    without = ~aim.any(-1)
    weights[without] = 0
    weights[without, 0] = 1
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head["duplicate-token"].score == pytest.approx(0.7, abs=0.01)
    assert head["duplicate-token"].conditional == pytest.approx(1, abs=0.01)
    assert head.non_sink < 0.6
    assert set(head.labels) == {"sink", "duplicate-token"}


def test_rows_whose_copies_are_out_of_sight_are_not_asked() -> None:
    chunk = Chunk((0, 150), (0, 150), regard.Window(6))
    store, made = write_recording(chunks=[chunk], spread=3.0)
    recording = Recording(store)
    ids = recording.prompts[0].ids
    i, j = np.arange(150)[:, None], np.arange(150)
    copies = (ids[i] == ids) & (j < i)
    sees = made.truth.exact.visible.numpy()[0]
    rows = (copies & sees).any(-1)
    assert rows.sum() < copies.any(-1).sum()
    for n, head in enumerate(study.patterns(recording)):
        mass = (made.truth.weights()[n] * copies).sum(-1)
        assert head["duplicate-token"].score == pytest.approx(mass[rows].mean(), abs=1e-5)
        chance = ((copies & sees).sum(-1) / sees.sum(-1))[rows].mean()
        assert head["duplicate-token"].chance == pytest.approx(chance)


def test_a_text_of_one_word_makes_chance_high_and_gives_no_label() -> None:
    ids = np.full(80, 7)
    (head,) = study.patterns(record_planted(mixed(targets(ids)["uniform"])[None, None], ids))
    assert head["duplicate-token"].chance > 0.9
    assert head.labels == ("uniform",)


def test_both_kinds_of_match_are_told_apart() -> None:
    ids = text(250, words=30)
    aims = targets(ids)
    weights = np.stack([mixed(aims[kind], strength=0.9) for kind in
                        ("duplicate-token", "prefix-matching")])  # fmt: skip
    duplicate, prefix = study.patterns(record_planted(weights[None], ids))
    assert duplicate.labels == ("duplicate-token",) and prefix.labels == ("prefix-matching",)
    assert prefix["duplicate-token"].score < 0.1 and duplicate["prefix-matching"].score < 0.1
