"""The page of one head."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.draw import Paper, finished, plain
from regard.draw.pages import head_lines
from regard.recording import STATISTICS
from regard.views.head import HeadView, head_answer
from regard.views.text import CAVEAT
from regard.views.uniform import Look
from support.recordings import WORDS, in_memory

MONO = Paper(80)


def page(label="L0H1", tokens=WORDS, **options):
    """A head, its recording and the truth."""
    rec, made = in_memory(tokens, **options)
    return HeadView(rec.prompts[0], rec[label]), rec, made


def text(one, paper=MONO, cell=1) -> str:
    """The page as text."""
    lines = head_lines(one, Look(), paper, cell=cell, top=3)
    return "\n".join(plain(finished(lines, paper)))


def test_it_says_which_head_and_how_much_is_known():
    assert text(page()[0]).startswith("L0H1 · 12 × 12 tokens · every cell can be computed\n")
    assert "summaries only" in text(page("L1H1")[0], cell=16)


def test_map_numbers_profiles_and_keys_are_there():
    shown = text(page()[0])
    for words in (
        "scale: × even share",
        "on the token before ",
        "distance ",
        "entropy ",
        "keys looked at most",
    ):
        assert words in shown
    assert shown.endswith(CAVEAT)


def test_numbers_are_those_of_the_grid():
    one, rec, _ = page()
    for name, value in head_answer(one)["statistics"].items():
        wanted = rec.grid(name)[0, 1]
        assert value == (None if np.isnan(wanted) else wanted)
    assert set(one.numbers) <= set(STATISTICS)


def test_json_has_the_numbers_and_no_matrix():
    one, _, made = page()
    value = json.loads(json.dumps(head_answer(one), allow_nan=False))
    assert "map" not in value
    assert (value["label"], value["prompt"], value["shape"]) == ("L0H1", 0, [12, 12])
    assert value["exact"] is True and value["why_not"] is None
    share = made[0, 0].truth.weights()[1].sum(0) / 12
    best, found = int(share.argmax()), one.looked_at(3)
    assert found[0]["keys"] == (best, best + 1) and found[0]["token"] == WORDS[best]
    assert found[0]["share"] == pytest.approx(share[best], rel=1e-4) and len(found) == 3


def test_a_map_that_cannot_be_had_is_said():
    one, *_ = page("L1H0")
    assert one.cells(1, Look())[0] is None
    assert "no map: L1H0: it did not fit the budget of 1 kB" in text(one)
    assert "keys looked at most" in text(one)


def test_binned_keys_have_no_token():
    one, *_ = page("L1H0", key_bin=4)
    assert ((0, 4), None) in [(entry["keys"], entry["token"]) for entry in one.looked_at(3)]
    assert "0–3" in text(one, cell=16)


def test_other_prompts_are_named():
    rec, _ = in_memory(prompts=2)
    one = rec.prompts[1]
    assert "prompt 1" in text(HeadView(one, one["L0H0"]))


def test_rows_that_were_not_recorded_are_said():
    rec, _ = in_memory(rows=(8, 12))
    prompt = rec.prompts[0]
    assert "rows 8–11 recorded" in text(HeadView(prompt, prompt["L0H0"]))


def test_rows_that_are_not_numbers_do_not_stop_the_page():
    rec, _ = in_memory(query=torch.full((4, 12, 16), torch.nan), layers=1)
    prompt = rec.prompts[0]
    one = HeadView(prompt, prompt["L0H0"])
    assert text(one).startswith("L0H0") and json.dumps(head_answer(one), allow_nan=False)


def test_without_tokens_there_are_positions():
    rec, _ = in_memory(["x"] * 12)
    prompt = rec.prompts[0]
    prompt.streams.clear()
    one = HeadView(prompt, prompt["L0H0"])
    assert "token  share" not in text(one)


def test_short_texts_have_their_tokens_on_the_axes():
    assert any(line.startswith("␣slept") for line in text(page()[0]).splitlines())
