"""A training step being monitored, against the same step without.

plain        forward, backward and AdamW of a small language model on regard.nn, causal
monitored    the same, every step sampled: all statistics of all heads, and a table written
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

_LAYERS, _HEADS, _WIDTH, _WORDS = 4, 8, 512, 4096


class _Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList([nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)])
        self.attention = regard.nn.MultiHeadAttention(_WIDTH, _HEADS)
        wide = 4 * _WIDTH
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, wide), nn.GELU(), nn.Linear(wide, _WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before[0](x), mask=regard.Causal())
        found: Tensor = x + self.mlp(self.before[1](x))
        return found


class _Model(nn.Module):
    """Ids (B, L) → logits (B, L, words)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_WORDS, _WIDTH)
        self.blocks = nn.Sequential(*(_Block() for _ in range(_LAYERS)))
        self.head = nn.Linear(_WIDTH, _WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.head(self.blocks(self.embed(ids)))
        return found


def measure(tokens: int, seconds: float = 2.0) -> list[Result]:
    """Losses are compared before anything is timed."""
    torch.manual_seed(0)
    model = _Model()
    ids = torch.randint(_WORDS, (1, tokens + 1), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)  # the same loss every time
    with tempfile.TemporaryDirectory() as folder:
        monitor = regard.Monitor(model, log=Path(folder) / "run.csv")
        contenders = _contenders(model, ids, optimizer, monitor)
        _check(contenders, monitor)
        taken = take_turns(contenders, seconds=seconds)
        monitor.detach()
    return [_result(tokens, what, taken) for what in taken]


def _contenders(
    model: nn.Module, ids: Tensor, optimizer: torch.optim.Optimizer, monitor: regard.Monitor
) -> dict[str, Callable[[], float]]:
    def step(watched: bool) -> float:
        if watched:
            monitor.attach()
        loss = nn.functional.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:])
        loss.backward()  # type: ignore[no-untyped-call]
        if watched:
            monitor.step()
            monitor.detach()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return {"plain": lambda: step(False), "monitored": lambda: step(True)}


def _check(contenders: dict[str, Callable[[], float]], monitor: regard.Monitor) -> None:
    """The same loss to the bit, and statistics of every head."""
    plain, watched = contenders["plain"](), contenders["monitored"]()
    heads = 0 if monitor.latest is None else len(list(monitor.latest.heads()))
    if plain != watched or heads != _LAYERS * _HEADS:
        raise WrongResultError(
            f"a loss of {watched} and {heads} heads instead of {plain} and {_LAYERS * _HEADS}; no "
            "time is reported"
        )


def _result(tokens: int, what: str, taken: dict[str, Samples]) -> Result:
    return timed(
        taken[what], 1, taken[what].ratio_to(taken["plain"]), suite="monitor", what=what,
        implementation="cpu", tokens=tokens, dim=_WIDTH // _HEADS, heads=_HEADS, causal=True,
        dtype="float32", peer="plain",
    )  # fmt: skip
