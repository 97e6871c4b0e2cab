"""What rows may see, as intervals, against masks looked at cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.mask.kinds import Table
from regard.recording import Recording
from regard.recording.visibility import visible_spans
from regard.score import BiasTable, ScoreRule
from support.recordings import Chunk, write_recording

MASKS = {
    "none": None,
    "causal": regard.Causal(),
    "window": regard.Window(7),
    "both ways": regard.Window(5, 3),
    "documents": regard.Documents(torch.arange(60) // 20) & regard.Causal(),
}


def reach(chunks: list[Chunk], **options: Any) -> tuple[Any, np.ndarray]:
    store, made = write_recording(chunks=chunks, **options)
    view = Recording(store).prompts[0]
    return visible_spans(view.held("L0"), 1), made.truth.exact.visible.numpy()[1]


@pytest.mark.parametrize("name", MASKS)
def test_intervals_are_the_mask(name: str) -> None:
    found, sees = reach([Chunk((0, 60), (0, 60), MASKS[name])])
    keys = np.arange(60)
    np.testing.assert_array_equal((keys >= found.low[:, None]) & (keys < found.high[:, None]), sees)
    np.testing.assert_array_equal(found.visible, sees.sum(-1))
    marks = np.random.default_rng(0).random(60) < 0.3
    np.testing.assert_array_equal(found.among(marks), (sees & marks).sum(-1))
    np.testing.assert_array_equal(found.within(10, 30), sees[:, 10:30].sum(-1))


def test_parts_with_masks_of_their_own_and_rows_that_were_not_recorded() -> None:
    chunks = [
        Chunk((0, 40), (0, 40), regard.Causal()),
        Chunk((40, 60), (8, 60), regard.Window(9)),
    ]
    found, sees = reach(chunks, rows=(24, 60))
    assert found.rows.tolist() == list(range(24, 60))
    np.testing.assert_array_equal(found.visible, sees[24:].sum(-1))
    np.testing.assert_array_equal(found.low, sees[24:].argmax(-1))


def test_what_is_not_made_of_intervals_is_not_known() -> None:
    table = Table(torch.rand(60, 60) < 0.5)
    assert reach([Chunk((0, 60), (0, 60), table)])[0] is None
    bias = torch.zeros(60, 60)
    bias[:, 3] = -torch.inf
    hiding = ScoreRule(0.25, bias=BiasTable(bias))
    assert reach([Chunk((0, 60), (0, 60), None, hiding)])[0] is None
