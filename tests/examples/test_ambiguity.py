"""MiniLM tells two senses of a word apart, and the example says where."""

from __future__ import annotations

import numpy as np
import pytest

from examples.scripts import load, run
from real_models import minilm

ambiguity = load("ambiguity")


@pytest.fixture(scope="module")
def sentences():
    """All of them, read."""
    return [ambiguity.read(minilm(), sentence) for sentence in ambiguity.SENTENCES]


def test_two_senses_part_and_not_by_position(sentences):
    senses, places = list(ambiguity.SENTENCES.values()), [one.place for one in sentences]
    assert all(one.tokens[one.place] == ambiguity.WORD for one in sentences)
    assert sorted(places[::2]) == sorted(places[1::2]) and senses == ["river", "money"] * 6
    apart = ambiguity.compare(sentences, senses)
    assert apart.nearest[0] < 0.5 and apart.gap[0] < 0.01
    assert apart.separates in (1, 2, 3)
    assert np.all(apart.nearest[apart.separates :] == 1) and np.all(apart.gap[2:] > 0.04)


def test_it_runs_as_a_script():
    status, out, err = run("ambiguity", "--words", "2")
    assert (status, err) == (0, "") and "\x1b" not in out
    assert "12 of 12" in out and "Told apart for good after layer" in out
    assert max(map(len, out.splitlines())) <= 80
