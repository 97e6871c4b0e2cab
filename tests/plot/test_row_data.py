"""Rows: weights against the dense truth, what was kept, and rows that are not there."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError, UnavailableError
from regard.mask import Causal
from regard.plot.row_data import make_row, pooled_row
from regard.recording.sight import Sight
from regard.testing.recordings import WORDS, Chunk, in_memory

N = 50


def made(tokens=tuple(f" t{n}" for n in range(N)), **options):
    rec, truths = in_memory(list(tokens), layers=2, **options)
    return rec.prompts[0], truths[0, 0].truth.weights()


def row_of(prompt, label, row):
    head = prompt[label]
    return make_row(head, Sight(prompt.held(head.place.label), head.head), row)


def test_a_row_is_the_truths():
    prompt, truth = made()
    found = row_of(prompt, "L0H1", 30)
    np.testing.assert_allclose(found.weights[:31], truth[1][30, :31], rtol=1e-4)
    assert np.isnan(found.weights[31:]).all()
    assert (found.row, found.visible, found.token) == (30, 31, " t30")


def test_the_heaviest_come_first():
    prompt, truth = made()
    top = row_of(prompt, "L0H1", 49).top
    order = np.argsort(-truth[1][49])[:16]
    assert [key for key, _ in top] == order.tolist()
    np.testing.assert_allclose([weight for _, weight in top], truth[1][49, order], rtol=1e-4)


def test_negative_rows_count_from_the_last():
    prompt, _ = made(WORDS)
    assert row_of(prompt, "L0H1", -1).row == 11
    assert row_of(prompt, "L0H1", -12).token == "<s>"


def test_a_masked_key_is_never_listed():
    prompt, _ = made()
    assert [key for key, _ in row_of(prompt, "L0H1", 2).top] == pytest.approx([0, 1, 2], abs=2)
    assert len(row_of(prompt, "L0H1", 0).top) == 1


def test_of_a_head_that_is_not_exact_the_kept_keys():
    prompt, _ = made()
    found = row_of(prompt, "L1H0", 40)
    kept = prompt["L1H0"].stored
    assert found.weights is None and found.visible == 41
    assert [key for key, _ in found.top] == kept["top_keys"].values[40].tolist()
    assert [weight for _, weight in found.top] == kept["top_weights"].values[40].tolist()


def test_kept_of_some_rows_only():
    prompt, _ = made(top_every=16)
    assert row_of(prompt, "L1H0", 32).top
    with pytest.raises(UnavailableError, match="of some rows only; the nearest is 32"):
        row_of(prompt, "L1H0", 40)


def test_nothing_kept():
    prompt, _ = made(statistics=False)
    with pytest.raises(UnavailableError, match="budget of 1 kB, and its heaviest keys neither"):
        row_of(prompt, "L1H0", 40)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (50, "row 50 does not exist; L0H0 has 40–49"),
        (-51, "row -51 does not exist"),
        (3, "row 3 was not recorded; L0H0 has 40–49"),
    ],
)
def test_rows_that_are_not_there(row, words):
    prompt, _ = made(chunks=[Chunk((0, N), (0, N), Causal())], rows=(40, N))
    with pytest.raises(InputError, match=words):
        row_of(prompt, "L0H0", row)


def test_a_long_row_keeps_its_largest_weights():
    weights = np.linspace(0, 1, 25)
    weights[20:] = np.nan
    assert pooled_row(weights, 25)[0] == 1
    cell, points = pooled_row(weights, 10)
    assert cell == 3 and points.size == 9
    np.testing.assert_allclose(points[:6], weights[2:18:3])
    assert points[6] == weights[19]  # the masked one beside it does not hide it
    assert np.isnan(points[7:]).all()
