"""A problem counts its own work and bytes."""

from __future__ import annotations

import torch

import regard
from bench.gpu.size import Size


def test_work_and_bytes() -> None:
    full = Size(128, 1, 16, 16384, False)
    assert full.work == 4 * 16 * 16384**2 * 128
    assert Size(128, 1, 16, 16384, True).work == full.work / 2
    assert Size(128, 1, 8, 131072, True).weights == 256 * 2**30
    assert full.mask is None and Size(8, 1, 1, 4, True).mask == regard.Causal()


def test_decoding_is_one_query_over_grouped_keys() -> None:
    size = Size(16, 3, 8, 50, False, key_heads=2, decoding=True)
    q, k, v = size.inputs("cpu")
    assert q.shape == (3, 8, 1, 16) and k.shape == v.shape == (3, 2, 50, 16)
    assert q.dtype == torch.bfloat16 and size.groups == 4
    assert size.work == 4 * 3 * 8 * 50 * 16
    assert str(size) == "d16 3×8/2×50 decode"
    assert str(Size(64, 1, 2, 9, True)) == "d64 1×2×9 causal"


def test_the_same_size_draws_the_same_numbers() -> None:
    one, again = (Size(16, 1, 2, 50, True).inputs("cpu") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one[1], one[2])
