"""Small inputs whose sizes all differ, so that no axis can stand in for another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from regard.learn.programs.recipe import Array

BATCH: Final = 2
HEADS: Final = 3
TOKENS: Final = 5
KEYS: Final = 7
WIDTH: Final = 4  # of one head
VALUES: Final = 6  # of one head's values
LONGEST: Final = 16
FORMS: Final = ("keep", "hide", "keep 0/1", "hide 0/1", "additive")


def numbers(*shape: int, seed: int, spread: float = 1.0) -> Array:
    """Normal numbers, the same for the same seed."""
    return np.random.default_rng([seed, *shape]).normal(size=shape) * spread


def core(heads: int, embed: int) -> Iterator[tuple[str, dict[str, Array]]]:
    """(group, q, k and v), by rank; `heads` > 1 where the function splits them itself."""
    split = heads > 1
    fronts = [(BATCH,), ()] if split else [(BATCH, HEADS), (BATCH,), ()]
    width = embed if split else WIDTH
    for front in fronts:
        rank = len(front) + 2
        yield f"plain {rank}", _three(front, TOKENS, TOKENS, width, width)
        yield f"keys {rank}", _three(front, TOKENS, KEYS, width, width)
        if not split:
            yield f"values {rank}", _three(front, TOKENS, KEYS, width, VALUES)


def _three(front: tuple[int, ...], tokens: int, keys: int, d: int, d_v: int) -> dict[str, Array]:
    return {
        "q": numbers(*front, tokens, d, seed=1, spread=1.3),
        "k": numbers(*front, keys, d, seed=2, spread=1.3),
        "v": numbers(*front, keys, d_v, seed=3),
    }


def sequences(embed: int, rank: int) -> Array:
    """x, (batch, tokens, embed) or (tokens, embed)."""
    return numbers(*(BATCH, TOKENS, embed)[3 - rank :], seed=4)


def visible(tokens: int) -> Array:
    """A mask without symmetry; every query sees a key, and every key is seen."""
    keep = np.random.default_rng(11).random((tokens, tokens)) < 0.5
    keep |= np.eye(tokens, dtype=bool)
    keep[0, 1:], keep[1, 3] = [True] + [False] * (tokens - 2), True
    return keep


def formed(keep: Array, form: str) -> Array:
    """The mask as a function may want it."""
    values: dict[str, Any] = {
        "keep": lambda: keep,
        "hide": lambda: ~keep,
        "keep 0/1": lambda: keep.astype(np.int64),
        "hide 0/1": lambda: (~keep).astype(np.int64),
        "additive": lambda: np.where(keep, 0.0, -np.inf),
    }
    return values[form]()


def masks(tokens: int, rank: int) -> Iterator[tuple[str, Array]]:
    """(how it is laid out, the mask): for all, per entry, with an axis for heads, padding."""
    keep = visible(tokens)
    yield "", keep
    if rank < 3:
        return
    other = np.stack([keep, visible(tokens)[::-1, ::-1]])
    other |= np.eye(tokens, dtype=bool)
    yield "per entry", other
    yield "per head", other[:, None]
    padding = np.ones((BATCH, tokens), dtype=bool)
    padding[0, -1], padding[1, 1:3] = False, False
    yield "padding", padding


def weight_sizes(heads: int) -> list[tuple[int, int, int]]:
    """(embed, width of Q and K, width of V), all different first."""
    if heads > 1:
        width = heads * WIDTH
        return [(7, width, width), (width, width, width)]
    return [(6, 4, 3), (6, 4, 4), (4, 4, 4)]


def given_weights(roles: set[str], sizes: tuple[int, int, int], turned: bool) -> dict[str, Array]:
    """Weights for a function's arguments; `turned` as (out, in)."""
    embed, width, values = sizes
    shapes = {
        "w_q": (embed, width), "w_k": (embed, width), "w_v": (embed, values),
        "w_o": (values, embed), "w_qkv": (embed, 2 * width + values), "b_q": (width,),
        "b_k": (width,), "b_v": (values,), "b_o": (embed,), "b_qkv": (2 * width + values,),
        "w_kv": (embed, width + values), "b_kv": (width + values,),
    }  # fmt: skip
    found = {}
    for at, name in enumerate(shapes):
        if name in roles:
            made = numbers(*shapes[name], seed=40 + at, spread=1.1 / embed**0.5)
            found[name] = made.T.copy() if turned else made
    return found
