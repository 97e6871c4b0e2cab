"""Runs of keys, one for each query."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.errors import DTypeError, ShapeError
from regard.mask import Extent, Intervals, Rule, Verdict
from regard.mask.spans import runs_of

LOW, HIGH = torch.tensor([0, 2, 4, 0, 6, 3]), torch.tensor([3, 2, 7, 9, 5, 9])
EXTENT = Extent(6, 9, (2,), 4)


def seen() -> torch.Tensor:
    keys = torch.arange(9)
    return (keys >= LOW[:, None]) & (keys < HIGH[:, None])


def test_every_tile_and_every_cell() -> None:
    mask, table = Intervals(LOW, HIGH), seen()
    assert torch.equal(mask.allows(torch.arange(6), torch.arange(9), EXTENT), table)
    for top in range(6):
        for left in range(9):
            for bottom, right in ((top + 1, left + 1), (min(top + 2, 6), min(left + 3, 9))):
                part = table[top:bottom, left:right]
                said = mask.verdict(range(top, bottom), range(left, right), EXTENT)
                assert said is not Verdict.ALL or part.all()
                assert said is not Verdict.NONE or not part.any()


@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
def test_attention_under_it(implementation: str) -> None:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 8, generator=dice, dtype=torch.float64) for n in (6, 9, 9))
    found = regard.attend(q, k, v, mask=Intervals(LOW, HIGH), implementation=implementation)
    right = regard.attend(q, k, v, mask=seen(), implementation="dense")
    torch.testing.assert_close(found.output, right.output)
    torch.testing.assert_close(found.received(), right.received())


def test_runs_of_any_mask() -> None:
    def ask(mask: regard.mask.Mask) -> object:
        return runs_of(mask, EXTENT, lambda start, stop: torch.arange(start, stop))

    rule = Rule(lambda i, j: (j <= i + 3) & (j > i - 2))
    table = rule.allows(torch.arange(6), torch.arange(9), EXTENT)
    found = ask(rule)
    again = Intervals(*found).allows(np.arange(6), np.arange(9), EXTENT)
    assert np.array_equal(again, table.numpy())
    assert ask(Rule(lambda i, j: (i + j) % 2 == 0)) is None
    assert ask(Rule(lambda b, h, i, j: j <= i + h)) is None


def test_what_does_not_fit() -> None:
    with pytest.raises(DTypeError, match=r"Intervals\(low\)"):
        Intervals(torch.zeros(6), HIGH)
    with pytest.raises(ShapeError, match=r"one number per query: \(6,\)"):
        Intervals(LOW[:5], HIGH).check(EXTENT)
