"""Every page over every kind of attention: the numbers are the dense truth's, the lines fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.draw import Paper, finished, plain
from regard.draw.pages import head_lines, overview_lines, region_lines, row_lines
from regard.draw.spelling import cells
from regard.mask import Causal, Documents, Padding, Window
from regard.score import ALiBi, ScoreRule
from regard.views.head import HeadView
from regard.views.overview import whole_overview
from regard.views.region import make_region
from regard.views.row import make_row
from regard.views.uniform import Look
from support.recordings import HOSTILE, Chunk, in_memory

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
    "hostile": {"tokens": (HOSTILE * N)[:N]},
    "in bins": {"row_bin": 4, "key_bin": 4, "top_every": 3},
}
PAPERS = [Paper(), Paper(60, 40, "true"), Paper(40, is_ascii=True), Paper(30, 20, "256")]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def made(kind: str):
    """A prompt, its head L0H1 and the truth (L, S)."""
    options = {"tokens": [f" t{n}" for n in range(N)]} | KINDS[kind]
    rec, truths = in_memory(layers=1, **options)
    return rec, rec.prompts[0], rec["L0H1"], truths[0, 0].truth.weights()[1]


def check(draw, answer) -> dict:
    """The page fits every paper; its numbers, as JSON has them."""
    for paper in PAPERS:
        for line in plain(finished(draw(paper), paper)):
            assert cells(line) <= paper.width and line.isprintable()
            assert line.isascii() or not paper.is_ascii
    return json.loads(json.dumps(answer, allow_nan=False))


@EVERY_KIND
def test_overviews(kind):
    rec, *_ = made(kind)
    value = check(lambda paper: overview_lines(rec, 0, "peak", paper), whole_overview(rec))
    (stack,) = value["stacks"]
    np.testing.assert_array_equal(np.array(stack["grids"]["peak"], float), rec.grid("peak"))


def check_map(prompt, head, look, cell) -> dict:
    """The map of a head, in cells."""
    view = HeadView(prompt, head)
    cells, problem = view.cells(cell, look)
    assert not problem
    return check(lambda paper: head_lines(view, look, paper, cell=cell, top=4), cells.as_answer())


@EVERY_KIND
@pytest.mark.parametrize("how", ["mean", "max"])
def test_maps(kind, how):
    _, prompt, head, truth = made(kind)
    value = check_map(prompt, head, Look(how), 1)
    rows = slice(head.recorded.start, head.recorded.stop)
    found = np.nan_to_num(np.array(value["weights"], float))
    np.testing.assert_allclose(found, truth[rows], rtol=2e-3, atol=2e-6)
    seen = ~np.isnan(np.array(value["times_uniform"], float))
    np.testing.assert_array_equal(seen, truth[rows] > 0)
    times = np.nan_to_num(np.array(value["times_uniform"], float))
    lengths = (truth[rows] > 0).sum(1, keepdims=True)
    np.testing.assert_allclose(times, truth[rows] * lengths, rtol=2e-3, atol=2e-5)


@EVERY_KIND
def test_pooled_maps_are_even_where_attention_is(kind):
    _, prompt, head, truth = made(kind)
    times = np.array(check_map(prompt, head, Look(), 6)["times_uniform"], float)
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
    one = make_row(prompt, head, row, top=5)
    value = check(lambda paper: row_lines(one, Look(), paper), one.as_answer())
    order = np.argsort(-truth[row], kind="stable")[:5]
    wanted = truth[row][order]
    found = np.array([one["weight"] for one in value["top"]])
    np.testing.assert_allclose(found, wanted[wanted > 0], rtol=2e-3)
    assert value["visible"] == np.count_nonzero(truth[row])


@EVERY_KIND
def test_regions(kind):
    _, prompt, head, truth = made(kind)
    rows = range(head.recorded.start, head.recorded.stop - 1)
    one = make_region(prompt, head, rows=rows, keys=range(3, 20))
    value = check(lambda paper: region_lines(one, Look(), paper), one.as_answer())
    found = np.array(value["weights"], float)
    wanted = truth[rows.start : rows.stop, 3:20]
    np.testing.assert_array_equal(np.isnan(found), wanted == 0)
    np.testing.assert_allclose(np.nan_to_num(found), wanted, rtol=2e-3, atol=2e-6)


@EVERY_KIND
def test_distances_add_up(kind):
    _, prompt, head, truth = made(kind)
    page = HeadView(prompt, head)
    rows = slice(head.recorded.start, head.recorded.stop)
    assert page.distances.values.sum() == pytest.approx(truth[rows].sum(1).mean(), rel=2e-3)
    assert page.received.values.sum() == pytest.approx(truth[rows].sum(1).mean(), rel=2e-3)
