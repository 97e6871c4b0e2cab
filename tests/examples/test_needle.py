"""SmolLM2 finds the needle, and does so by the heads that the example lists."""

from __future__ import annotations

import numpy as np
import pytest

from examples.scripts import load
from real_models import smollm2

needle = load("needle")


def test_scores_are_shares_of_what_was_fetched():
    tokenizer = smollm2().tokenizer
    prompt = needle.make_prompt(tokenizer, 100, 0.5)
    ids, place = prompt.ids[0], prompt.needle
    assert tokenizer.decode(ids[place.start : place.stop]) == needle.ANSWER
    text = tokenizer.decode(ids)
    assert text.count(needle.ASKED) == 2 and text.endswith(needle.ASKED)
    shallow = needle.make_prompt(tokenizer, 100, 0.0)
    assert shallow.needle.start < place.start and shallow.ids.shape == prompt.ids.shape
    written, recording = needle.watch(smollm2(), prompt)
    assert written.startswith(needle.ANSWER)
    scores = needle.mean_retrieval([(recording, 0, place)], generated=len(place))
    assert len(scores) == 270
    best = max(scores, key=scores.get)
    rows = range(len(ids) - 1, len(ids) - 1 + len(place))
    looked = recording[best].rows(rows).argmax(-1)
    assert scores[best] == pytest.approx(np.mean(looked == np.array(place))) and scores[best] > 0.5


def test_it_shows_that_they_matter(capsys):
    needle.main(model="smollm2", tokens=100, depths=1, heads=4, seed=0)
    out = capsys.readouterr().out
    assert f"writes '{needle.ANSWER}" in out and "L18H6" in out
    assert "Without these: right 0 of 1" in out
    assert "Without as many of the others: right 1 of 1" in out
