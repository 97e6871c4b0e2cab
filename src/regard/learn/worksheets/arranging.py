"""Labs about shapes, costs, order and words: heads, positions, cache, next word, two sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.learn.worksheets.matching import soft
from regard.learn.worksheets.question import Facts, Question, Slip, Worksheet


def _sizes(rng: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    """Different sizes, so that no axis can be taken for another."""
    return [int(size) for size in rng.choice(np.arange(low, high + 1), count, replace=False)]


def _draw_shapes(rng: np.random.Generator) -> dict[str, Any]:
    batch, tokens, heads, size = _sizes(rng, 2, 7, 4)
    return {
        "batch": batch, "tokens": tokens, "heads": heads, "size": size, "d": heads * size,
        "head": int(rng.integers(heads)), "row": int(rng.integers(tokens)),
    }  # fmt: skip


SHAPES = Worksheet(
    "shapes",
    _draw_shapes,
    (
        Question("split", lambda f: (f.batch, f.heads, f.tokens, f.size), (
            Slip("not-transposed", "this is the shape before transpose",
                 lambda f: (f.batch, f.tokens, f.heads, f.size)),
            Slip("width-not-divided", "each head has d / H numbers of a token, not d",
                 lambda f: (f.batch, f.heads, f.tokens, f.d)),
        ), places=0, shape=True),
        Question("scores", lambda f: (f.batch, f.heads, f.tokens, f.tokens), (
            Slip("keys-not-transposed", "this is kᵀ @ q: dimensions against dimensions",
                 lambda f: (f.batch, f.heads, f.size, f.size)),
            Slip("heads-lost", "each head has scores of its own",
                 lambda f: (f.batch, f.tokens, f.tokens)),
        ), places=0, shape=True),
        Question("output", lambda f: (f.batch, f.heads, f.tokens, f.size), (
            Slip("transposed-early", "transpose comes after this",
                 lambda f: (f.batch, f.tokens, f.heads, f.size)),
            Slip("weights-shape", "this is the shape of the weights",
                 lambda f: (f.batch, f.heads, f.tokens, f.tokens)),
        ), places=0, shape=True),
        Question("merged", lambda f: (f.batch, f.tokens, f.d), (
            Slip("one-head", "all heads stand side by side: H · d/H = d numbers",
                 lambda f: (f.batch, f.tokens, f.size)),
            Slip("not-transposed", "heads and tokens are mixed: transpose first",
                 lambda f: (f.batch, f.heads * f.tokens, f.size)),
        ), places=0, shape=True),
        Question("viewed", lambda f: (f.head * f.tokens + f.row) * f.size // f.d, (
            Slip("as-if-transposed", "so it is with transpose; view alone counts on through memory",
                 lambda f: f.row),
        ), places=0),
    ),
)  # fmt: skip


def _draw_cost(rng: np.random.Generator) -> dict[str, Any]:
    d, heads = [(6, 2), (6, 3), (8, 2), (8, 4), (12, 3), (12, 4), (10, 5)][rng.integers(7)]
    return {"d": d, "heads": heads, "tokens": int(rng.integers(3, 9))}


HEADS_COST = Worksheet(
    "heads-cost",
    _draw_cost,
    (
        Question("width", lambda f: f.d // f.heads, (
            Slip("width-not-divided", "the heads share the width d", lambda f: f.d),
            Slip("multiplied", "multiplied by the number of heads instead of divided",
                 lambda f: f.d * f.heads),
        ), places=0),
        Question("projection", lambda f: f.d * f.width, (
            Slip("all-heads", "this is w_q of all heads together", lambda f: f.d**2),
            Slip("wrong-rows", "w_q has d rows: it reads the whole embedding",
                 lambda f: f.width**2),
        ), places=0),
        Question("all", lambda f: 4 * f.d**2, (
            Slip("w_o-left-out", "w_o left out", lambda f: 3 * f.d**2),
            Slip("width-not-divided", "every head was counted with the whole width",
                 lambda f: (3 * f.heads + 1) * f.d**2),
            Slip("one-head", "only one head was counted", lambda f: (3 * f.d + f.d) * f.width),
        ), places=0),
        Question("multiplications", lambda f: f.heads * f.tokens**2 * f.width, (
            Slip("one-head", "this is one head of several", lambda f: f.tokens**2 * f.width),
            Slip("width-not-divided", "every head was counted with the whole width",
                 lambda f: f.heads * f.tokens**2 * f.d),
        ), places=0),
        Question("single", lambda f: f.tokens**2 * f.d, (
            Slip("divided", "one head of width d multiplies d numbers for every score",
                 lambda f: f.tokens**2 * f.d // f.heads),
        ), places=0),
    ),
)  # fmt: skip


def _wave(position: float) -> list[float]:
    return [float(np.sin(position)), float(np.cos(position))]


def _distance_of_given(f: Facts) -> float:
    """From the encoding answered before and one of two decimals."""
    return float(np.dot(np.round(np.ravel(f.encoding), 2), np.round(_wave(f.p + f.k), 2)))


POSITIONS = Worksheet(
    "positions",
    lambda rng: {
        "p": int(rng.integers(1, 7)), "k": int(rng.integers(1, 4)),
        "x": rng.integers(-2, 4, 2).astype(float), "o": rng.integers(1, 9, 2) / 10,
    },
    (
        Question("encoding", lambda f: _wave(f.p), (
            Slip("degrees", "in degrees; positions are radians",
                 lambda f: _wave(np.deg2rad(f.p))),
            Slip("sine-and-cosine-swapped", "sine and cosine are swapped",
                 lambda f: _wave(f.p)[::-1]),
            Slip("counted-from-1", "positions are counted from 0, and p is one of them",
                 lambda f: _wave(f.p + 1)),
        )),
        Question("distance", lambda f: np.cos(f.k), (
            Slip("sine", "this is sin k; sin·sin + cos·cos is cos k", lambda f: np.sin(f.k)),
            Slip("degrees", "in degrees; positions are radians",
                 lambda f: np.cos(np.deg2rad(f.k))),
            Slip("of-the-sum", "this is the cosine of the sum of the positions",
                 lambda f: np.cos(2 * f.p + f.k)),
        ), also=(_distance_of_given,)),
        Question("first", lambda f: np.add(f.x, [0, 1]), (
            Slip("nothing-added", "cos 0 is 1: the first position is not all zeros",
                 lambda f: f.x),
            Slip("sine-and-cosine-swapped", "sine and cosine are swapped",
                 lambda f: np.add(f.x, [1, 0])),
            Slip("counted-from-1", "positions are counted from 0", lambda f: f.x + _wave(1)),
            Slip("multiplied", "multiplied instead of added", lambda f: f.x * [0, 1]),
        )),
        Question("shuffled", lambda f: f.o, (
            Slip("reversed", "the order of the words changes rows, not the numbers in a row",
                 lambda f: f.o[::-1]),
        )),
    ),
)  # fmt: skip

KV_CACHE = Worksheet(
    "kv-cache",
    lambda rng: {
        "layers": int(rng.integers(3, 6)), "heads": int(rng.integers(3, 5)),
        "size": int(rng.choice([1, 2])), "prompt": int(rng.integers(4, 9)),
        "more": int(rng.integers(2, 5)),
    },
    (
        Question("per_token", lambda f: 2 * f.layers * f.heads * f.size, (
            Slip("keys-only", "keys and values are both kept",
                 lambda f: f.layers * f.heads * f.size),
            Slip("one-layer", "every layer keeps its own", lambda f: 2 * f.heads * f.size),
            Slip("one-head", "every head keeps its own", lambda f: 2 * f.layers * f.size),
        ), places=0),
        Question("cache", lambda f: f.per_token * (f.prompt + f.more), (
            Slip("prompt-only", "the new tokens are kept, too", lambda f: f.per_token * f.prompt),
            Slip("new-only", "the prompt is kept, too", lambda f: f.per_token * f.more),
        ), places=0),
        Question("with_cache", lambda f: f.prompt + 1, (
            Slip("own-key-left-out", "the new token sees itself, too", lambda f: f.prompt),
            Slip("all-rows", "only the new token's row is computed",
                 lambda f: (f.prompt + 1) ** 2),
        ), places=0),
        Question("without_cache", lambda f: (f.prompt + 1) ** 2, (
            Slip("one-row", "without a cache every row is computed again", lambda f: f.prompt + 1),
            Slip("new-token-left-out", "the new token is one of the rows and one of the keys",
                 lambda f: f.prompt**2),
        ), places=0),
    ),
)  # fmt: skip


def _ratio(f: Facts) -> float:
    first, second = np.sort(f.logits)[::-1][:2]
    return float(first - second)


def _two_largest(shares: Any) -> float:
    first, second = np.sort(np.ravel(shares))[::-1][:2]
    return float(first / second)


def _ratio_of_given(f: Facts) -> float:
    """From the probabilities answered before, as they were rounded."""
    return _two_largest(f.tempered)


def _ratio_of_two_places(f: Facts) -> float:
    return _two_largest(np.round(f.tempered, 2))


def _tempered_again(f: Facts) -> Any:
    """p^(1/T), divided by their sum, from the probabilities answered before."""
    powers = np.ravel(f.probabilities) ** (1 / f.t)
    return powers / powers.sum()


NEXT_WORD = Worksheet(
    "next-word",
    lambda rng: {
        "logits": rng.choice(np.arange(0, 5), 3, replace=False).astype(float),
        "t": float(rng.choice([0.5, 2.0])),
    },
    (
        Question("probabilities", lambda f: soft(f.logits), (
            Slip("no-exponential", "divided by the sum without taking exponentials first",
                 lambda f: f.logits / f.logits.sum()),
        )),
        Question("greedy", lambda f: f.logits.argmax() + 1, (
            Slip("least-likely", "this is the least likely word", lambda f: f.logits.argmin() + 1),
        ), places=0),
        Question("tempered", lambda f: soft(f.logits / f.t), (
            Slip("temperature-multiplied", "multiplied by the temperature instead of divided",
                 lambda f: soft(f.logits * f.t)),
            Slip("no-temperature", "not divided by the temperature", lambda f: soft(f.logits)),
            Slip("divided-after-softmax", "divided after the softmax; divide the logits",
                 lambda f: soft(f.logits) / f.t),
        ), also=(_tempered_again,)),
        Question("ratio", lambda f: np.exp(_ratio(f) / f.t), (
            Slip("no-temperature", "this is the ratio at temperature 1",
                 lambda f: np.exp(_ratio(f))),
            Slip("temperature-multiplied", "multiplied by the temperature instead of divided",
                 lambda f: np.exp(_ratio(f) * f.t)),
            Slip("no-exponential", "the exponential is missing", lambda f: _ratio(f) / f.t),
        ), also=(_ratio_of_given, _ratio_of_two_places)),
    ),
)  # fmt: skip


def _draw_cross(rng: np.random.Generator) -> dict[str, Any]:
    tokens, source, d_k, d_v, d = _sizes(rng, 2, 9, 5)
    return {"tokens": tokens, "source": source, "d_k": d_k, "d_v": d_v, "d": d}


CROSS_ATTENTION = Worksheet(
    "cross-attention",
    _draw_cross,
    (
        Question("queries", lambda f: (f.tokens, f.d_k), (
            Slip("wrong-sequence", "queries come from the sequence that is being written",
                 lambda f: (f.source, f.d_k)),
            Slip("not-projected", "x · w_q has d_k columns", lambda f: (f.tokens, f.d)),
        ), places=0, shape=True),
        Question("keys", lambda f: (f.source, f.d_k), (
            Slip("wrong-sequence", "keys come from the sequence that is read",
                 lambda f: (f.tokens, f.d_k)),
            Slip("not-projected", "y · w_k has d_k columns", lambda f: (f.source, f.d)),
        ), places=0, shape=True),
        Question("scores", lambda f: (f.tokens, f.source), (
            Slip("transposed-shape", "transposed: rows are queries, columns are keys",
                 lambda f: (f.source, f.tokens)),
            Slip("self-attention", "this is self-attention; the keys come from the other sequence",
                 lambda f: (f.tokens, f.tokens)),
        ), places=0, shape=True),
        Question("shares", lambda f: f.source, (
            Slip("over-queries", "the softmax runs over the keys", lambda f: f.tokens),
            Slip("over-dimensions", "the softmax runs over the keys, not over dimensions",
                 lambda f: f.d_k),
        ), places=0),
        Question("output", lambda f: (f.tokens, f.d_v), (
            Slip("wrong-sequence", "each query gets one row", lambda f: (f.source, f.d_v)),
            Slip("width-of-keys", "the output is as wide as the values",
                 lambda f: (f.tokens, f.d_k)),
        ), places=0, shape=True),
    ),
)  # fmt: skip

LABS = (SHAPES, HEADS_COST, POSITIONS, KV_CACHE, NEXT_WORD, CROSS_ATTENTION)
