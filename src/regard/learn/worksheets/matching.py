"""Labs about scores and weights: two matrices, √d_k, the mask, the lookup, saturation, training."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.attention import softmax
from regard.learn.worksheets.question import Facts, Question, Slip, Worksheet


def soft(scores: Any) -> Any:
    """The softmax of one row."""
    return softmax(np.atleast_2d(np.asarray(scores, dtype=np.float64)))[0]


def _ints(rng: np.random.Generator, low: int, high: int, *shape: int) -> Any:
    return rng.integers(low, high + 1, shape).astype(float)


def _distinct(rng: np.random.Generator, low: int, high: int, count: int) -> Any:
    return rng.choice(np.arange(low, high + 1), count, replace=False).astype(float)


def _score(f: Facts, asks: str, answers: str) -> float:
    query, key = getattr(f, asks) @ f.w_q, getattr(f, answers) @ f.w_k
    return float(query @ key)


TWO_MATRICES = Worksheet(
    "two-matrices",
    lambda rng: {
        "a": _ints(rng, 0, 3, 2), "b": _ints(rng, 0, 3, 2), "w_q": _ints(rng, -1, 3, 2, 1),
        "w_k": _ints(rng, -1, 3, 2, 1), "d": rng.choice([6, 8, 10]), "d_k": rng.choice([2, 3]),
    },
    (
        Question("a_to_b", lambda f: _score(f, "a", "b"), (
            Slip("scores-transposed", "this is b → a; the token that asks gives the query",
                 lambda f: _score(f, "b", "a")),
            Slip("not-projected", "not projected: this is a · b", lambda f: f.a @ f.b),
        ), places=0),
        Question("b_to_a", lambda f: _score(f, "b", "a"), (
            Slip("taken-as-symmetric", "this is a → b; with two matrices the two directions differ",
                 lambda f: _score(f, "a", "b")),
        ), places=0),
        Question("product", lambda f: f.w_q @ f.w_k.T, (
            Slip("transposed", "transposed: this is w_k · w_qᵀ", lambda f: f.w_k @ f.w_q.T),
            Slip("wrong-product", "this is w_qᵀ · w_k, a single number",
                 lambda f: f.w_q.T @ f.w_k),
        ), places=0),
        Question("parameters", lambda f: 2 * f.d * f.d_k, (
            Slip("one-matrix", "only one of the two matrices is counted", lambda f: f.d * f.d_k),
            Slip("counts-product", "these are the numbers of the product", lambda f: f.d**2),
        ), places=0),
        Question("product_parameters", lambda f: f.d**2, (
            Slip("counts-factors", "these are the numbers of w_q and w_k",
                 lambda f: 2 * f.d * f.d_k),
            Slip("wrong-width", "the product is d × d, not d_k × d_k", lambda f: f.d_k**2),
        ), places=0),
        Question("rank", lambda f: f.d_k, (
            Slip("rank-of-width", "w_q has d_k columns; a product has no higher rank",
                 lambda f: f.d),
        ), places=0),
    ),
    given=("a", "b", "w_q", "w_k"),
)  # fmt: skip

SCALING = Worksheet(
    "scaling",
    lambda rng: {"d_k": int(rng.choice([4, 9, 16])), "scores": _distinct(rng, 0, 6, 3)},
    (
        Question("deviation", lambda f: np.sqrt(f.d_k), (
            Slip("variance", "this is the variance; the deviation is its root", lambda f: f.d_k),
            Slip("of-one-term", "this is the deviation of a single term", lambda f: 1),
        ), places=0),
        Question("scaled", lambda f: f.scores / np.sqrt(f.d_k), (
            Slip("scaled-by-d_k", "divided by d_k instead of √d_k", lambda f: f.scores / f.d_k),
            Slip("not-scaled", "not scaled: divide by √d_k", lambda f: f.scores),
            Slip("multiplied", "multiplied by √d_k instead of divided",
                 lambda f: f.scores * np.sqrt(f.d_k)),
        )),
        Question("weights", lambda f: soft(f.scaled), (
            Slip("not-scaled", "softmax of the scores that are not scaled",
                 lambda f: soft(f.scores)),
            Slip("no-exponential", "divided by the sum without taking exponentials first",
                 lambda f: f.scaled / f.scaled.sum()),
        )),
        Question("unscaled", lambda f: soft(f.scores).max(), (
            Slip("scaled", "this is the largest weight with the division",
                 lambda f: soft(f.scaled).max()),
            Slip("wrong-key", "this is the smallest weight", lambda f: soft(f.scores).min()),
        )),
    ),
)  # fmt: skip


def _late(f: Facts) -> Any:
    return soft(f.scaled) * [1, 1, 0]


MASKING = Worksheet(
    "masking",
    lambda rng: {"scaled": _distinct(rng, -2, 4, 3), "tokens": int(rng.integers(4, 9))},
    (
        Question("weights", lambda f: soft([*f.scaled[:2], -np.inf]), (
            Slip("masked-late", "masked after the softmax, so that the row no longer sums to 1",
                 _late),
            Slip("masked-with-0", "hidden with 0 instead of −∞; e^0 is 1, not 0",
                 lambda f: soft([*f.scaled[:2], 0])),
            Slip("mask-missing", "not masked", lambda f: soft(f.scaled)),
            Slip("mask-transposed", "the mask hides the keys before the query, not those after it",
                 lambda f: soft([-np.inf, *f.scaled[1:]])),
        )),
        Question("late_sum", lambda f: _late(f).sum(), (
            Slip("masked-early", "1 is the sum where −∞ stands before the softmax", lambda f: 1),
            Slip("hidden-weight", "this is the weight that was removed",
                 lambda f: 1 - _late(f).sum()),
        )),
        Question("with_zero", lambda f: soft([*f.scaled[:2], 0])[2], (
            Slip("zero-hides", "a score of 0 does not hide a key; e^0 is 1", lambda f: 0),
            Slip("mask-missing", "this is its weight without any mask",
                 lambda f: soft(f.scaled)[2]),
        )),
        Question("visible", lambda f: f.tokens * (f.tokens + 1) // 2, (
            Slip("own-key-left-out", "a token sees itself, too",
                 lambda f: f.tokens * (f.tokens - 1) // 2),
            Slip("mask-missing", "this is the number without a mask", lambda f: f.tokens**2),
        ), places=0),
    ),
)  # fmt: skip

LOOKUP = Worksheet(
    "lookup",
    lambda rng: {
        "scores": _distinct(rng, 0, 4, 3), "values": _distinct(rng, 1, 9, 3),
        "t": int(rng.choice([2, 4])),
    },
    (
        Question("hard", lambda f: f.values[f.scores.argmax()], (
            Slip("score-for-value", "this is the score; the lookup returns the value",
                 lambda f: f.scores.max()),
            Slip("largest-value", "the best key counts, not the largest value",
                 lambda f: f.values.max()),
        ), places=0),
        Question("weights", lambda f: soft(f.scores / f.t), (
            Slip("temperature-multiplied", "multiplied by the temperature instead of divided",
                 lambda f: soft(f.scores * f.t)),
            Slip("no-temperature", "not divided by the temperature", lambda f: soft(f.scores)),
            Slip("divided-after-softmax", "divided after the softmax; divide the scores",
                 lambda f: soft(f.scores) / f.t),
        )),
        Question("soft", lambda f: np.dot(f.weights, f.values), (
            Slip("unweighted", "a plain average of the values, without the weights",
                 lambda f: f.values.mean()),
            Slip("hard", "this is the hard lookup", lambda f: f.hard),
        )),
        Question("hot", lambda f: f.values.mean(), (
            Slip("hard", "the hard lookup is what a temperature near 0 gives", lambda f: f.hard),
            Slip("sum", "the sum of the values; the weights become 1/3 each",
                 lambda f: f.values.sum()),
        )),
    ),
)  # fmt: skip


def _slope(weight: float) -> float:
    return weight * (1 - weight)


SATURATION = Worksheet(
    "saturation",
    lambda rng: {"s": float(rng.integers(2, 13)) / 4, "factor": int(rng.choice([2, 3, 4]))},
    (
        Question("weight", lambda f: soft([f.s, 0])[0], (
            Slip("wrong-key", "this is the weight of the second key", lambda f: soft([f.s, 0])[1]),
            Slip("not-normalised", "the exponential is not divided by the sum",
                 lambda f: np.exp(f.s)),
        ), places=4),
        Question("slope", lambda f: _slope(f.weight), (
            Slip("weight-for-slope", "this is 1 − w; multiply it by w", lambda f: 1 - f.weight),
            Slip("squared", "this is w²; the slope is w · (1 − w)", lambda f: f.weight**2),
        ), places=4),
        Question("sharp", lambda f: _slope(soft([f.s * f.factor, 0])[0]), (
            Slip("slope-scaled", "the slope was multiplied; multiply the scores, then take w anew",
                 lambda f: f.factor * f.slope),
            Slip("slope-divided", "the slope was divided; multiply the scores, then take w anew",
                 lambda f: f.slope / f.factor),
        ), places=4),
        Question("largest", lambda f: 0.25, (
            Slip("slope-of-1", "w · (1 − w) with w = 1 is 0", lambda f: 1),
            Slip("weight-for-slope", "this is w, where the slope is largest", lambda f: 0.5),
        )),
    ),
)  # fmt: skip


def _at_scores(f: Facts) -> Any:
    return f.weights * (f.at_weights - np.dot(f.weights, f.at_weights))


TRAINING = Worksheet(
    "training",
    lambda rng: {
        "weights": rng.permutation([0.5, 0.3, 0.2]), "values": _distinct(rng, 0, 6, 3),
        "target": int(rng.integers(0, 5)), "rate": float(rng.choice([0.1, 0.5])),
    },
    (
        Question("output", lambda f: np.dot(f.weights, f.values), (
            Slip("unweighted", "a plain average of the values, without the weights",
                 lambda f: f.values.mean()),
            Slip("sum", "a plain sum of the values, without the weights",
                 lambda f: f.values.sum()),
        )),
        Question("at_output", lambda f: f.output - f.target, (
            Slip("sign", "the sign is wrong: output − target", lambda f: f.target - f.output),
            Slip("loss-for-gradient", "this is the loss, not its gradient",
                 lambda f: (f.output - f.target) ** 2 / 2),
        )),
        Question("at_weights", lambda f: f.at_output * f.values, (
            Slip("chain-cut", "the gradient at the output is left out", lambda f: f.values),
            Slip("weights-for-values", "multiplied by the weights instead of the values",
                 lambda f: f.at_output * f.weights),
        )),
        Question("at_scores", _at_scores, (
            Slip("mean-left-out", "the weighted mean is left out: w · (g − Σ w g)",
                 lambda f: f.weights * f.at_weights),
            Slip("weight-left-out", "the factor w is left out: w · (g − Σ w g)",
                 lambda f: f.at_weights - np.dot(f.weights, f.at_weights)),
            Slip("plain-mean", "the mean has to be weighted: w · (g − Σ w g)",
                 lambda f: f.weights * (f.at_weights - np.mean(f.at_weights))),
        )),
        Question("change", lambda f: -f.rate * f.at_scores, (
            Slip("uphill", "this goes uphill: a step goes against the gradient",
                 lambda f: f.rate * f.at_scores),
            Slip("no-rate", "not multiplied by the rate", lambda f: -f.at_scores),
        )),
    ),
)  # fmt: skip

LABS = (TWO_MATRICES, SCALING, MASKING, LOOKUP, SATURATION, TRAINING)
