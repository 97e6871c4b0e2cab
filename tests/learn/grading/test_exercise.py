"""Every seed gives a fair exercise that grading reads, and a key that is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.learn.grading.exercise import exercise_key, exercise_markdown
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission

seeds = st.integers(0, 2**40)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_every_key_is_right_and_complete(seed):
    judged = mark(parse_submission(exercise_key(seed)))
    assert (judged.verdict, judged.blank) == ("right", 0)
    assert {step.step for step in judged.steps if step.checked.any()} == {
        "Q", "K", "V", "scores", "scaled", "weights", "output",
    }  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_exercise_is_the_key_without_its_answers(seed):
    task = parse_submission(exercise_markdown(seed))
    key = parse_submission(exercise_key(seed))
    assert task.tokens == key.tokens and task.steps.keys() == key.steps.keys()
    for name, printed in key.steps.items():
        given_cells = task.steps[name].values
        assert given_cells.shape == printed.values.shape
        if name in ("embeddings", "w_q", "w_k", "w_v"):
            np.testing.assert_array_equal(given_cells, printed.values)
        else:
            assert np.isnan(given_cells).all()


def test_an_untouched_exercise_is_not_right():
    judged = mark(parse_submission(exercise_markdown(3)))
    assert judged.verdict == "nothing filled in" and judged.blank > 30


def test_an_exercise_filled_in_part_is_right_so_far():
    task, key = exercise_markdown(3), exercise_key(3)
    start, end = key.index("## Q"), key.index("## K")
    filled = task[: task.index("## Q")] + key[start:end] + task[task.index("## K") :]
    judged = mark(parse_submission(filled))
    assert judged.verdict == "right" and judged.checked > 0 and judged.blank > 0


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_the_numbers_are_friendly(seed):
    steps = parse_submission(exercise_key(seed)).steps
    for name in ("embeddings", "w_q", "w_k", "w_v", "Q", "K", "V", "scores"):
        assert (steps[name].values % 1 == 0).all()
    assert np.abs(steps["embeddings"].values).max() <= 2
    weights = steps["weights"].values
    assert weights.min() >= 0.01 and np.ptp(weights, axis=1).min() > 0.04


def test_seeds_differ_and_repeat():
    pages = {exercise_key(seed) for seed in range(40)}
    assert len(pages) == 40
    assert exercise_markdown(7) == exercise_markdown(7)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="0 or more; got -1"):
        exercise_markdown(-1)
