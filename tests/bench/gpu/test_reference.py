"""What is right is right: the reference against the definition, in pieces and whole."""

from __future__ import annotations

import pytest
import torch

import regard
from bench.gpu import reference
from bench.gpu.reference import expect, gradients, truth
from bench.gpu.size import Size
from regard.bench.results import WrongResultError

SIZES = (
    Size(8, 2, 2, 40, False),
    Size(8, 1, 3, 41, True),
    Size(8, 2, 4, 30, False, key_heads=2, decoding=True),
    Size(4, 1, 1, 1030, True),
)


@pytest.fixture(params=[2**28, 8 * 41 * 7], ids=["whole", "in pieces"])
def pieces(request, monkeypatch):
    monkeypatch.setattr(reference, "_BYTES", request.param)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_number_is_the_definitions(size: Size, pieces: None) -> None:
    q, k, v = (t.double() for t in size.inputs("cpu"))
    found = truth(size, q, k, v)
    a = regard.attend(q, k, v, mask=size.mask, implementation="dense")
    near = torch.testing.assert_close
    near(found.output, a.output[-1, -1])
    near(found.lse, a.lse[-1, -1])
    near(found.entropy, a.entropy()[-1, -1])
    near(found.max_score, a.max_score()[-1, -1])
    near(found.top, a.top(8).weights[-1, -1])
    near(found.received, a.received()[-1, -1])
    near(found.received_last, a.received(queries=64)[-1, -1])
    near(found.pooled, a.pooled()[-1, -1])


@pytest.mark.parametrize("with_entropy", [False, True])
@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_gradients_are_the_definitions(size: Size, with_entropy: bool, pieces: None) -> None:
    leaves = [t.double().requires_grad_() for t in size.inputs("cpu")]
    outer = torch.randn(leaves[0].shape, dtype=torch.float64)
    a = regard.attend(*leaves, mask=size.mask, implementation="dense")
    loss = (a.output * outer).sum() + (a.entropy().sum() if with_entropy else 0)
    right = torch.autograd.grad(loss, leaves)
    for mine, exact in zip(gradients(size, leaves, outer, with_entropy), right, strict=True):
        torch.testing.assert_close(mine, exact[-1, -1])
    assert all(leaf.grad is None for leaf in leaves)


@pytest.mark.parametrize("wrong", [1.1, torch.nan, torch.inf])
def test_what_is_off_is_named(wrong: float) -> None:
    right = torch.ones(3, dtype=torch.float64)
    expect(right.float(), right, 1e-3, "output of nobody")
    with pytest.raises(WrongResultError, match=r"output of nobody is off by .*no time is reported"):
        expect(torch.tensor([1.0, wrong, 1.0]), right, 1e-3, "output of nobody")


def test_small_numbers_are_looked_at_too() -> None:
    """A lost key among thousands changes weights by less than a thousandth of 1."""
    right = torch.full((4, 8), 1e-3, dtype=torch.float64)
    lost = right.clone()
    lost[2, 7] = 9e-4
    expect(right, right, 1e-3, "top weights")
    with pytest.raises(WrongResultError):
        expect(lost, right, 1e-3, "top weights")
    nothing = torch.zeros(3, dtype=torch.float64)
    expect(nothing, nothing, 1e-3, "gradient of nothing")
