"""Heads that do one thing, by construction: scores are planted, so weights are what was asked for.

Keys are the axes of a space with as many dimensions as there are tokens, and the query of row i is
its row of scores: any matrix can be a head's. They go through `regard.record` like a model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regard

_NOTHING = -40.0  # a score that leaves no weight
_DELIMITER = 1

# What each planted head has to be called, without a sink and with half of its mass on one.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "previous": ({"previous"}, {"previous"}),
    "offset": ({"offset"}, {"offset"}),
    "self": ({"self"}, {"self"}),
    "local-8": ({"local-8"}, set()),
    "duplicate-token": ({"duplicate-token"}, {"duplicate-token"}),
    "prefix-matching": ({"prefix-matching"}, {"prefix-matching"}),
    "delimiter": ({"delimiter"}, {"delimiter"}),
    "uniform": ({"uniform"}, set()),
    "sharp": ({"sharp"}, set()),
}


def expected(kind: str, sink: float) -> set[str]:
    """The labels that should be given: none but the sink's where little is left beside it."""
    alone, halved = KINDS[kind]
    if sink == 0:
        return alone
    return {"sink"} | (halved if sink <= 0.5 else set())


@dataclass(frozen=True)
class Words:
    """A tokenizer of sorts: one delimiter, one special token, words."""

    all_special_ids: tuple[int, ...] = (0,)

    def convert_ids_to_tokens(self, number: int) -> str:
        """As the vocabulary spells it."""
        return self.decode([number])

    def decode(self, ids: Sequence[int]) -> str:
        """As text."""
        return {0: "<s>", _DELIMITER: "."}.get(ids[0], f" w{ids[0]}")


def text(count: int, seed: int = 0, words: int = 60) -> np.ndarray:
    """<s>, then words of a small vocabulary, a tenth of them full stops."""
    dice = np.random.default_rng(seed)
    ids = dice.integers(2, words + 2, count)
    ids[dice.random(count) < 0.1] = _DELIMITER
    ids[0] = 0
    return ids


def causal(count: int) -> np.ndarray:
    """(N, N): who sees whom."""
    return np.tril(np.ones((count, count), bool))


def targets(ids: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """(N, N) booleans by kind: the keys that each row should look at."""
    n, dice = ids.size, np.random.default_rng(seed)
    i, j = np.arange(n)[:, None], np.arange(n)
    before = np.roll(ids, 1)
    return {
        "previous": i - j == 1,
        "offset": i - j == 5,
        "self": i == j,
        "local-8": (i - j < 8) & (i >= j),
        "local-64": (i - j < 64) & (i >= j),
        "duplicate-token": (ids[i] == ids) & (j < i),
        "prefix-matching": (ids[i] == before) & (j < i) & (j > 0),
        "delimiter": (np.broadcast_to(ids == _DELIMITER, (n, n))) & (j <= i),
        "uniform": i >= j,
        "sharp": j == (dice.random(n) * (np.arange(n) + 1)).astype(int)[:, None],
    }


def mixed(
    target: np.ndarray, sink: float = 0.0, strength: float = 1.0, noise: float = 0.0, seed: int = 0
) -> np.ndarray:
    """(N, N) weights: `sink` on key 0, of the rest `strength` on the target and what is left spread
    evenly; every weight but the sink's is then disturbed. Rows without a target are even."""
    dice, sees = np.random.default_rng(seed), causal(len(target))
    even = sees / sees.sum(-1, keepdims=True)
    aims = target & sees
    count = aims.sum(-1, keepdims=True)
    aimed = np.where(count > 0, aims / np.maximum(count, 1), even)
    p = strength * aimed + (1 - strength) * even
    p = p * np.exp(noise * dice.standard_normal(p.shape))
    p = (1 - sink) * p / p.sum(-1, keepdims=True)
    p[:, 0] += sink
    return p


class Planted(nn.Module):
    """A model whose layers have given weights, (layers, heads, N, N)."""

    def __init__(self, weights: np.ndarray, values: Any = None, raised: float = 0.0) -> None:
        super().__init__()
        logs = np.log(np.maximum(weights, np.exp(_NOTHING))) + raised  # softmax does not mind
        self.scores: Tensor = torch.tensor(logs, dtype=torch.float32)
        self.values: Tensor | None = None
        if values is not None:
            self.values = torch.tensor(values, dtype=torch.float32)
        self.layers = nn.ModuleList(_PlantedLayer(self, n) for n in range(len(weights)))

    def forward(self, input_ids: Tensor) -> Tensor:
        """The last layer's outputs."""
        out = input_ids
        for layer in self.layers:
            out = layer(input_ids)
        return out


class _PlantedLayer(nn.Module):
    model: Planted

    def __init__(self, model: Planted, number: int) -> None:
        super().__init__()
        self.number = number
        self.__dict__["model"] = model  # no child of it: a circle of modules

    def forward(self, input_ids: Tensor) -> Tensor:
        """q is the scores, k the axes."""
        scores = self.model.scores[self.number]  # (H, N, N)
        heads, n = scores.shape[:2]
        key = torch.eye(n).expand(heads, n, n)
        dice = torch.Generator().manual_seed(self.number)
        value = torch.randn(heads, n, 8, generator=dice)
        if self.model.values is not None:
            value = value * self.model.values[self.number][:, None, None]
        q, k, v = (one[None] for one in (scores, key, value))
        return regard.attend(q, k, v, mask=regard.Causal(), scale=1.0).output


def record_planted(
    weights: np.ndarray,
    ids: np.ndarray,
    path: Any = None,
    *,
    values: Any = None,
    raised: float = 0.0,
    **options: Any,
) -> Any:
    """(layers, heads, N, N) weights over a text, recorded."""
    model = Planted(weights, values, raised)
    with torch.no_grad(), regard.record(model, path, tokenizer=Words(), **options) as recording:
        model(torch.tensor(ids)[None])
    return recording
