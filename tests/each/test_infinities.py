"""±∞ in q and k: every implementation gives what torch.softmax makes of the scores."""

from __future__ import annotations

import itertools

import pytest
import torch

import regard
from each.conftest import DEVICE, IMPLEMENTATIONS, attend, must_serve
from regard.mask import Causal, Mask, Window
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


WIDE = {torch.float32: (16, 1e-4, 1e-5), torch.bfloat16: (64, 2e-2, 2e-2)}  # head dim, tolerances
# in half precision torch's own kernel passes some of these by
SERVING = [
    (dtype, name)
    for dtype, name in itertools.product(WIDE, IMPLEMENTATIONS)
    if name != "library" or dtype == torch.float32
]


def planted(plant: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    head_dim = WIDE[dtype][0]  # real heads are what kernels of half precision take
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 70, head_dim, generator=dice) for _ in range(3))
    for which, at, dim, sign in PLANTS[plant]:
        (q, k)[which][0, 1, at, dim] = sign * torch.inf
    return q.to(DEVICE, dtype), k.to(DEVICE, dtype), v.to(DEVICE, dtype)


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


@pytest.mark.parametrize(("dtype", "implementation"), SERVING, indirect=["implementation"])
@pytest.mark.parametrize(("plant", "mask"), list(itertools.product(PLANTS, MASKS)))
def test_every_implementation_agrees(
    plant: str, mask: str, dtype: torch.dtype, implementation: str
) -> None:
    q, k, v = planted(plant, dtype)
    inputs = Inputs(q, k, v, {} if mask == "full" else {"mask": MASKS[mask]})
    must_serve(implementation, inputs)
    right = regard.attend(q, k, v, mask=MASKS[mask], implementation="dense")
    a = attend(inputs, implementation)
    _, rtol, atol = WIDE[dtype]
    close = {"equal_nan": True, "rtol": rtol, "atol": atol}
    torch.testing.assert_close(a.output, right.output, **close)
    if implementation == "library":  # torch's own lse of a row that is NaN is +∞ or NaN
        not_finite = a.lse.isnan() | (a.lse == torch.inf)
        assert torch.equal(not_finite, right.lse.isnan())
    else:
        torch.testing.assert_close(a.lse, right.lse, **close)
    torch.testing.assert_close(a.dense(), right.dense(), **close)
    found, wanted = (one.entropy() for one in (a, right))
    if implementation not in ("tiled", "library") and not implementation.startswith("cpu"):
        # kernels for GPUs: NaN, too, beside a score of −∞
        nothing = (q.float() @ k.float().mT == -torch.inf) & visible(MASKS[mask])
        found, wanted = found[~nothing.any(-1)], wanted[~nothing.any(-1)]
    torch.testing.assert_close(found, wanted, **close)
    found, wanted = (one.received() for one in (a, right))
    broken = right.lse.isnan()[..., None] & visible(MASKS[mask])  # (…, queries, keys)
    assert found[broken.any(-2)].isnan().all()
    fine = ~wanted.isnan()  # keys beside a broken row are NaN or not: their tile may be passed by
    torch.testing.assert_close(found[fine], wanted[fine], **close)
