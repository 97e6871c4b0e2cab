"""±∞ in q and k: every implementation gives what torch.softmax makes of the scores."""

from __future__ import annotations

import itertools

import pytest
import torch

import regard
from each.conftest import DEVICE, attend, serves
from regard.mask import Causal, Mask, Window
from regard.summary import Entropy, Received
from regard.testing import Inputs

MASKS: dict[str, Mask | None] = {"full": None, "causal": Causal(), "window": Window(3)}
# (which tensor, position, dimension, value), of queries and keys of 70
PLANTS = {
    "+∞ in a query": [(0, 40, 2, 1)],
    "−∞ in a query": [(0, 40, 2, -1)],
    "+∞ in a key": [(1, 33, 5, 1)],
    "−∞ in a key": [(1, 33, 5, -1)],
    "∞ − ∞": [(0, 40, 2, 1), (0, 40, 3, -1)],
    "∞ in query and key": [(0, 40, 2, 1), (1, 7, 2, 1), (1, 69, 2, -1)],
    "the first and the last": [(1, 0, 1, 1), (1, 69, 1, -1), (0, 0, 0, -1)],
}


def planted(plant: str, head_dim: int = 16) -> tuple[torch.Tensor, ...]:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 70, head_dim, generator=dice) for _ in range(3))
    for which, at, dim, sign in PLANTS[plant]:
        (q, k)[which][0, 1, at, dim] = sign * torch.inf
    return q.to(DEVICE), k.to(DEVICE), v.to(DEVICE)


def visible(mask: Mask | None) -> torch.Tensor:
    i = torch.arange(70)
    table = torch.ones(70, 70, dtype=torch.bool)
    if isinstance(mask, Causal):
        table = i[:, None] >= i
    if isinstance(mask, Window):
        table = (i[:, None] >= i) & (i[:, None] - i <= 3)
    return table.to(DEVICE)


def by_softmax(q: torch.Tensor, k: torch.Tensor, mask: Mask | None) -> torch.Tensor:
    """(…, 70, 70): weights, written down by hand."""
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible(mask), -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


@pytest.mark.parametrize(("plant", "mask"), list(itertools.product(PLANTS, MASKS)))
def test_the_definition_is_torchs_softmax(plant: str, mask: str) -> None:
    q, k, v = planted(plant)
    a = regard.attend(q, k, v, mask=MASKS[mask], implementation="dense")
    right = by_softmax(q, k, MASKS[mask])
    close = {"equal_nan": True, "rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(a.dense(), right, **close)
    torch.testing.assert_close(a.output, right @ v, **close)
    assert torch.equal(a.lse.isnan(), right.isnan().any(-1))
    assert torch.equal(a.lse == -torch.inf, (right == 0).all(-1))
    others = [n for n in range(4) if n != 1]  # entries and heads without an infinity
    assert a.output.flatten(0, 1)[others].isfinite().all()


@pytest.mark.parametrize(("plant", "mask"), list(itertools.product(PLANTS, MASKS)))
def test_every_implementation_agrees(plant: str, mask: str, implementation: str) -> None:
    q, k, v = planted(plant)
    inputs = Inputs(q, k, v, {} if mask == "full" else {"mask": MASKS[mask]})
    if not serves(implementation, inputs):
        return
    right = regard.attend(q, k, v, mask=MASKS[mask], implementation="dense")
    a = attend(inputs, implementation)
    close = {"equal_nan": True, "rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(a.output, right.output, **close)
    if implementation == "library":  # torch's own lse of a row that is NaN is +∞ or NaN
        not_finite = a.lse.isnan() | (a.lse == torch.inf)
        assert torch.equal(not_finite, right.lse.isnan())
    else:
        torch.testing.assert_close(a.lse, right.lse, **close)
    torch.testing.assert_close(a.dense(), right.dense(), **close)
    for summary in (Entropy(), Received()):
        found, wanted = (one.summarize(summary)[summary] for one in (a, right))
        fine = ~wanted.isnan()
        assert torch.equal(found.isnan(), ~fine), summary
        torch.testing.assert_close(found[fine], wanted[fine], **close)
