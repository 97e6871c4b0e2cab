"""A slip planted in any exercise's key is found at its step, and called by its name."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.learn.grading.causes import causes, explain
from regard.learn.grading.exercise import exercise_key
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission
from regard.learn.steps import softmax

ORDER = ("Q", "K", "V", "scores", "scaled", "weights", "output")


def work(task, planted=None, slip=None):
    """Every step in order; `slip` replaces one of them, and the later ones follow from it."""
    done = dict(task)
    d_k = done["w_k"].shape[1]
    rules = {
        "Q": lambda: done["x"] @ done["w_q"],
        "K": lambda: done["x"] @ done["w_k"],
        "V": lambda: done["x"] @ done["w_v"],
        "scores": lambda: done["Q"] @ done["K"].T,
        "scaled": lambda: done["scores"] / np.sqrt(d_k),
        "weights": lambda: softmax(done["scaled"]),
        "output": lambda: done["weights"] @ done["V"],
    }
    for step in ORDER:
        done[step] = rules[step]()
        if step == planted:
            done[step] = slip(done)
    return done


def written(matrix):
    places = 0 if (matrix == matrix.round()).all() else 4
    return [[f"{v:.{places}f}" for v in row] for row in matrix]


def graded(done, tokens):
    steps = {name: written(done[name]) for name in ORDER}
    inputs = {name: written(done[name]) for name in ("w_q", "w_k", "w_v")}
    document = {"tokens": tokens, "embeddings": written(done["x"]), **inputs, **steps}
    return mark(parse_submission(json.dumps(document)))


@cache
def task_of(seed):
    key = parse_submission(exercise_key(seed))
    task = {name: key.steps[name].values for name in ("w_q", "w_k", "w_v")}
    return list(key.tokens), {"x": key.steps["embeddings"].values, **task}


def term(left, right, times):
    """A product with its last term counted `times`."""

    def slip(done):
        factors = np.ones(done[left].shape[1])
        factors[-1] = times
        other = done[right].T if right == "K" else done[right]
        return (done[left] * factors) @ other

    return slip


def in_one_cell(step, change):
    def slip(done):
        matrix = done[step].copy()
        matrix[1, 0] = change(matrix[1, 0])
        return matrix

    return slip


def denominator(times):
    def slip(done):
        e = np.exp(done["scaled"])
        return e / (e.sum(axis=1, keepdims=True) + (times - 1) * e[:, -1:])

    return slip


def without_own_key(done):
    return softmax(np.where(np.eye(3, dtype=bool), -np.inf, done["scaled"]))


def exchanged(step):
    return lambda done: done[step][[1, 0, 2]]


def d_k(done):
    return done["w_k"].shape[1]


SLIPS = {
    "projection transposed": ("Q", "transposed-projection", lambda d: d["x"] @ d["w_q"].T),
    "key projection transposed": ("K", "transposed-projection", lambda d: d["x"] @ d["w_k"].T),
    "wrong projection": ("Q", "wrong-projection", lambda d: d["x"] @ d["w_k"]),
    "term twice in Q": ("Q", "term-twice", term("x", "w_q", 2)),
    "term left out of V": ("V", "term-left-out", term("x", "w_v", 0)),
    "sign in K": ("K", "sign", in_one_cell("K", lambda v: -v)),
    "scores transposed": ("scores", "scores-transposed", lambda d: d["scores"].T),
    "values for keys": ("scores", "values-for-keys", lambda d: d["Q"] @ d["V"].T),
    "queries for keys": ("scores", "queries-for-keys", lambda d: d["Q"] @ d["Q"].T),
    "scaled early": ("scores", "scaled-early", lambda d: d["scores"] / np.sqrt(d_k(d))),
    "term twice in scores": ("scores", "term-twice", term("Q", "K", 2)),
    "term left out of scores": ("scores", "term-left-out", term("Q", "K", 0)),
    "rows exchanged": ("scores", "rows-exchanged", exchanged("scores")),
    "not scaled": ("scaled", "not-scaled", lambda d: d["scores"]),
    "scaled by d_k": ("scaled", "scaled-by-d_k", lambda d: d["scores"] / d_k(d)),
    "multiplied": ("scaled", "multiplied", lambda d: d["scores"] * np.sqrt(d_k(d))),
    "scaled by tokens": ("scaled", "scaled-by-tokens", lambda d: d["scores"] / np.sqrt(3)),
    "softmax unscaled": ("weights", "not-scaled", lambda d: softmax(d["scores"])),
    "softmax by d_k": ("weights", "scaled-by-d_k", lambda d: softmax(d["scores"] / d_k(d))),
    "softmax columns": ("weights", "softmax-over-columns", lambda d: softmax(d["scaled"].T).T),
    "weights transposed": ("weights", "weights-transposed", lambda d: d["weights"].T),
    "no exponential": (
        "weights", "no-exponential",
        lambda d: d["scaled"] / d["scaled"].sum(axis=1, keepdims=True),
    ),
    "not normalised": ("weights", "not-normalised", lambda d: np.exp(d["scaled"])),
    "own key left out": ("weights", "own-key-left-out", without_own_key),
    "exponential twice": ("weights", "term-twice", denominator(2)),
    "exponential left out": ("weights", "term-left-out", denominator(0)),
    "rounding": ("weights", "rounding", in_one_cell("weights", lambda v: round(v, 4) + 4e-4)),
    "decimal point": ("output", "decimal-point", in_one_cell("output", lambda v: v * 10)),
    "token twice": ("output", "term-twice", term("weights", "V", 2)),
    "token left out": ("output", "term-left-out", term("weights", "V", 0)),
    "keys for values": ("output", "values-for-keys", lambda d: d["weights"] @ d["K"]),
    "weights by columns": ("output", "weights-transposed", lambda d: d["weights"].T @ d["V"]),
    "no softmax": ("output", "no-softmax", lambda d: d["scaled"] @ d["V"]),
    "softmax over dimensions": (
        "output", "softmax-over-dimensions", lambda d: softmax(d["weights"] @ d["V"]),
    ),
    "plain average": ("output", "unweighted", lambda d: d["V"].mean(0) + 0 * d["output"]),
    "sign in output": ("output", "sign", in_one_cell("output", lambda v: -v)),
    "arithmetic": ("scores", "arithmetic", in_one_cell("scores", lambda v: v + 37)),
}  # fmt: skip


def planted(name, seed):
    """The mark of the first exercise from `seed` on in which the slip can be made and shows."""
    step, _, slip = SLIPS[name]
    visible = 2.5e-4 if name == "rounding" else 5e-3
    while True:
        tokens, task = task_of(seed)
        seed += 1
        try:
            with np.errstate(all="ignore"):
                right, wrong = work(task), work(task, step, slip)
        except ValueError:  # this exercise's matrices have other sizes than the slip needs
            continue
        if wrong[step].shape == right[step].shape and np.isfinite(wrong[step]).all():
            if np.abs(wrong[step] - right[step]).max() > visible:
                return graded(wrong, tokens)


@pytest.mark.parametrize("name", SLIPS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 400))
def test_a_planted_slip_is_found_and_named(name, seed):
    step, kind, _ = SLIPS[name]
    judged = planted(name, seed)
    assert judged.first_wrong is not None and judged.first_wrong.step == step
    # Where two slips give the same numbers, either name will do; but the planted one must fit.
    assert kind in [cause.kind for cause in causes(judged)]


@pytest.mark.parametrize("name", SLIPS)
def test_most_exercises_get_exactly_that_cause_first(name):
    _, kind, _ = SLIPS[name]
    named = [explain(planted(name, seed)).kind for seed in range(0, 400, 40)]
    assert named.count(kind) > len(named) / 2, named


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_steps_after_a_slip_are_judged_by_what_was_given(seed):
    tokens, task = task_of(seed)
    judged = graded(work(task, "scores", lambda d: d["scores"] + 1.0), tokens)
    assert [step.step for step in judged.steps if step.wrong.any()] == ["scores"]


def one(**steps):
    return explain(mark(parse_submission(json.dumps(steps))))


def test_the_token_is_named():
    weights, values = [["0.2", "0.3", "0.5"]], [[1, 2], [3, 4], [7, 6]]
    tokens = ["The", "cat", "sat"]
    twice = one(tokens=tokens, weights=weights, V=values, output=[["5.5", "5.8"]])
    assert (twice.kind, twice.text) == ("term-twice", "cat counted twice")
    missing = one(tokens=tokens, weights=weights, V=values, output=[["1.1", "1.6"]])
    assert (missing.kind, missing.text) == ("term-left-out", "sat left out")


def test_softmax_over_the_dimensions_of_the_queries():
    queries = [[1, 0], [0, 2]]
    over_dimensions = written(softmax(np.array(queries, float)))
    cause = one(Q=queries, K=[[1, 1], [0, 1]], weights=over_dimensions)
    assert cause.kind == "softmax-over-dimensions" and "over the tokens" in cause.text


def test_one_wrong_row_is_enough_to_name_the_cause():
    scores, d = [[4, 0], [0, 4]], 4
    cause = one(d_k=d, scores=scores, scaled=[[2, 0], [0, 4]])
    assert cause.kind == "not-scaled" and "√4" in cause.text


def test_a_row_of_another_token_is_recognised():
    tokens = ["The", "cat", "sat"]
    scores = [[1, 2, 3], [4, 5, 7], [7, 8, 9]]
    cause = one(tokens=tokens, d_k=1, scores=scores, scaled=[[4, 5, 7], [4, 5, 7], [7, 8, 9]])
    assert cause.text == "this is the row of cat"


def test_right_work_has_no_cause():
    assert one(d_k=4, scores=[[2, 0]], scaled=[[1, 0]]) is None
