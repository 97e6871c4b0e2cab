"""The page of a region: every weight, or cells."""

from __future__ import annotations

import numpy as np
import pytest

from regard.draw import Paper, finished, plain
from regard.draw.pages import region_lines
from regard.errors import InputError, UnavailableError
from regard.views import region as module
from regard.views.region import RegionView, make_region
from regard.views.uniform import Look
from support.recordings import WORDS, in_memory

MONO, COLOUR = Paper(), Paper(100, 40, "true")
LONG = [f" t{n}" for n in range(90)]


def page(rows, keys, tokens=WORDS, label="L0H1", **options):
    """A page and the truth of its region."""
    rec, made = in_memory(tokens, **options)
    prompt = rec.prompts[0]
    one = make_region(prompt, prompt[label], rows=rows, keys=keys)
    truth = made[0, 0].truth.weights()[1]
    return one, truth[rows.start : rows.stop, keys.start : keys.stop]


def text(one, paper=MONO, look=None) -> list[str]:
    """The page as text."""
    return plain(finished(region_lines(one, look or Look(), paper), paper))


def test_every_weight_of_a_small_region():
    one, truth = page(range(3, 6), range(2, 5))
    lines = text(one)
    assert lines[1] == "rows 3–5, keys 2–4"
    assert lines[3].split() == ["2", "3", "4"]
    assert lines[4].split() == ["␣cat", "␣sat", "␣on"]
    for line, row in zip(lines[5:8], truth, strict=True):
        shown = line.split()[2:]
        assert shown == [f"{weight:.3f}" if weight else "·" for weight in row]
    told = one.as_answer()
    assert told["query_tokens"] == WORDS[3:6] and told["key_tokens"] == WORDS[2:5]


def test_large_regions_are_maps():
    one, _ = page(range(10, 90), range(80), LONG)
    assert any("mean of 3×3 tokens a cell" in line for line in text(one))
    assert any("max of 3×3 tokens a cell" in line for line in text(one, look=Look("max")))
    assert text(one)[3].startswith("10 ")


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
            page(range(90), range(90), LONG)
        finally:
            module._MOST = limit


def test_single_cells_are_needed():
    with pytest.raises(UnavailableError, match="single weights cannot be computed"):
        page(range(3), range(3), label="L1H0")


def test_colours_are_times_uniform_or_weights():
    assert "× even share" in "".join(text(page(range(3), range(3))[0], COLOUR))
    raw = text(page(range(3), range(3))[0], COLOUR, Look(raw=True))
    assert "scale: weight, linear, 0–1" in "".join(raw)
