"""The two heads made by hand: what they are for comes out in sentences."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError, ShapeError
from regard.learn import Options, make_lesson

BANK = ("She sat on the bank of the river", "She put the money in the bank")
IT = "The animal did not cross the street because it was too {}"
SENTENCES = (
    *BANK,
    IT.format("tired"),
    IT.format("wide"),
    "The cat sat",
    "The cat chased the mouse because it was hungry",
)


def lesson(sentence, **options):
    return make_lesson(Options(sentence, vectors="features", projections="by-hand", **options))


def output(sentence, word):
    """Feature → its number in the output of a word."""
    made = lesson(sentence)
    assert made.embedding.made_up == ()
    row = made.output[made.sentence.tokens.index(word)]
    return dict(zip(made.embedding.names, row, strict=True))


def test_a_bank_is_at_the_water_or_for_money():
    river, money = (output(sentence, "bank") for sentence in BANK)
    assert river["water"] > 1.5 * river["money"]
    assert money["money"] > 1.5 * money["water"]


def test_what_is_said_of_it_tells_what_it_is():
    tired, wide = (output(IT.format(word), "it") for word in ("tired", "wide"))
    assert tired["animal"] > 1.3 * tired["place"]
    assert wide["place"] > 1.2 * wide["animal"]


def test_an_action_finds_who_does_it_and_is_looked_for_less():
    made = lesson("The cat sat")
    doer = made.heads[1].weights
    assert doer[2].argmax() == 1
    assert doer[2, 1] > 0.8
    assert doer[1].argmax() == 2
    scores = made.heads[1].scores
    assert scores[2, 1] == 2 * scores[1, 2] > 0


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_heads_differ(sentence):
    topic, doer = lesson(sentence).heads
    assert np.abs(topic.weights - doer.weights).max() > 0.2


def test_outputs_are_named_as_the_features_are():
    made = lesson("The cat sat")
    assert made.names("o", 8) == made.names("x", 8) == made.embedding.names
    assert made.names("o", 4) is None
    drawn = make_lesson(Options("The cat", vectors="features", projections="random:1", heads=2))
    assert drawn.names("x", 8)
    assert drawn.names("o", 8) is None


@pytest.mark.parametrize("vectors", ["notes", "smollm2"])
def test_they_need_features(vectors):
    with pytest.raises(InputError, match="give --vectors features with it"):
        make_lesson(Options("The cat", vectors=vectors, projections="by-hand"))


def test_their_sizes_are_fixed():
    with pytest.raises(ShapeError, match="--heads 4: the projections made by hand have 2"):
        lesson("The cat", heads=4)
    assert lesson("The cat", heads=2).output.shape == (2, 8)
