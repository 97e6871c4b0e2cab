"""What is right about a problem: its last head in double precision, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.gpu.size import Size
from regard.bench.results import WrongResultError

_TOP = 8
_LAST = 64
_CELLS = 512  # a side of the map
_BYTES = 2**28  # of one table of scores


@dataclass(frozen=True)
class Truth:
    """Of the last head of the last sequence: (L, …) or (S,), in double precision."""

    output: Tensor
    lse: Tensor
    entropy: Tensor
    max_score: Tensor
    top: Tensor  # (L, 8) weights
    received: Tensor
    received_last: Tensor  # from the last 64 queries
    largest: Tensor  # weight that each key received
    pooled: Tensor  # mean weights of cells, at most 512 a side


def truth(size: Size, q: Tensor, k: Tensor, v: Tensor) -> Truth:
    """Every row of one head."""
    query, key, value = (t[-1, -1].double() for t in (q, k, v))
    received, last, largest = (
        torch.zeros(size.tokens, dtype=torch.float64, device=q.device) for _ in range(3)
    )
    cell = -(-max(size.queries, size.tokens) // _CELLS)
    parts: list[tuple[Tensor, ...]] = []
    for rows in _chunks(size):
        scores = _scores(size, query[rows], key, rows)
        weights = scores.softmax(-1)
        received += weights.sum(0)
        largest = torch.maximum(largest, weights.amax(0))
        last += weights[max(0, size.queries - _LAST - rows.start) :].sum(0)
        best = weights.topk(min(_TOP, size.tokens), -1).values
        lse, entropy = scores.logsumexp(-1), _entropy(scores, weights)
        across = _means(weights, cell)
        parts.append((weights @ value, lse, entropy, scores.amax(-1), best, across))
    output, lse, entropy, most, best, strips = (
        torch.cat(part) for part in zip(*parts, strict=True)
    )
    pooled = _means(strips.mT, cell).mT
    return Truth(output, lse, entropy, most, best, received, last, largest, pooled)


def _means(table: Tensor, cell: int) -> Tensor:
    """(rows, n) → (rows, ⌈n/cell⌉), a ragged last cell by its own width."""
    return torch.stack([part.mean(-1) for part in torch.split(table, cell, -1)], -1)


def gradients(
    size: Size, given: list[Tensor], outer: Tensor, with_entropy: bool
) -> tuple[Tensor, ...]:
    """Of q, k and v of that head, by autograd, for Σ output·outer (and Σ entropy)."""
    query, key, value = (t[-1, -1].detach().double() for t in given)
    shared = [t.requires_grad_() for t in (key, value)]
    into: list[Tensor] = [torch.zeros_like(t) for t in (query, key, value)]
    for rows in _chunks(size):
        mine = query[rows].clone().requires_grad_()
        scores = _scores(size, mine, key, rows)
        weights = scores.softmax(-1)
        loss = (weights @ value * outer[-1, -1, rows].double()).sum()
        if with_entropy:
            loss = loss + _entropy(scores, weights).sum()
        found = torch.autograd.grad(loss, [mine, *shared])
        into[0][rows] = found[0]
        into[1] += found[1]
        into[2] += found[2]
    return tuple(into)


def expect(found: Tensor, right: Tensor, allowed: float, what: str) -> None:
    """WrongResultError where the largest difference is above what is allowed, as a share of the
    largest right number. Weights of thousands of keys are small: next to 1 none would matter."""
    largest = float(right.abs().max())
    gap = float((found.double() - right).abs().max()) / (largest or 1.0)
    if not gap < allowed:
        raise WrongResultError(f"{what} is off by {gap:.2g}; no time is reported for it")


def _chunks(size: Size) -> Iterator[slice]:
    step = max(_BYTES // (8 * size.tokens), 1)
    for start in range(0, size.queries, step):
        yield slice(start, min(start + step, size.queries))


def _scores(size: Size, query: Tensor, key: Tensor, rows: slice) -> Tensor:
    scores = query @ key.mT * size.dim**-0.5
    if not size.causal:
        return scores
    i = torch.arange(rows.start, rows.stop, device=query.device) + size.tokens - size.queries
    hidden = torch.arange(size.tokens, device=query.device) > i[:, None]
    return scores.masked_fill(hidden, -torch.inf)


def _entropy(scores: Tensor, weights: Tensor) -> Tensor:
    """lse − Σ p·s: what cancels there does no harm in double precision."""
    seen = scores.masked_fill(scores == -torch.inf, 0.0)
    return scores.logsumexp(-1) - (weights * seen).sum(-1)
