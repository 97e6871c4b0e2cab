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
from regard.axes import Grid

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
# The same of heads that look at patches, whose sink is the class token.
PATCH_KINDS: dict[str, tuple[set[str], set[str]]] = {
    "near-1": ({"near-1"}, set()),
    "near-2": ({"near-2"}, set()),
    "same-row": ({"same-row"}, set()),
    "same-column": ({"same-column"}, set()),
    "self": ({"self"}, {"self"}),
    "border": ({"border"}, set()),
    "register": ({"register"}, set()),
    "sink-patch": ({"sink-patch"}, {"sink-patch"}),
    "object": ({"object"}, {"object"}),
    "uniform": ({"uniform"}, set()),
    "sharp": ({"sharp"}, set()),
}
FRAME_KINDS: dict[str, tuple[set[str], set[str]]] = {
    "previous-frame": ({"previous-frame"}, {"previous-frame"}),
    "next-frame": ({"next-frame"}, {"next-frame"}),
}


def expected(kind: str, sink: float) -> set[str]:
    """The labels that should be given: none but the sink's where little is left beside it."""
    return _expected(KINDS[kind], sink, "sink")


def expected_of_patches(kind: str, sink: float) -> set[str]:
    """The same of patches."""
    return _expected((PATCH_KINDS | FRAME_KINDS)[kind], sink, "register")


def _expected(labels: tuple[set[str], set[str]], sink: float, name: str) -> set[str]:
    alone, halved = labels
    if sink == 0:
        return alone
    return {name} | (halved if sink <= 0.5 else set())


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


def patch_targets(grid: Grid, seed: int = 0) -> dict[str, np.ndarray]:
    """(N, N) by kind: the keys that each position of a grid should look at, booleans. An object of
    4 × 5 patches, whose middle gets most, lies where the seed says."""
    dice, n = np.random.default_rng(seed), grid.count
    is_patch = np.arange(n) >= grid.prefix
    frame, row, column = np.pad(grid.places, ((grid.prefix, 0), (0, 0)), constant_values=-9).T
    both = is_patch[:, None] & is_patch
    down, right = (np.abs(one[:, None] - one) for one in (row, column))
    step = frame - frame[:, None]  # (query, key)
    same, here = both & (step == 0), (down == 0) & (right == 0)
    away = np.maximum(down, right)
    rim = (row == 0) | (column == 0) | (row == grid.height - 1) | (column == grid.width - 1)
    top, left = dice.integers(1, grid.height - 4), dice.integers(1, grid.width - 5)
    thing = np.exp(-(((row - top - 1.5) / 2) ** 2) - ((column - left - 2) / 2.5) ** 2)
    thing *= (row >= top) & (row < top + 4) & (column >= left) & (column < left + 5)
    alone = np.zeros(n, bool)
    alone[[grid.at(0, *cell) for cell in ((2, 3), (grid.height - 3, 2), (4, grid.width - 2))]] = (
        True
    )
    keys = {"border": is_patch & rim, "register": ~is_patch, "sink-patch": alone, "object": thing}
    return {
        "near-1": same & (away == 1),
        "near-2": same & (away > 0) & (away <= 2),
        "same-row": same & (down == 0) & (right > 0),
        "same-column": same & (right == 0) & (down > 0),
        "self": np.eye(n, dtype=bool),
        "previous-frame": both & here & (step == -1),
        "next-frame": both & here & (step == 1),
        **{kind: np.broadcast_to(marks, (n, n)) for kind, marks in keys.items()},
        "uniform": np.ones((n, n), bool),
        "sharp": np.arange(n) == dice.integers(grid.prefix, n, n)[:, None],
    }


def mixed(
    target: np.ndarray,
    sink: float = 0.0,
    strength: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
    *,
    sees: np.ndarray | None = None,
) -> np.ndarray:
    """(N, N) weights: `sink` on key 0, of the rest `strength` on the target and what is left spread
    evenly; every weight but the sink's is then disturbed. Rows without a target are even. Rows see
    what comes before them, where `sees` does not say otherwise."""
    dice = np.random.default_rng(seed)
    sees = causal(len(target)) if sees is None else sees
    even = sees / sees.sum(-1, keepdims=True)
    aims = np.where(sees, target, 0.0)
    total = aims.sum(-1, keepdims=True)
    aimed = np.where(total > 0, aims / np.where(total > 0, total, 1), even)
    p = strength * aimed + (1 - strength) * even
    p = p * np.exp(noise * dice.standard_normal(p.shape))
    p = (1 - sink) * p / p.sum(-1, keepdims=True)
    p[:, 0] += sink
    return p


class Planted(nn.Module):
    """A model whose layers have given weights, (layers, heads, N, N)."""

    mask: regard.Mask | None = regard.Causal()

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


class PlantedPatches(Planted):
    """The same over patches, which all see one another."""

    mask = None

    def forward(self, pixels: Tensor) -> Tensor:
        """Of (1, N, 1)."""
        return super().forward(pixels)


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
        return regard.attend(q, k, v, mask=self.model.mask, scale=1.0).output


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


def record_patches(
    weights: np.ndarray, grid: Grid, path: Any = None, *, values: Any = None, **options: Any
) -> Any:
    """(layers, heads, N, N) weights over the positions of a grid, recorded."""
    model = PlantedPatches(weights, values)
    with torch.no_grad(), regard.record(model, path, axes=grid, **options) as recording:
        model(torch.zeros(1, grid.count, 1))
    return recording
