"""Tensors as bytes and back."""

from __future__ import annotations

import torch

from regard.parallel.message import pack, size_of, unpack


def test_there_and_back() -> None:
    given = [
        torch.arange(3, dtype=torch.uint8), torch.randn(2, 3, dtype=torch.float64),
        torch.randn(0, 4), torch.randn(3, 2).bfloat16().T, torch.tensor(7),
    ]  # fmt: skip
    kinds, shapes = [t.dtype for t in given], [t.shape for t in given]
    message = pack(given)
    assert len(message) == size_of(kinds, shapes) == 3 + 48 + 12 + 8
    # three bytes in, nothing is where a float could begin
    for found, right in zip(unpack(message, kinds, shapes), given, strict=True):
        assert found.dtype == right.dtype and torch.equal(found, right)
    shifted = torch.cat([message.new_zeros(5), message])
    for found, right in zip(unpack(shifted, kinds, shapes, 5), given, strict=True):
        assert torch.equal(found, right)


def test_one_number_travels_whatever_its_stride() -> None:
    column = torch.arange(6.0).reshape(2, 3)[:1, 1:2].squeeze(-1)
    assert column.stride() == (3,) and column.is_contiguous()
    (found,) = unpack(pack([column]), [torch.float32], [(1,)])
    assert found.tolist() == [1.0]
