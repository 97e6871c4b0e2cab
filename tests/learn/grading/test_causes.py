"""A slip planted in any exercise's key is found at its step, and called by its name."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import softmax
from regard.errors import ShapeError
from regard.learn.grading.causes import causes, explain
from regard.learn.grading.exercise import exercise_key
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission

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


def width(done):
    """Of the embeddings, where it is neither d_k nor the number of tokens."""
    wide = done["x"].shape[1]
    if wide in (d_k(done), 3):
        raise ValueError("looks like another divisor")
    return wide


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
    "scaled by width": ("scaled", "scaled-by-width", lambda d: d["scores"] / np.sqrt(width(d))),
    "scaled by tokens": ("scaled", "scaled-by-tokens", lambda d: d["scores"] / np.sqrt(3)),
    "softmax unscaled": ("weights", "not-scaled", lambda d: softmax(d["scores"])),
    "softmax by d_k": ("weights", "scaled-by-d_k", lambda d: softmax(d["scores"] / d_k(d))),
    "softmax by width": (
        "weights", "scaled-by-width", lambda d: softmax(d["scores"] / np.sqrt(width(d))),
    ),
    "causal mask": (
        "weights", "causal-mask",
        lambda d: softmax(np.where(np.triu(np.ones((3, 3)), 1) > 0, -np.inf, d["scaled"])),
    ),
    "softmax columns": ("weights", "softmax-over-columns", lambda d: softmax(d["scaled"].T).T),
    "weights transposed": ("weights", "weights-transposed", lambda d: d["weights"].T),
    "no exponential": (
        "weights", "no-exponential",
        lambda d: d["scaled"] / d["scaled"].sum(axis=1, keepdims=True),
    ),
    "not normalised": ("weights", "not-normalised", lambda d: np.exp(d["scaled"])),
    "softmax over the whole matrix": (
        "weights", "softmax-over-all",
        lambda d: np.exp(d["scaled"]) / np.exp(d["scaled"]).sum(),
    ),
    "powers of 2": ("weights", "base-2", lambda d: softmax(d["scaled"] * np.log(2))),
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
def test_a_planted_slip_is_found_and_in_most_exercises_named_first(name):
    step, kind, _ = SLIPS[name]
    named = []
    for seed in range(0, 400, 57):
        judged = planted(name, seed)
        assert judged.first_wrong is not None and judged.first_wrong.step == step
        # Where two slips give the same numbers, either name will do; but the planted one must fit.
        assert kind in [cause.kind for cause in causes(judged)]
        named.append(explain(judged).kind)
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


# ── evidence: a cause explains the numbers better than chance ────────────────────────────────


def test_a_few_units_near_1_are_no_term_left_out():
    """0.9994 as 1.0000: without the exponential of 0.0006 the sum would give that, too."""
    scaled = [["7.4", "0"], ["0", "7.4"]]
    cause = one(scaled=scaled, weights=[["1.0000", "0.0006"], ["0.0006", "0.9994"]])
    assert cause.kind not in ("term-left-out", "term-twice") and cause.kind == "rounding"
    cause = one(scaled=scaled, weights=[["1.0003", "0.0006"], ["0.0006", "0.9994"]])
    assert cause.kind == "arithmetic"


@pytest.mark.parametrize(
    ("right", "given"), [("0.4223", "0.4232"), ("0.4223", "0.2423"), ("0.1554", "0.5154")]
)
def test_swapped_digits_are_named(right, given):
    row = ["0.4223", "0.1554", "0.4223"]
    row[row.index(right)] = given
    cause = one(scaled=[[1, 0, 1]], weights=[row])
    assert (cause.kind, cause.text) == (
        "digits-swapped",
        f"two digits are swapped: {given} in place of {right}",
    )


def test_swapped_digits_of_a_whole_number_are_named():
    assert one(Q=[[5, 2]], K=[[3, 3]], scores=[[12]]).kind == "digits-swapped"


CAUSAL = (
    "tokens: a, b, c\nd_k = 4\n## scores\n[2 0 2]\n[0 2 2]\n[2 2 4]\n{0}"
    "## weights\n[1 0 0]\n[0.2689 0.7311 0]\n[0.2119 0.2119 0.5761]\n"
)


def test_a_causal_mask_that_was_not_asked_for_is_named():
    cause = explain(mark(parse_submission(CAUSAL.format(""))))
    assert cause.kind == "causal-mask" and "causal: yes" in cause.text


def test_a_causal_mask_is_named_behind_steps_that_are_not_printed():
    """Only the output shows it."""
    scores, values = (
        np.array([[2, 0, 2], [0, 2, 2], [2, 2, 4.0]]),
        np.array([[1, 0], [0, 2], [3, 1]]),
    )
    hidden = np.where(np.triu(np.ones((3, 3)), 1) > 0, -np.inf, scores / 2)
    output = written(softmax(hidden) @ values)
    cause = one(d_k=4, scores=scores.tolist(), V=values.tolist(), output=output)
    assert cause.kind == "causal-mask"


@pytest.mark.parametrize(
    "text",
    [
        "causal: yes\n" + CAUSAL.format(""),
        "# Causal attention by hand\n" + CAUSAL.format(""),
        CAUSAL.format("").replace("## weights", "## Weights (masked)"),
        CAUSAL.format("## masked\n[1 −∞ −∞]\n[0 1 -inf]\n[1 1 2]\n"),
        CAUSAL.format("## Scaled\n[1 -inf -inf]\n[0 1 -1e9]\n[1 1 2]\n"),
        "causal: yes\n" + CAUSAL.format("## scaled\n[1 ? ?]\n[0 1 –]\n[1 1 2]\n"),
        "causal: yes\n" + CAUSAL.format("## scaled\n[1 0 1]\n[0 1 1]\n[1 1 2]\n"),
    ],
)
def test_a_causal_calculation_that_says_so_is_right(text):
    judged = mark(parse_submission(text))
    assert (judged.verdict, judged.blank) == ("right", 0)


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        ("[0.4223 0.1554 0.4223]\n[0.1554 0.4223 0.4223]\n[0.2119 0.2119 0.5761]", "mask-missing"),
        ("[0.4223 0 0]\n[0.1554 0.4223 0]\n[0.2119 0.2119 0.5761]", "masked-late"),
        ("[0.5761 0.2119 0.2119]\n[0.2119 0.5761 0.2119]\n[0.2119 0.2119 0.5761]", "masked-with-0"),
    ],
)
def test_what_goes_wrong_with_a_mask_is_named(weights, kind):
    text = CAUSAL.format("")
    text = "causal: yes\n" + text[: text.index("## weights")] + f"## weights\n{weights}\n"
    assert explain(mark(parse_submission(text))).kind == kind


def test_a_masked_step_without_its_mask_is_wrong():
    text = CAUSAL.format("## masked\n[1 0 1]\n[0 1 -inf]\n[1 1 2]\n")
    judged = mark(parse_submission(text))
    assert judged.first_wrong.step == "masked" and explain(judged).kind == "mask-missing"


@pytest.mark.parametrize("step", ["scaled", "weights", "output"])
def test_a_random_error_is_given_no_cause(step):
    """One cell off by anything between a few units and 1: nearly always no more than a slip."""
    rng = np.random.default_rng(7)
    named = []
    for seed in range(50):
        tokens, task = task_of(seed)
        off = rng.choice([-1, 1]) * 10 ** rng.uniform(-2.9, 0)

        def slip(done, off=off):
            matrix = done[step].round(4)
            matrix[rng.integers(matrix.shape[0]), rng.integers(matrix.shape[1])] += off
            return matrix.round(4)

        judged = graded(work(task, step, slip), tokens)
        assert judged.first_wrong.step == step
        named.append(explain(judged).kind)
    assert named.count("arithmetic") >= 0.96 * len(named), named


def test_keys_in_place_of_values_are_named_where_their_width_gives_them_away():
    text = "## V\n[1 0]\n[0 2]\n## K\n[1 0 1]\n[0 2 1]\n## weights\n[0.5 0.5]\n## output\n"
    with pytest.raises(ShapeError, match="these are the numbers with K in place of V"):
        mark(parse_submission(text + "[0.5 1 1]\n"))
    with pytest.raises(ShapeError) as found:
        mark(parse_submission(text + "[0.5 3 1]\n"))
    assert "in place of" not in str(found.value)
