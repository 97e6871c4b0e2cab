"""What follows attention in a deep network: residual, layer norm, MLP, and both again.

The order is the original Transformer's (norm after each sum); most models of today normalise
before attention and before the MLP instead. The parts are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.learn.lesson.numbers import draws

EPSILON = 1e-5
WIDENING = 2  # 4 in real models; 2 keeps the hidden layer on one screen


@dataclass(frozen=True)
class Block:
    """One block after its attention, every intermediate by name, in the order it is computed."""

    w_1: Array  # (width, hidden)
    w_2: Array  # (hidden, width)
    residual: Array  # x + attention
    normed: Array
    hidden: Array  # normed @ w_1
    activated: Array  # max(hidden, 0)
    mlp: Array  # activated @ w_2
    residual_2: Array  # normed + mlp
    output: Array  # the hidden state that the next block receives

    def as_dict(self) -> dict[str, Any]:
        """The same, as nested lists, for JSON."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}


def layer_norm(rows: Array) -> Array:
    """Each row with mean 0 and deviation 1 (learned gain 1, learned shift 0)."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)


def run_block(x: Array, attention: Array, *, seed: int = 0) -> Block:
    """The rest of the block on input x and attention output, both (tokens, width)."""
    width = x.shape[1]
    # The tags 5 and 6 are no projection's, so no two matrices share their numbers.
    w_1 = draws([seed, 1, 5], (width, WIDENING * width), spread=width**-0.5)
    w_2 = draws([seed, 1, 6], (WIDENING * width, width), spread=width**-0.5)
    residual = x + attention
    normed = layer_norm(residual)
    hidden = normed @ w_1
    activated = np.maximum(hidden, 0.0)
    mlp = activated @ w_2
    residual_2 = normed + mlp
    return Block(
        w_1=w_1, w_2=w_2, residual=residual, normed=normed, hidden=hidden, activated=activated,
        mlp=mlp, residual_2=residual_2, output=layer_norm(residual_2),
    )  # fmt: skip
