"""The page of one row."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import shades as colours
from regard.draw import Paper, finished, palette, plain
from regard.draw.pages import row_lines
from regard.errors import InputError, UnavailableError
from regard.views.row import find_row, make_row
from regard.views.uniform import Look
from support.recordings import WORDS, in_memory

MONO, COLOUR = Paper(), Paper(80, 40, "true")


def page(label="L0H1", row=11, keys=None, top=4, tokens=WORDS, **options):
    """A page and the truth (L, S)."""
    rec, made = in_memory(tokens, **options)
    prompt = rec.prompts[0]
    span = range(len(tokens)) if keys is None else keys
    one = make_row(prompt, prompt[label], row, keys=span, top=top)
    return one, made[0, int(label[1])].truth.weights()[1]


def text(one, paper=MONO, raw=False) -> str:
    """The page as text."""
    return "\n".join(plain(finished(row_lines(one, Look(raw=raw), paper), paper)))


def test_the_row_is_named_and_measured():
    shown = text(page()[0])
    assert "row 11 ␣the · sees 12 keys · entropy " in shown
    assert "<s>" in shown and "heaviest keys are marked" in shown
    assert "together" in shown


def test_marks_are_the_weights():
    one, truth = page()
    best = int(truth[11].argmax())
    assert f"{WORDS[best].strip()}({truth[11][best]:.2f})" in text(one)


def test_shades_are_times_uniform_and_what_is_ahead_is_dim():
    one, truth = page(row=6)
    pieces = [piece for line in row_lines(one, Look(), COLOUR) for piece in line]
    best = int(truth[6].argmax())
    share = np.log10(truth[6][best] * 7 / 0.1) / np.log10(len(WORDS) / 0.1)
    shade = palette.colour(int(colours.codes(share)), "true")
    assert any(text == WORDS[best] and style.endswith(shade) for text, style in pieces)
    assert any(text.startswith(".") and style == "dim" for text, style in pieces)
    assert "× even share" in text(one, COLOUR)
    assert "scale: weight, linear" in text(page()[0], COLOUR, raw=True)


def test_some_keys():
    one, truth = page(keys=range(2, 6))
    assert {key for key, _ in one.top} == {2, 3, 4, 5}
    shown = text(one)
    assert f"{truth[11][2:6].sum():.3f} of its weight on the keys shown" in shown
    assert "<s>" not in shown


def test_without_single_cells_the_kept_keys_are_shown():
    one, truth = page("L1H1")
    assert one.weights is None and "only the heaviest keys are known" in text(one)
    assert one.top[0][0] == int(truth[11].argmax())


def test_rows_of_which_nothing_was_kept():
    with pytest.raises(UnavailableError, match="one row in 4 only; the nearest is row 8"):
        page("L1H1", top_every=4)
    assert page("L1H1", row=8, top_every=4)[0].top
    with pytest.raises(UnavailableError, match="single weights cannot be computed"):
        page("L1H1", statistics=False)


@pytest.mark.parametrize(
    ("token", "row"),
    [(" the", 11), ("the", 11), ("The", 1), ("cat", 2), ("\n", 8), ("le", 10), (".", 7)],
)
def test_rows_by_token(token, row):
    rec, _ = in_memory()
    assert find_row(rec["L0H0"], token) == row


@pytest.mark.parametrize("token", ["zebra", ""])
def test_tokens_that_are_not_there(token):
    rec, _ = in_memory()
    with pytest.raises(InputError, match=r"no recorded row has this token; give --row N"):
        find_row(rec["L0H0"], token)


def test_only_recorded_rows_are_found():
    rec, _ = in_memory(rows=(0, 6))
    assert find_row(rec["L0H0"], "the") == 5


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (12, "row 12 does not exist; L0H0 has 8–11"),
        (-13, "row -13 does not exist"),
        (3, "row 3 was not recorded; L0H0 has 8–11"),
    ],
)
def test_rows_that_are_not_there(row, words):
    rec, _ = in_memory(rows=(8, 12))
    with pytest.raises(InputError, match=words):
        make_row(rec.prompts[0], rec["L0H0"], row, top=3)
    assert make_row(rec.prompts[0], rec["L0H0"], -1, top=3).row == 11
