"""Rows and regions in the terminal: every weight, or cells; and one row with its heaviest keys."""

from __future__ import annotations

import numpy as np
import pytest

from regard.colour import shades as colours
from regard.draw import Paper, finished, palette, plain
from regard.draw.pages import region_lines, row_lines
from regard.errors import InputError, UnavailableError
from regard.views import region as module
from regard.views.region import RegionView, make_region
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


WIDE = Paper(100, 40, "true")
LONG = [f" t{n}" for n in range(90)]


def region_page(rows, keys, tokens=WORDS, label="L0H1", **options):
    """A region_page and the truth of its region."""
    rec, made = in_memory(tokens, **options)
    prompt = rec.prompts[0]
    one = make_region(prompt, prompt[label], rows=rows, keys=keys)
    truth = made[0, 0].truth.weights()[1]
    return one, truth[rows.start : rows.stop, keys.start : keys.stop]


def region_text(one, paper=MONO, look=None) -> list[str]:
    """The region_page as region_text."""
    return plain(finished(region_lines(one, look or Look(), paper), paper))


def test_every_weight_of_a_small_region():
    one, truth = region_page(range(3, 6), range(2, 5))
    lines = region_text(one)
    assert lines[1] == "rows 3–5, keys 2–4"
    assert lines[3].split() == ["2", "3", "4"]
    assert lines[4].split() == ["␣cat", "␣sat", "␣on"]
    for line, row in zip(lines[5:8], truth, strict=True):
        shown = line.split()[2:]
        assert shown == [f"{weight:.3f}" if weight else "·" for weight in row]
    told = one.as_answer()
    assert told["query_tokens"] == WORDS[3:6] and told["key_tokens"] == WORDS[2:5]


def test_large_regions_are_maps():
    one, _ = region_page(range(10, 90), range(80), LONG)
    assert any("mean of 3×3 tokens a cell" in line for line in region_text(one))
    assert any("max of 3×3 tokens a cell" in line for line in region_text(one, look=Look("max")))
    assert region_text(one)[3].startswith("10 ")


@pytest.mark.parametrize("how", ["mean", "max"])
def test_cells_of_a_region_are_of_what_may_be_seen(how):
    values = np.array([[1.0, np.nan, np.nan], [2.0, 4.0, np.nan], [0.0, 6.0, 8.0]])
    one = RegionView(None, None, range(3), range(3), values, np.ones(3))
    found = one.pooled(Look(how), 2)
    wanted = [[7 / 3, np.nan], [3.0, 8.0]] if how == "mean" else [[4.0, np.nan], [6.0, 8.0]]
    np.testing.assert_allclose(found, wanted)


def test_too_many_cells_are_refused():
    with pytest.raises(InputError, match=r"--rows 0:90 --keys 0:90: 8,100 cells; give a region"):
        limit, module._MOST = module._MOST, 100
        try:
            region_page(range(90), range(90), LONG)
        finally:
            module._MOST = limit


def test_single_cells_are_needed():
    with pytest.raises(UnavailableError, match="single weights cannot be computed"):
        region_page(range(3), range(3), label="L1H0")


def test_colours_are_times_uniform_or_weights():
    assert "× even share" in "".join(region_text(region_page(range(3), range(3))[0], WIDE))
    raw = region_text(region_page(range(3), range(3))[0], WIDE, Look(raw=True))
    assert "scale: weight, linear, 0–1" in "".join(raw)
