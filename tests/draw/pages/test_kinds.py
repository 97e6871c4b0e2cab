"""Every page over every kind of attention: the numbers are the dense truth's, the lines fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.draw import Paper, finished, plain
from regard.draw.pages import Look, make_head, make_overview, make_region, make_row
from regard.draw.spelling import cells
from regard.mask import Causal, Documents, Padding, Window
from regard.score import ALiBi, ScoreRule
from regard.testing.recordings import Chunk, in_memory

N = 24
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
KINDS = {
    "causal": {},
    "window": {"chunks": [Chunk((0, N), (0, N), Window(5))]},
    "both ways": {"chunks": [Chunk((0, N), (0, N))]},
    "padded": {"chunks": [Chunk((0, N), (0, N), Padding(torch.tensor(20)))]},
    "documents": {"chunks": [Chunk((0, N), (0, N), Causal() & Documents(torch.arange(N) // 7))]},
    "alibi": {"chunks": [Chunk((0, N), (0, N), Causal(), ScoreRule(0.25, bias=ALiBi(SLOPES)))]},
    "sink": {
        "chunks": [Chunk((0, N), (0, N), Causal(), ScoreRule(0.25, sink=torch.ones(4)))],
    },
    "in chunks": {"chunks": [Chunk((0, 9), (0, 9), Causal()), Chunk((9, N), (0, N), Causal())]},
    "cross": {"chunks": [Chunk((0, 10), (0, N))], "kind": "cross"},
    "last rows": {"rows": (N - 6, N)},
    "some heads": {"recorded": (1, 3)},
    "bf16": {"dtype": torch.bfloat16},
    "in bins": {"row_bin": 4, "key_bin": 4, "top_every": 3},
}
PAPERS = [Paper(), Paper(60, 40, "true"), Paper(40, is_ascii=True)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def made(kind: str):
    """A prompt, its head L0H1 and the truth (L, S)."""
    tokens = [f" t{n}" for n in range(N)]
    rec, truths = in_memory(tokens, layers=1, **KINDS[kind])
    return rec, rec.prompts[0], rec["L0H1"], truths[0, 0].truth.weights()[1]


def check(page) -> dict:
    """The page fits every paper and is JSON; its numbers."""
    for paper in PAPERS:
        for line in plain(finished(page.lines(paper), paper)):
            assert cells(line) <= paper.width and line.isprintable()
    return json.loads(json.dumps(page.as_dict(), allow_nan=False))


@EVERY_KIND
def test_overviews(kind):
    rec, *_ = made(kind)
    value = check(make_overview(rec, 0, "peak"))
    grid = rec.grid("peak")
    np.testing.assert_array_equal(np.array(value["grid"][""], float), grid)


@EVERY_KIND
@pytest.mark.parametrize("how", ["mean", "max"])
def test_maps(kind, how):
    _, prompt, head, truth = made(kind)
    value = check(make_head(prompt, head, Look(how), cell=1, top=4))
    rows = slice(head.recorded.start, head.recorded.stop)
    found = np.nan_to_num(np.array(value["map"]["weights"], float))
    np.testing.assert_allclose(found, truth[rows], rtol=2e-3, atol=2e-6)
    seen = ~np.isnan(np.array(value["map"]["times_uniform"], float))
    np.testing.assert_array_equal(seen, truth[rows] > 0)
    times = np.nan_to_num(np.array(value["map"]["times_uniform"], float))
    lengths = (truth[rows] > 0).sum(1, keepdims=True)
    np.testing.assert_allclose(times, truth[rows] * lengths, rtol=2e-3, atol=2e-5)


@EVERY_KIND
def test_pooled_maps_are_even_where_attention_is(kind):
    _, prompt, head, truth = made(kind)
    value = check(make_head(prompt, head, Look(), cell=6, top=4))
    times = np.array(value["map"]["times_uniform"], float)
    first = head.recorded.start // 6 * 6
    blocks = [
        [truth[i : i + 6, j : j + 6] for j in range(0, truth.shape[1], 6)]
        for i in range(first, head.recorded.stop, 6)
    ]
    for row, line in zip(times, blocks, strict=True):
        for cell, block in zip(row, line, strict=True):
            assert np.isnan(cell) == (block.sum() == 0)


@EVERY_KIND
@pytest.mark.parametrize("back", [1, 3])
def test_rows(kind, back):
    _, prompt, head, truth = made(kind)
    row = head.recorded.stop - back
    keys = range(head.shape[1])
    value = check(make_row(prompt, head, Look(), row=row, keys=keys, top=5))
    order = np.argsort(-truth[row], kind="stable")[:5]
    wanted = truth[row][order]
    found = np.array([one["weight"] for one in value["top"]])
    np.testing.assert_allclose(found, wanted[wanted > 0], rtol=2e-3)
    assert value["visible"] == np.count_nonzero(truth[row])


@EVERY_KIND
def test_regions(kind):
    _, prompt, head, truth = made(kind)
    rows = range(head.recorded.start, head.recorded.stop - 1)
    value = check(make_region(prompt, head, Look(), rows=rows, keys=range(3, 20)))
    found = np.array(value["weights"], float)
    wanted = truth[rows.start : rows.stop, 3:20]
    np.testing.assert_array_equal(np.isnan(found), wanted == 0)
    np.testing.assert_allclose(np.nan_to_num(found), wanted, rtol=2e-3, atol=2e-6)


@EVERY_KIND
def test_distances_add_up(kind):
    _, prompt, head, truth = made(kind)
    page = make_head(prompt, head, Look(), cell=1, top=4)
    rows = slice(head.recorded.start, head.recorded.stop)
    assert page.distances.values.sum() == pytest.approx(truth[rows].sum(1).mean(), rel=2e-3)
    assert page.received.values.sum() == pytest.approx(truth[rows].sum(1).mean(), rel=2e-3)
