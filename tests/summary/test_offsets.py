"""Sums of diagonals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.errors import GradientError
from regard.summary import Offsets, Received


def attended(queries: int = 150, keys: int = 330, heads: int = 3) -> regard.Attention:
    dice = torch.Generator().manual_seed(0)
    q = torch.randn(heads, queries, 8, generator=dice)
    k, v = (torch.randn(heads, keys, 8, generator=dice) for _ in range(2))
    return regard.attend(q, k, v, mask=regard.Causal())


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (70, 70), (150, 330), (330, 150)])
def test_each_entry_is_a_diagonal(sizes: tuple[int, int]) -> None:
    a = attended(*sizes)
    sums, w = a.summarize(Offsets())[Offsets()].numpy(), a.dense().numpy()
    assert sums.shape == (3, sum(sizes) - 1)
    for e in range(sums.shape[-1]):
        trace = np.trace(w, offset=e - (sizes[0] - 1), axis1=1, axis2=2)
        np.testing.assert_allclose(sums[:, e], trace, atol=1e-5)


def test_one_sweep_serves_mass_and_diagonals() -> None:
    a = attended()
    both = a.summarize(Received(), Offsets())
    assert torch.equal(both[Received()], attended().received())
    assert torch.equal(both[Offsets()], attended().summarize(Offsets())[Offsets()])


def test_the_number_of_threads_changes_no_bit() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = attended(heads=1).summarize(Offsets())[Offsets()]
        torch.set_num_threads(3)
        assert torch.equal(attended(heads=1).summarize(Offsets())[Offsets()], one)
    finally:
        torch.set_num_threads(before)


def test_alone_as_in_a_batch() -> None:
    q, k = torch.randn(4, 2, 90, 8), torch.randn(4, 2, 90, 8)
    together = regard.replay(q, k).summarize(Offsets())[Offsets()]
    alone = regard.replay(q[2], k[2]).summarize(Offsets())[Offsets()]
    assert torch.equal(together[2], alone)


def test_no_gradient_is_said() -> None:
    q = torch.randn(2, 6, 4, requires_grad=True)
    sums = regard.attend(q, q, q).summarize(Offsets())[Offsets()]
    with pytest.raises(GradientError, match="Offsets"):
        sums.sum().backward()
