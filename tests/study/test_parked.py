"""Heads that act where there is something to do and park on a sink elsewhere; what a repeat in the
text explains; neighbourhoods that chance nearly fills."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard import study
from support.recordings.planted import Planted, causal, mixed, record_planted, targets, text


def repeating(count: int, phrase: int, at: int) -> np.ndarray:
    """Distinct tokens, of which `phrase` come again, once."""
    ids = np.random.default_rng(phrase).permutation(np.arange(2, 4 * count))[:count]
    ids[0] = 0
    ids[at : at + phrase] = ids[30 : 30 + phrase]
    return ids


def parked(target: np.ndarray, strength: float = 0.95, sink: float = 0.97) -> np.ndarray:
    """(N, N): rows that have a target look at it, all others park on key 0."""
    sees = causal(len(target))
    even = sees / sees.sum(-1, keepdims=True)
    weights = (1 - sink) * even
    weights[:, 0] += sink
    rows = (target & sees).any(-1)
    aimed = (target & sees)[rows]
    weights[rows] = strength * aimed / aimed.sum(-1, keepdims=True) + (1 - strength) * even[rows]
    return weights


@pytest.mark.parametrize("budget", [None, "60kB", "30kB"])
@pytest.mark.parametrize("kind", ["prefix-matching", "duplicate-token"])
def test_a_head_that_parks_elsewhere_is_known_by_the_rows_it_acts_in(
    kind: str, budget: str | None
) -> None:
    ids = repeating(512, 20, 400)
    options = {} if budget is None else {"budget": budget}
    made = record_planted(parked(targets(ids)[kind])[None, None], ids, **options)
    (head,) = study.patterns(made)
    assert head.non_sink < 0.1  # of all rows
    assert head.labels == ("sink", kind)
    assert head[kind].n_rows == 20 and head[kind].score == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("window", [80, 100, 200])
def test_a_sliding_head_rests_on_the_first_token_while_it_sees_it(window: int) -> None:
    """Most rows do not: the mean over all of them would hide it."""
    ids, near = text(900), np.tril(np.triu(np.ones((900, 900)), 1 - window))
    weights = near / near.sum(-1, keepdims=True)
    weights[:window] *= 0.1
    weights[:window, 0] += 0.9
    model = Planted(weights[None, None])
    model.mask = regard.Window(window - 1)
    with torch.no_grad(), regard.record(model) as made:
        model(torch.tensor(ids)[None])
    (head,) = study.patterns(made)
    assert "sink" in head.labels and head["sink"].detail["keys"] == [0]
    assert head["sink"].score == pytest.approx(0.9, abs=0.02) and head.sink < 0.3
    assert head["sink"].n_rows <= window


@pytest.mark.parametrize("budget", [None, "60kB"])
@pytest.mark.parametrize(("count", "at"), [(512, 400), (512, 300), (400, 320), (256, 150)])
def test_a_repeated_passage_is_no_offset(count: int, at: int, budget: str | None) -> None:
    ids = repeating(count, 80, at)
    options = {} if budget is None else {"budget": budget}
    weights = parked(targets(ids)["prefix-matching"])
    (head,) = study.patterns(record_planted(weights[None, None], ids, **options))
    assert head.labels == ("sink", "prefix-matching")
    assert budget or head["offset"].score > 0.3


def test_an_offset_beside_a_repeat_is_told() -> None:
    """A head that looks 5 back everywhere does so inside and outside the repeat."""
    ids = repeating(300, 80, 200)
    weights = mixed(targets(ids)["offset"], strength=0.9)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("offset",) and head["offset"].detail == {"offset": 5}


def test_a_previous_token_head_in_a_text_of_pairs() -> None:
    """Every other token is the same: half of the rows could look for copies as well."""
    ids = repeating(200, 0, 0)
    ids[2::2] = 7
    weights = mixed(targets(ids)["previous"], strength=0.95)
    (head,) = study.patterns(record_planted(weights[None, None], ids), evidence="none")
    assert "previous" in head.labels and head["previous"].n_rows < 110


@pytest.mark.parametrize("count", [128, 160, 200, 256, 320])
@pytest.mark.parametrize("strength", [1.0, 0.9])
def test_a_neighbourhood_of_64_is_found_in_texts_not_much_longer(
    count: int, strength: float
) -> None:
    ids = text(count)
    weights = mixed(targets(ids)["local-64"], strength=strength)
    (head,) = study.patterns(record_planted(weights[None, None], ids))
    assert head.labels == ("local-64",)
    assert head["local-64"].n_rows == count - 64


def test_an_even_head_is_no_neighbourhood() -> None:
    for count in (128, 320):
        ids = text(count)
        weights = mixed(targets(ids)["uniform"])
        (head,) = study.patterns(record_planted(weights[None, None], ids))
        assert head.labels == ("uniform",)
        assert "of what chance leaves over" in head["local-64"].why_not
