"""Right work is never marked wrong, wrong work is found at its first wrong step and cell."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import softmax
from regard.errors import InputError, ShapeError
from regard.learn.grading.causes import explain
from regard.learn.grading.exercise import exercise_key
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission, read_submission

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def judge(**steps):
    return mark(parse_submission(json.dumps(steps)))


def first(judged):
    step = judged.first_wrong
    return None if step is None else next(step.cells())


@pytest.mark.parametrize("name", ["first_note.md", "first_note.json"])
def test_the_first_note_counts_sat_twice(name):
    judged = mark(read_submission(EXAMPLES / name))
    cell = first(judged)
    assert judged.verdict == "wrong"
    assert (cell.step, judged.place(cell)) == ("output", "The, dimension 1")
    assert (cell.given, round(cell.right, 4)) == (1.2669, 0.8446)
    right = judged.first_wrong.right.value[0].round(4).tolist()
    assert right == [0.8446, 0.5777, 0.8446, 0.5777]
    cause = explain(judged)
    assert "sat counted twice" in cause.text
    assert "doubled value, a doubled weight and a double addition look the same" in cause.note


@pytest.mark.parametrize("weights", ["0.4223 0.1553 0.4223", "0.42 0.16 0.42", "0.422 0.155 0.422"])
def test_the_note_is_understood_however_its_weights_were_printed(weights):
    text = (EXAMPLES / "first_note.md").read_text(encoding="utf-8")
    start, end = text.index("## Weights"), text.index("## Output")
    judged = mark(parse_submission(f"{text[:start]}## Weights\nThe = [{weights}]\n{text[end:]}"))
    assert first(judged).step == "output" and explain(judged).text == "sat counted twice"


@pytest.mark.parametrize("name", ["hand_calculation.md", "temperature.md"])
def test_the_other_examples_are_right(name):
    judged = mark(read_submission(EXAMPLES / name))
    assert (judged.verdict, judged.blank) == ("right", 0)


# --- what is within the printed precision ---

WEIGHTS, VALUES = [[0.42, 0.16, 0.42]], [[1, 0], [0, 10], [1, 10]]


@pytest.mark.parametrize(
    "output",
    [
        [0.84, 5.80],  # from the printed weights
        [0.84, 5.78],  # from the unrounded ones, rounded
        [0.8446, 5.7768],  # from the unrounded ones, precise
        [0.85, 5.77],  # one unit off, and cut
    ],
)
def test_going_on_rounded_or_unrounded_is_both_right(output):
    scaled = [[1, 0, 1]]
    assert judge(scaled=scaled, weights=WEIGHTS, V=VALUES, output=[output]).verdict == "right"


@pytest.mark.parametrize("output", [[0.87, 5.80], [0.84, 5.73], [0.84, 5.85]])
def test_what_neither_gives_is_wrong(output):
    scaled = [[1, 0, 1]]
    assert judge(scaled=scaled, weights=WEIGHTS, V=VALUES, output=[output]).verdict == "wrong"


def test_weights_without_their_source_may_have_been_rounded_or_cut():
    assert judge(weights=[["0.33", "0.66"]], V=[[0], [3]], output=[[2.0]]).verdict == "right"
    assert judge(weights=[["0.33", "0.66"]], V=[[0], [3]], output=[["2.10"]]).verdict == "wrong"


def test_queries_without_their_source_may_have_been_rounded():
    assert judge(Q=[["0.33"]], K=[[30]], scores=[["10.00"]]).verdict == "right"
    assert judge(Q=[["0.33"]], K=[[30]], scores=[["10.20"]]).verdict == "wrong"


def test_the_numbers_of_the_task_are_exact():
    task = {"embeddings": [["0.3"]], "w_q": [[30]]}
    assert judge(**task, Q=[["9.00"]]).verdict == "right"
    assert judge(**task, Q=[["9.50"]]).verdict == "wrong"


def test_one_unit_in_the_last_place_is_allowed_and_two_are_not():
    def verdict(weight):
        return judge(scaled=[[1, 0, 1]], weights=[[weight, None, None]]).verdict

    assert [verdict(w) for w in ("0.4222", "0.4223", "0.4224")] == ["right"] * 3
    assert [verdict(w) for w in ("0.4221", "0.4225")] == ["wrong"] * 2
    assert [verdict(w) for w in ("0.41", "0.42", "0.43", "0.4", "0.5")] == ["right"] * 5
    assert [verdict(w) for w in ("0.40", "0.44", "0.2", "0.6")] == ["wrong"] * 4


def test_a_whole_number_is_exact_among_whole_numbers():
    assert judge(scaled=[[5, 0]], weights=[[1, 0]]).verdict == "wrong"
    assert judge(scaled=[[5, 0]], weights=[["0.99", 0]]).verdict == "right"


def test_fractions_are_exact():
    assert judge(scores=[[1, 1, 1]], d_k=4, scaled=[["1/2", "1/2", "0.5"]]).verdict == "right"
    assert judge(scaled=[[0, 0, 0]], weights=[["1/3", "1/3", "1/3"]]).verdict == "right"
    assert judge(scores=[[1, 1, 1]], d_k=4, scaled=[["1/2", "2/3", "1/2"]]).verdict == "wrong"


def cut(value, places, *, truncate):
    factor = 10**places
    steps = math.trunc(value * factor + math.copysign(1e-9, value)) if truncate else None
    return value if places is None else (steps / factor if truncate else round(value, places))


def printed(matrix, places, truncate):
    return [[f"{cut(float(v), places, truncate=truncate):.{places}f}" for v in r] for r in matrix]


styles = st.tuples(st.integers(1, 5), st.booleans(), st.booleans())  # places, cut, goes on printed


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 5000), styles, styles, styles)
def test_no_honest_way_of_rounding_is_marked_wrong(seed, scaled_style, weights_style, output_style):
    """Each step with its own decimals, rounded or cut; each goes on printed or unrounded."""
    key = parse_submission(exercise_key(seed))
    steps = {name: key.steps[name].values.tolist() for name in ("Q", "K", "V", "scores")}
    d_k = key.steps["K"].values.shape[1]

    def write(name, exact, style):
        places, truncate, go_on_printed = style
        steps[name] = printed(exact, places, truncate)
        return np.array(steps[name], float) if go_on_printed else exact

    scaled = write("scaled", key.steps["scores"].values / np.sqrt(d_k), scaled_style)
    weights = write("weights", softmax(scaled), weights_style)
    write("output", weights @ key.steps["V"].values, output_style)
    judged = judge(**steps)
    assert judged.verdict == "right", first(judged)


# --- which step and which cell ---


def test_a_step_is_judged_by_the_given_step_before_it():
    judged = judge(scores=[[2, 0]], d_k=4, scaled=[[1, 1]], weights=[["0.5", "0.5"]])
    assert [(s.step, int(s.wrong.sum())) for s in judged.steps] == [
        ("scores", 0), ("scaled", 1), ("weights", 0),
    ]  # fmt: skip
    assert (first(judged).row, first(judged).column) == (0, 1)


def test_missing_steps_are_computed_on_the_way():
    eye = [[1, 0], [0, 1]]
    chain = {"tokens": ["a", "b"], "embeddings": [[2, 0], [0, 2]]}
    chain |= {"w_q": eye, "w_k": eye, "w_v": eye}
    right = softmax(np.array([[4, 0], [0, 4]]) / np.sqrt(2)) @ (2 * np.eye(2))
    good = [[f"{v:.4f}" for v in row] for row in right]
    assert judge(**chain, output=good).verdict == "right"
    bad = judge(**chain, output=[good[0], [good[1][0], "1.5000"]])
    assert bad.place(first(bad)) == "b, dimension 2"


def test_columns_of_weights_are_named_by_token():
    judged = judge(
        tokens=["x", "y"], scaled=[[0, 0], [0, 0]], weights=[["0.50", "0.50"], ["0.50", "0.60"]]
    )
    assert judged.place(first(judged)) == "y → y"


def test_unnamed_tokens_are_numbered():
    judged = judge(d_k=1, scores=[[3, 4]], scaled=[[3, 5]])
    assert judged.place(first(judged)) == "token 1 → token 2"


def test_blanks_are_counted_and_never_wrong():
    judged = judge(d_k=1, scores=[[3, 4], [5, 6]], scaled=[[3, None], None])
    assert (judged.verdict, judged.checked, judged.blank) == ("right", 1, 3)
    assert judge(d_k=1, scores=[[3, 4]], scaled=[[None, None]]).verdict == "nothing filled in"


def test_nothing_to_check_is_not_right():
    assert judge(weights=[["0.5", "0.5"]]).verdict == "nothing to check"
    assert judge(scores=[[1, 2]], scaled=[[1, 2]]).verdict == "nothing to check"  # d_k unknown


def test_a_blank_cell_makes_what_hangs_on_it_unchecked():
    judged = judge(weights=[["0.5", None], ["0.5", "0.5"]], V=[[1], [1]], output=[[9], [9]])
    output = judged.steps[-1]
    assert output.checked.tolist() == [[False], [True]]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"Q": [[1, 2]], "K": [[1, 2, 3]]}, "scores = Q · Kᵀ cannot be multiplied: Q is 1×2"),
        ({"embeddings": [[1, 2]], "w_q": [[1]]}, "Q = embeddings · w_q cannot be multiplied"),
        ({"weights": [["0.5", "0.5"]], "V": [[1]]}, "output = weights · V cannot be multiplied"),
        ({"scaled": [[1, 2]], "weights": [[1, 0, 0]]}, "the softmax runs over the tokens"),
        ({"d_k": 1, "scores": [[1]], "scaled": [[1], [2]]}, "scaled is 2×1, but .* gives 1×1"),
    ],
)
def test_sizes_that_do_not_fit_are_said(steps, words):
    with pytest.raises(ShapeError, match=words):
        judge(**steps)


def test_a_d_k_that_contradicts_the_keys_is_said():
    with pytest.raises(InputError, match="d_k is given as 3, but K has 2 columns"):
        judge(d_k=3, K=[[1, 2]])


@pytest.mark.parametrize("huge", ["1e300", "9" * 200])
def test_huge_numbers_are_judged_without_a_warning(huge, recwarn):
    judge(
        Q=[[huge, huge]], K=[[huge, "-1e300"]], V=[[1]], scores=[[1]], weights=[[1]], output=[[1]]
    )
    assert not recwarn
