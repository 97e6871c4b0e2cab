"""MiniLM tells two senses of a word apart, and the example says where."""

from __future__ import annotations

import numpy as np
import pytest

from examples.scripts import call, load, run
from real_models import minilm
from regard.study.contextual import centred

ambiguity = load("ambiguity")


@pytest.fixture(scope="module")
def sentences():
    """All of them, read."""
    return [ambiguity.read(minilm(), sentence) for sentence in ambiguity.SENTENCES]


@pytest.fixture(scope="module")
def senses():
    """Of each sentence."""
    return list(ambiguity.SENTENCES.values())


def test_position_tells_nothing(sentences, senses):
    places = {sense: [] for sense in senses}
    for one, sense in zip(sentences, senses, strict=True):
        assert one.tokens[one.place] == ambiguity.WORD
        places[sense].append(one.place)
    assert sorted(places["river"]) == sorted(places["money"])
    first, second = (one.inside.hidden[0, one.place] for one in sentences[:2])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_two_senses_part(sentences, senses):
    found = ambiguity.compare(sentences, senses)
    assert found.nearest[0] < 0.5
    assert found.separates in (1, 2, 3)
    assert np.all(found.nearest[found.separates :] == 1)
    assert found.gap[0] < 0.01
    assert np.all(found.gap[2:] > 0.04)


def test_a_new_sentence_finds_its_sense(sentences, senses):
    every = np.concatenate([one.inside.hidden for one in sentences], axis=1)
    words = np.stack([one.inside.hidden[:, one.place] for one in sentences], axis=1)
    known = centred(words, around=every)[-1]
    for text, sense in (
        ("Ducks nest on the bank under the trees.", "river"),
        ("Her salary goes straight to the bank each month.", "money"),
    ):
        new = ambiguity.read(minilm(), text)
        vector = centred(new.inside.hidden[:, [new.place]], around=every)[-1, 0]
        likeness = known @ vector / np.linalg.norm(known, axis=-1)
        assert senses[int(likeness.argmax())] == sense


def test_shares_and_movers(sentences):
    change, words = ambiguity.changes(sentences)
    assert len(words) == len(sentences)
    np.testing.assert_allclose(change.attention + change.mlp, 1, atol=1e-4)
    for one in sentences:
        moved = ambiguity.movers(one, 1, 4)
        assert len(moved) == len(set(moved)) == 4
        assert set(moved) <= set(one.tokens) - {"[CLS]", "[SEP]", "."}


def test_main(capsys):
    ambiguity.main(words=2)
    out = capsys.readouterr().out
    assert "12 of 12" in out
    assert "Told apart for good after layer" in out
    assert max(map(len, out.splitlines())) <= 80


def test_it_runs_as_a_script():
    status, out, err = run("ambiguity")
    assert (status, err) == (0, "")
    assert "\x1b" not in out


def test_options():
    status, out = call(ambiguity, "--help")
    assert status == 0
    assert "--words" in out
    assert call(ambiguity, "--words", "0")[0] == 2
