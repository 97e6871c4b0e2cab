"""Every kernel, run by Triton's interpreter on the CPU, against the definition."""

from __future__ import annotations

from pathlib import Path

import pytest

import warm

SCRIPT = Path(__file__).with_name("interpreted.py")


CHECKS = """statistics half double later infinite stranger squares keys gradients brought pruned
tied listed decoded paged few few_more mapped""".split()


@pytest.mark.parametrize("check", CHECKS)
def test_interpreted(check: str) -> None:
    run = warm.run(SCRIPT, check, interpret=True)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-2000:]}"


SAME_BITS = """
from dataclasses import replace
import torch
import regard
from engine.backends.gpu.hasten import as_it_was, hasten
from regard.testing import CASES

hasten()
case = next(c for c in CASES if c.name == "cap, alibi, sink, causal")
case = replace(case, batch=(1,), heads=2, key_heads=1, queries=20, keys=20)
for dtype in (torch.bfloat16, torch.float32, torch.float64):
    given = case.inputs(dtype)
    leaves = [t.requires_grad_() for t in (given.query, given.key, given.value)]

    def answers():
        a = regard.attend(*leaves, implementation="triton", **given.options)
        found = [a.output, a.lse, a.entropy(), a.received(), a.pooled(8), *a.top(3)]
        return found + list(torch.autograd.grad(a.output.sum() + a.entropy().sum(), leaves))

    mine = answers()
    with as_it_was():
        right = answers()
    for one, other in zip(mine, right, strict=True):
        assert torch.equal(one, other), dtype
print("same")
"""


def test_a_hastened_interpreter_has_the_same_bits() -> None:
    run = warm.run(SAME_BITS, interpret=True)
    assert run.stdout == "same\n", run.stderr[-2000:]


FIXED_ORDER = """
import numpy as np
import torch
import regard
from engine.backends.gpu.products import product

dice = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    a, b = dice.normal(size=(48, 64)).astype(dtype), dice.normal(size=(64, 40)).astype(dtype)
    whole = product(a, b, dtype)
    assert np.allclose(whole, a @ b, atol=1e-4)
    assert (product(b.T, a.T, dtype).T == whole).all()
    for rows, cols in ((1, 1), (16, 32), (33, 40), (48, 7)):
        assert (product(a[:rows], np.asfortranarray(b[:, :cols]), dtype)
                == whole[:rows, :cols]).all(), (rows, cols)

def by_the_processor(*args, **options):
    raise AssertionError("the order of sums is left to numpy's BLAS")

right, np.matmul = np.matmul, by_the_processor
x = torch.randn(1, 1, 5, 16)
a = regard.attend(x, x, x, mask=regard.Causal(), implementation="triton")
a.T @ x
np.matmul = right
print("fixed")
"""


def test_the_order_of_sums_is_left_to_no_processor() -> None:
    """A product has the same bits whatever its tile is a part of."""
    run = warm.run(FIXED_ORDER, interpret=True)
    assert run.stdout == "fixed\n", run.stderr[-2000:]
