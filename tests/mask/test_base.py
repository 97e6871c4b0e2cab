"""Extents, alignments and verdicts as such."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.mask import Extent, Verdict
from regard.mask.base import check_align, length_verdict, meet, real_verdict


def test_an_extent_knows_the_matrix_that_is_never_built():
    assert Extent(2, 3).full == (1, 2, 3)
    assert Extent(2, 3, (4, 5), heads=6).full == (4, 5, 6, 2, 3)
    assert Extent(2, 3) == Extent(2, 3, (), 1)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 9), (9, 1), (4, 7)])
def test_the_last_query_stands_at_the_last_key(queries, keys):
    extent = Extent(queries, keys)
    assert queries - 1 + extent.shift("end") == keys - 1
    assert extent.shift("start") == 0


def test_check_align():
    check_align("start")
    check_align("end")
    with pytest.raises(InputError, match="align='left'; give 'end'"):
        check_align("left")


def test_both_is_the_overlap():
    for a, b in itertools.product(Verdict, Verdict):
        if Verdict.NONE in (a, b):
            assert meet(a, b) is Verdict.NONE
        elif a is b is Verdict.ALL:
            assert meet(a, b) is Verdict.ALL
        else:
            assert meet(a, b) is Verdict.SOME


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_lengths_decide_exactly(convert):
    for lengths in ([0], [3], [2, 5], [5, 0], [4, 4]):
        flags = np.arange(5) < np.array(lengths)[:, None]
        for start, stop in itertools.combinations(range(6), 2):
            tile = flags[:, start:stop]
            exact = Verdict.ALL if tile.all() else Verdict.SOME if tile.any() else Verdict.NONE
            span = range(start, stop)
            assert length_verdict(convert(lengths), span) is exact
            assert real_verdict(convert(lengths), span) is exact
            assert real_verdict(convert(flags), span) is exact


def test_nothing_is_seen_in_an_empty_span_or_batch():
    assert length_verdict(np.array([3]), range(2, 2)) is Verdict.NONE
    assert length_verdict(np.zeros(0, int), range(2)) is Verdict.NONE
