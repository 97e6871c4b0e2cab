"""The interpreter that the tests use is Triton's, and sees what it is to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

import regard
from engine.backends.gpu.hasten import as_it_was, hasten
from engine.backends.gpu.interpreter import product, within_bounds
from engine.backends.gpu.paths import named

pytestmark = pytest.mark.kernels("interpret")


def test_a_hastened_interpreter_has_the_same_bits() -> None:
    hasten()
    case = replace(
        named("cap, alibi, sink, causal"), batch=(1,), heads=2, key_heads=1, queries=20, keys=20
    )
    for dtype in (torch.bfloat16, torch.float64):
        given = case.inputs(dtype)
        leaves = [t.requires_grad_() for t in (given.query, given.key, given.value)]

        def answers(given: Any = given, leaves: Any = leaves) -> list[Tensor]:
            a = regard.attend(*leaves, implementation="triton", **given.options)
            asked = [a.output, a.lse, a.entropy(), a.received(), a.pooled(8), *a.top(3)]
            loss = a.output.sum() + a.entropy().sum()
            return asked + list(torch.autograd.grad(loss, leaves))

        mine = answers()
        with as_it_was():
            right = answers()
        assert all(torch.equal(a, b) for a, b in zip(mine, right, strict=True)), dtype


def test_a_product_has_the_same_bits_whatever_its_tile_is_a_part_of() -> None:
    dice = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        a, b = dice.normal(size=(48, 64)).astype(dtype), dice.normal(size=(64, 40)).astype(dtype)
        whole = product(a, b, dtype)
        assert np.allclose(whole, a @ b, atol=1e-4)
        assert (whole == product(b.T, a.T, dtype).T).all()
        for rows, cols in ((1, 1), (16, 32), (33, 40), (48, 7)):
            part = product(a[:rows], np.asfortranarray(b[:, :cols]), dtype)
            assert (part == whole[:rows, :cols]).all(), (rows, cols)
    x = torch.randn(1, 1, 5, 16)
    with patch.object(np, "matmul", side_effect=AssertionError("numpy's BLAS orders the sums")):
        a = regard.attend(x, x, x, mask=regard.Causal(), implementation="triton")
        assert (a.T @ x).shape == x.shape


@triton.jit
def copy(source, target, count, N: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, N)
    tl.store(target + i, tl.load(source + i, mask=i < count), mask=i < count)


def test_a_kernel_that_reads_behind_a_tensor_is_stopped() -> None:
    whole = torch.arange(9.0)
    source, target = whole[2:6], torch.zeros(4)
    with within_bounds():
        copy[(1,)](source, target, 4, N=8)
        assert torch.equal(target, source)
        for count, given in ((5, source), (4, source[:3])):
            with pytest.raises(Exception, match="outside its tensors"):
                copy[(1,)](given, torch.zeros(8), count, N=8)
    copy[(1,)](source, torch.zeros(8), 5, N=8)
