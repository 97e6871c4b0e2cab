"""Mass from a few queries side by side is that of their own attention; no other row is swept."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch

import regard

QUERIES, KEYS = 400, 420
MASKS: dict[str, Any] = {
    "none": None,
    "causal": regard.Causal(),
    "start": regard.Causal("start"),
    "window": regard.Window(30, 5),
    "padding": regard.Padding(torch.tensor([420, 100])),
    "either": regard.Causal() | regard.Prefix(30),
    "rule": regard.Rule(lambda i, j: (i + j) % 3 > 0),
}
PARTS = (64, slice(10, 50), slice(-90, -20), range(100, 120), slice(7, 7))


def problem(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(seed)
    query = torch.randn(2, 4, QUERIES, 16, generator=dice, dtype=torch.float64)
    return query, torch.randn(2, 2, KEYS, 16, generator=dice, dtype=torch.float64)


def attended(mask: str, implementation: str | None) -> regard.Attention:
    query, key = problem()
    bias = regard.ALiBi(torch.tensor([0.5, 0.1, 0.02, 0.0], dtype=torch.float64))
    options = {"mask": MASKS[mask], "bias": bias, "softcap": 5.0}
    return regard.attend(query, key, key, implementation=implementation, **options)


@lru_cache(maxsize=1)
def defined(mask: str) -> dict[regard.Received, Any]:
    """What each question is answered, for all implementations."""
    right = attended(mask, "dense")
    return {
        summary: right.summarize(summary, regard.Entropy())
        for part in PARTS
        for summary in (
            regard.Received(part), regard.Received(part, "visible"),
            regard.Received(part, "sum", "mean"),
        )
    }  # fmt: skip


@pytest.mark.parametrize("implementation", ["cpu", "tiled", None])
@pytest.mark.parametrize("mask", MASKS)
def test_as_defined(mask: str, implementation: str | None) -> None:
    a = attended(mask, implementation)
    for summary, wanted in defined(mask).items():
        found = a.summarize(summary, regard.Entropy())
        assert list(found) == [summary, regard.Entropy()]
        torch.testing.assert_close(found[summary], wanted[summary])
        torch.testing.assert_close(found[regard.Entropy()], wanted[regard.Entropy()])


@pytest.mark.parametrize("part", PARTS[:4], ids=str)
def test_other_rows_are_not_looked_at(part: Any) -> None:
    query, key = problem()
    rows = torch.arange(QUERIES)[-part:] if isinstance(part, int) else torch.arange(QUERIES)[
        slice(part.start, part.stop)
    ]  # fmt: skip
    alone = torch.full_like(query, torch.nan)
    alone[:, :, rows] = query[:, :, rows]
    found = regard.attend(alone, key, key, mask=regard.Causal()).received(part)
    right = regard.attend(query, key, key, mask=regard.Causal()).received(part)
    assert found.isfinite().all() and torch.equal(found, right)


def test_one_head_without_an_axis() -> None:
    query, key = (t[0, 0] for t in problem())
    a = regard.attend(query, key, key)
    assert a.received(20).shape == (KEYS,)
    torch.testing.assert_close(a.received(20), a[-20:].sum(0))


def test_what_changed_is_refused_all_the_same() -> None:
    query, key = problem()
    a = regard.attend(query, key, key)
    a.received(20)
    key.add_(1)
    with pytest.raises(regard.errors.StaleError):
        a.received(20)


def test_what_came_with_the_call_is_not_swept_again() -> None:
    query, key = problem()
    a = regard.attend(query, key, key, summaries=(regard.Received(20),))
    assert torch.equal(a.received(20), a.received(20)) and not a._parts
    torch.testing.assert_close(a.received(20), a[..., -20:, :].sum(-2))


def test_a_gradient_is_carried_back() -> None:
    query, key = problem()
    query.requires_grad_()
    regard.attend(query, key, key).received(20)[..., 3].sum().backward()
    assert query.grad is not None and query.grad[:, :, -20:].abs().sum() > 0
    assert query.grad[:, :, :-20].abs().sum() == 0
