"""SmolLM2 finds the needle, and does so by the heads that the example lists."""

from __future__ import annotations

import numpy as np
import pytest

from examples.scripts import call, load
from real_models import smollm2

needle = load("needle")


@pytest.fixture(scope="module")
def prompt():
    """A short haystack."""
    return needle.make_prompt(smollm2().tokenizer, 100, 0.5)


@pytest.fixture(scope="module")
def watched(prompt):
    """What was written, and the recording."""
    return needle.watch(smollm2(), prompt)


def test_the_needle_is_where_it_is_said_to_be(prompt):
    tokenizer = smollm2().tokenizer
    ids = prompt.ids[0]
    assert tokenizer.decode(ids[prompt.needle.start : prompt.needle.stop]) == needle.ANSWER
    text = tokenizer.decode(ids)
    assert text.count(needle.ASKED) == 2
    assert text.endswith(needle.ASKED)
    shallow = needle.make_prompt(tokenizer, 100, 0.0)
    assert shallow.needle.start < prompt.needle.start
    assert shallow.ids.shape == prompt.ids.shape


def test_the_model_answers_from_the_needle(watched):
    assert watched[0].startswith(needle.ANSWER)


def test_scores_are_shares_of_what_was_fetched(prompt, watched):
    recording = watched[1]
    scores = needle.mean_retrieval([(recording, 0, prompt.needle)], generated=len(prompt.needle))
    assert len(scores) == 270
    best = max(scores, key=scores.get)
    assert scores[best] > 0.5
    rows = range(prompt.ids.shape[1] - 1, prompt.ids.shape[1] - 1 + len(prompt.needle))
    looked = recording[best].rows(rows).argmax(-1)
    assert scores[best] == pytest.approx(np.mean(looked == np.array(prompt.needle)))


def test_main_shows_that_they_matter(capsys):
    needle.main(model="smollm2", tokens=100, depths=1, heads=4, seed=0)
    out = capsys.readouterr().out
    assert f"writes '{needle.ANSWER}" in out
    assert "L18H6" in out
    assert "Without these: right 0 of 1" in out
    assert "Without as many of the others: right 1 of 1" in out


def test_options():
    status, out = call(needle, "--help")
    assert status == 0
    assert "--depths" in out
    assert call(needle, "--depths", "0")[0] == 2
