"""Masks and score rules as a recording writes them."""

from __future__ import annotations

import numpy as np
import torch

import regard
from regard.declare import decode
from regard.mask import Extent, Mask
from regard.recorder.layer_writer import follows, rules_for
from regard.recording.schema import UNKNOWN
from regard.score import BiasTable, ScoreRule

EXTENT = Extent(4, 6, (2,), 3)


def test_one_entry_in_numpy_reads_back() -> None:
    ids = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 1, 1]])
    mask = regard.Causal() & regard.Documents(ids[:, 2:], ids)
    found = rules_for(mask.select((1,)), ScoreRule(0.5, 30.0, None, torch.ones(3)), EXTENT)
    assert all(isinstance(array, np.ndarray) for array in found.arrays)
    again = decode(found.mask, iter(found.arrays[:2]), Mask)
    i, j = np.arange(4), np.arange(6)
    truth = mask.allows(torch.arange(4), torch.arange(6), EXTENT)[1, 0]
    np.testing.assert_array_equal(np.squeeze(again.allows(i, j, EXTENT)), truth.numpy())
    rule = decode(found.score, iter(found.arrays[2:]), ScoreRule)
    assert (rule.scale, rule.softcap, rule.sink.tolist()) == (0.5, 30.0, [1, 1, 1])


def test_a_function_is_spelt_out_where_that_is_small() -> None:
    mask = regard.Causal() & regard.Rule(lambda i, j: (i + j) % 2 == 0)
    found = rules_for(mask, ScoreRule(1.0), Extent(4, 6))
    assert found.why_not == ""
    table = decode(found.mask, iter(found.arrays), Mask)
    seen = np.squeeze(table.allows(np.arange(4), np.arange(6), Extent(4, 6)))
    assert seen[3].tolist() == [False, True, False, True, False, True]


def test_a_large_function_or_table_is_why_not() -> None:
    runs = regard.Rule(lambda i, j: i >= j)
    found = rules_for(runs, ScoreRule(1.0), Extent(20_000, 20_000))
    assert found.why_not == "" and [len(one) for one in found.arrays] == [20_000, 20_000]
    scattered = regard.Rule(lambda i, j: (i + j) % 2 == 0)
    found = rules_for(scattered, ScoreRule(1.0), Extent(20_000, 20_000))
    assert "function" in found.why_not and found.mask == UNKNOWN and found.arrays == ()
    large = BiasTable(torch.zeros(1, 1).expand(6000, 6000))
    found = rules_for(None, ScoreRule(1.0, None, large), Extent(6000, 6000))
    assert "bias" in found.why_not


def test_what_goes_on_from_row_to_row() -> None:
    assert follows(regard.Causal(), 7)
    assert follows(regard.Causal() & regard.Window(5), 7)
    assert follows(None, 1)
    assert not follows(None, 2)
    assert not follows(regard.Causal("start"), 7)
    assert not follows(regard.Window(5, 5), 7)
