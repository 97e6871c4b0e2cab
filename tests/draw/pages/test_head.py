"""The page of one head."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.draw import Paper, finished, plain
from regard.draw.pages import Look, make_head
from regard.draw.pages.words import CAVEAT
from regard.draw.spelling import cells
from regard.recording import STATISTICS
from regard.testing.recordings import HOSTILE, WORDS, in_memory

PAPERS = {
    "colour": Paper(80, 40, "true"),
    "256": Paper(100, 40, "256"),
    "mono": Paper(80),
    "ascii": Paper(60, is_ascii=True),
    "narrow": Paper(40, 24, "true"),
}
EVERY_PAPER = pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)


def page(label="L0H1", tokens=WORDS, cell=1, top=3, look=None, **options):
    """A page, its recording and the truth."""
    rec, made = in_memory(tokens, **options)
    prompt = rec.prompts[0]
    return make_head(prompt, prompt[label], look or Look(), cell=cell, top=top), rec, made


def text(one, paper=PAPERS["mono"]) -> str:
    """The page as text."""
    return "\n".join(plain(finished(one.lines(paper), paper)))


def test_it_says_which_head_and_how_much_is_known():
    assert text(page()[0]).startswith("L0H1 · 12 × 12 tokens · every cell can be computed\n")
    assert "summaries only" in text(page("L1H1", cell=16)[0])


def test_map_numbers_profiles_and_keys_are_there():
    shown = text(page()[0])
    for words in ("scale: × uniform", "previous ", "distance ", "entropy ", "keys looked at most"):
        assert words in shown
    assert shown.endswith(CAVEAT)


def test_numbers_are_those_of_the_grid():
    one, rec, _ = page()
    for name, value in one.as_dict()["statistics"].items():
        wanted = rec.grid(name)[0, 1]
        assert value == (None if np.isnan(wanted) else wanted)
    assert set(one.numbers) <= set(STATISTICS)


def test_json_has_the_numbers_and_no_matrix():
    one, _, made = page(cell=None)
    value = json.loads(json.dumps(one.as_dict(), allow_nan=False))
    truth = made[0, 0].truth.weights()[1]
    assert value["map"] is None
    assert (value["head"], value["prompt"], value["shape"]) == ("L0H1", 0, [12, 12])
    assert value["exact"] is True and value["why_not"] is None
    share = truth.sum(0) / 12
    best = int(share.argmax())
    assert value["received"][0]["keys"] == [best, best + 1]
    assert value["received"][0]["token"] == WORDS[best]
    assert value["received"][0]["share"] == pytest.approx(share[best], rel=1e-4)
    assert len(value["received"]) == 3


def test_json_has_the_map_that_was_asked_for():
    one, *_ = page(cell=4)
    assert np.shape(one.as_dict()["map"]["weights"]) == (3, 3)


def test_a_map_that_cannot_be_had_is_said():
    one, *_ = page("L1H0", cell=1)
    assert one.picture is None
    assert "no map: L1H0: it did not fit the budget of 1 kB" in text(one)
    assert "keys looked at most" in text(one)


def test_binned_keys_have_no_token():
    one, *_ = page("L1H0", cell=16, key_bin=4)
    assert {"keys": [0, 4], "token": None} in [
        {key: entry[key] for key in ("keys", "token")} for entry in one.as_dict()["received"]
    ]
    assert "0–3" in text(one)


def test_other_prompts_are_named():
    rec, _ = in_memory(prompts=2)
    one = rec.prompts[1]
    assert "prompt 1" in text(make_head(one, one["L0H0"], Look(), cell=1, top=3))


def test_rows_that_were_not_recorded_are_said():
    rec, _ = in_memory(rows=(8, 12))
    prompt = rec.prompts[0]
    assert "rows 8–11 recorded" in text(make_head(prompt, prompt["L0H0"], Look(), cell=1, top=3))


@EVERY_PAPER
@pytest.mark.parametrize("label", ["L0H1", "L1H1"])
def test_every_paper_holds_the_page(paper, label):
    one, *_ = page(label, HOSTILE, cell=1 if label == "L0H1" else 16)
    for line in text(one, paper).splitlines():
        assert cells(line) <= paper.width and line.isprintable()
        assert line.isascii() or not paper.is_ascii


def test_rows_that_are_not_numbers_do_not_stop_the_page():
    rec, _ = in_memory(query=torch.full((4, 12, 16), torch.nan), layers=1)
    prompt = rec.prompts[0]
    one = make_head(prompt, prompt["L0H0"], Look(), cell=1, top=3)
    assert text(one).startswith("L0H0") and json.dumps(one.as_dict(), allow_nan=False)


def test_without_tokens_there_are_positions():
    rec, _ = in_memory(["x"] * 12)
    prompt = rec.prompts[0]
    prompt.streams.clear()
    one = make_head(prompt, prompt["L0H0"], Look(), cell=1, top=3)
    assert "token  " not in text(one)
