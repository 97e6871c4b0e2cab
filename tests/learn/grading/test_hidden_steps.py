"""A step that was rounded and not printed makes nothing wrong, and hides no slip after it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.attention import softmax
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission

ORDER = ("Q", "K", "V", "scores", "scaled", "weights", "output")


def written(matrix, places, cut):
    """As text with so many places: a whole number of units, so that nothing is rounded twice."""
    units = np.round(matrix * 10.0**places, 6)
    units = np.trunc(units) if cut else np.round(units)
    return [[f"{u / 10.0**places:.{places}f}" for u in row] for row in units]


class Student:
    """Works one calculation, rounding or cutting as it goes; prints only some of the steps."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng([seed, 0x5EED])
        tokens, width = rng.integers(2, 6), rng.integers(2, 5)
        d_k, d_v = rng.integers(1, 5), rng.integers(1, 4)
        places = rng.integers(0, 3)  # of the task's numbers
        self.task = {
            name: np.round(rng.normal(0, 1, size), places)
            for name, size in {
                "embeddings": (tokens, width), "w_q": (width, d_k), "w_k": (width, d_k),
                "w_v": (width, d_v),
            }.items()
        }  # fmt: skip
        self.root = np.sqrt(d_k)
        self.habit = {
            step: (int(rng.integers(2, 5)), bool(rng.integers(2)), bool(rng.integers(4)))
            for step in (*ORDER, "exponentials")
        }
        count = rng.integers(1, len(ORDER) + 1)
        self.shown = {*rng.choice(ORDER, count, replace=False).tolist(), "output"}

    def work(self, slip=None):
        """The document; `slip` changes one printed step before the next goes on with it."""
        done = dict(self.task)
        document = {
            name: [[f"{v:.4f}".rstrip("0").rstrip(".") for v in row] for row in matrix]
            for name, matrix in self.task.items()
        }
        rules = {
            **{
                s: (lambda w: lambda: done["embeddings"] @ done[w])(f"w_{s.lower()}") for s in "QKV"
            },
            "scores": lambda: done["Q"] @ done["K"].T,
            "scaled": lambda: done["scores"] / self.root,
            "weights": lambda: self.softmax(done["scaled"]),
            "output": lambda: done["weights"] @ done["V"],
        }
        for step in ORDER:
            places, cut, goes_on_rounded = self.habit[step]
            exact = rules[step]()
            texts = written(exact, places, cut)
            done[step] = np.array(texts, float) if goes_on_rounded else exact
            if step in self.shown:
                if slip and slip[0] == step:
                    texts, done[step] = slip[1](texts, done[step])
                document[step] = texts
        return document

    def softmax(self, scaled):
        if "weights" in self.shown or np.abs(scaled).max() > 4:
            return softmax(scaled)
        places, cut, is_rounded = self.habit["exponentials"]
        e = np.exp(scaled)
        e = np.array(written(e, places, cut), float) if is_rounded else e
        return e / e.sum(axis=1, keepdims=True) if e.sum(axis=1).min() > 0 else softmax(scaled)


def judge(document):
    return mark(parse_submission(json.dumps(document)))


def off_by(amount):
    def slip(texts, matrix):
        row, column = 0, matrix.shape[1] - 1
        places = len(texts[0][0].partition(".")[2])
        texts[row][column] = f"{float(texts[row][column]) + amount:.{places}f}"
        matrix = matrix.copy()
        matrix[row, column] = float(texts[row][column])
        return texts, matrix

    return slip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 400, 25))
def test_hidden_rounded_steps_make_nothing_wrong_and_hide_no_slip(first):
    for seed in range(first, first + 25):
        assert judge(Student(seed).work()).verdict == "right", seed
        for amount in (0.5, -0.25):
            student = Student(seed)
            step = str(student.rng.choice(sorted(student.shown)))
            judged = judge(student.work(slip=(step, off_by(amount))))
            assert judged.first_wrong and judged.first_wrong.step == step, (seed, amount)
