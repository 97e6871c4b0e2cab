"""Heads without a pattern: q and k drawn at random, and how often such heads get a label.

    PYTHONPATH=tests python -m study.patternless

prints, for every length and mask, the share of heads with a label that says where they look, and
of heads with any label at all. `uniform` and `sharp` are no mistakes: keys drawn at random that
score alike, or far apart, are looked at evenly, or one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

import regard
from regard import study
from support.recordings.planted import Words, text

__all__ = ["LENGTHS", "MASKS", "SCALES", "SHAPES", "labels_given"]

LENGTHS: Final = (6, 10, 16, 32, 64, 128, 512)
SCALES: Final = (0.3, 1.0, 2.0, 4.0, 8.0)  # the standard deviation of a score, about
SHAPES: Final = {"uniform", "sharp", "saturated", "inactive"}
MASKS: Final[Mapping[str, regard.Mask | None]] = {
    "causal": regard.Causal(),
    "bidirectional": None,
    "window": regard.Window(left=7),
    "both sides": regard.Window(left=15, right=15),
}


class Random(nn.Module):
    """One layer whose heads have random q and k, of one dimension and several scales."""

    def __init__(self, mask: regard.Mask | None, heads: int, dim: int, seed: int) -> None:
        super().__init__()
        self.mask, self.heads, self.dim, self.seed = mask, heads, dim, seed

    def forward(self, input_ids: Tensor) -> Tensor:
        """Of every token (1, N)."""
        dice = torch.Generator().manual_seed(self.seed)
        size = 1, self.heads, input_ids.shape[1], self.dim
        q, k, v = (torch.randn(size, generator=dice) for _ in range(3))
        scales = torch.tensor([SCALES[n % len(SCALES)] for n in range(self.heads)])
        q = q * (scales / self.dim**0.5)[:, None, None]
        found: Tensor = regard.attend(q, k, v, mask=self.mask, scale=1.0).output
        return found


def labels_given(
    length: int, mask: regard.Mask | None, heads: int, seeds: Sequence[int], dim: int = 32
) -> Iterator[tuple[float, set[str]]]:
    """The scale and the labels of each of `heads` random heads, for every seed a text of its own;
    every other text has few words, so that each comes often."""
    for seed in seeds:
        model = Random(mask, heads, dim, seed)
        ids = torch.tensor(text(length, seed, words=60 if seed % 2 else 6))[None]
        with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
            model(ids)
        for n, head in enumerate(study.patterns(recording, evidence="none")):
            yield SCALES[n % len(SCALES)], set(head.labels)


def main() -> None:
    """The table."""
    for dim in (8, 32):
        for length in LENGTHS:
            for name, mask in MASKS.items():
                found: list[Any] = list(labels_given(length, mask, 100, range(8), dim))
                wrong = Counter(label for _, given in found for label in given - SHAPES)
                where = np.mean([bool(given - SHAPES) for _, given in found])
                every = np.mean([bool(given) for _, given in found])
                print(f"D {dim:3} N {length:4} {name:14} {where:7.2%} {every:7.2%}  {dict(wrong)}")


if __name__ == "__main__":
    main()
