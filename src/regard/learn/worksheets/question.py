"""The questions on the steps after one head: numbers drawn from a seed, answers, known slips.

A question is a sentence (`sheet.STEP_NAME` in the language tables), how its answer is computed, and
the answers of those who made a known mistake. Later questions may use the answers of earlier ones:
an answer is a fact under the name of its question.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from regard.arrays import Array
from regard.errors import InputError

Facts: TypeAlias = SimpleNamespace
Formula: TypeAlias = Callable[[Facts], ArrayLike]
_TRIES = 2000
PLACES = 2  # decimals of a key
_APART = 4 * 10.0**-PLACES  # between two answers that can be told apart


@dataclass(frozen=True)
class Slip:
    """A known mistake: its short name, its words, and the answer it leads to."""

    kind: str
    text: str
    answer: Formula


@dataclass(frozen=True)
class Question:
    """One question, whose answer is a row or a matrix of numbers with PLACES decimals."""

    name: str
    right: Formula
    slips: tuple[Slip, ...] = ()

    def answer(self, facts: Facts) -> Array:
        """The right answer as rows and columns."""
        return as_rows(self.right(facts))

    def slips_of(self, facts: Facts) -> Iterator[tuple[Slip, Array]]:
        """Every known slip with the answer it gives."""
        return ((slip, as_rows(slip.answer(facts))) for slip in self.slips)


@dataclass(frozen=True)
class Worksheet:
    """The questions of one step. `given` are the facts that the page lists as matrices."""

    name: str
    draw: Callable[[np.random.Generator], Mapping[str, Any]]
    questions: tuple[Question, ...]
    given: tuple[str, ...] = ()

    def facts(self, seed: int) -> Facts:
        """The numbers of a seed, answers included, drawn until no slip looks like another."""
        if seed < 0:
            raise InputError(f"an exercise's seed is a whole number of 0 or more; got {seed}")
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        for _ in range(_TRIES):
            facts = Facts(**self.draw(rng))
            for question in self.questions:
                setattr(facts, question.name, plain(question.answer(facts)))
            if all(_is_fair(question, facts) for question in self.questions):
                return facts
        raise InputError(f"no fair numbers for {self.name} with seed {seed}; take another seed")


def _is_fair(question: Question, facts: Facts) -> bool:
    """Whether the right answer and those of all slips can be told apart."""
    answers = [question.answer(facts), *(given for _, given in question.slips_of(facts))]
    return all(_differ(one, other) for one, other in combinations(answers, 2))


def _differ(one: Array, other: Array) -> bool:
    return one.shape != other.shape or bool((np.abs(one - other) >= _APART).any())


def as_rows(answer: ArrayLike) -> Array:
    """A vector or a matrix as rows and columns."""
    return np.atleast_2d(np.asarray(answer, dtype=np.float64)) + 0.0  # −0 becomes 0


def plain(answer: Array) -> Array:
    """The opposite of `as_rows`, for formulas: one row, or a matrix."""
    return answer[0] if len(answer) == 1 else answer


def _draw_heads(rng: np.random.Generator) -> dict[str, Any]:
    tenths = rng.integers(0, 21, (2, 2, 2)) / 10
    return {"head_1": tenths[0], "head_2": tenths[1],
            "w_o": rng.integers(-1, 3, (4, 3)).astype(float)}  # fmt: skip


HEADS = Worksheet(
    "heads",
    _draw_heads,
    (
        Question("concat", lambda f: np.hstack([f.head_1, f.head_2]), (
            Slip("heads-exchanged", "the heads are exchanged: head 1 stands first",
                 lambda f: np.hstack([f.head_2, f.head_1])),
            Slip("heads-added", "added instead of concatenated", lambda f: f.head_1 + f.head_2),
            Slip("rows-stacked", "stacked below each other; heads stand side by side",
                 lambda f: np.vstack([f.head_1, f.head_2])),
            Slip("heads-interleaved", "the numbers of the heads alternate; each head stays whole",
                 lambda f: np.stack([f.head_1, f.head_2], axis=2).reshape(2, 4)),
        )),
        Question("output", lambda f: f.concat @ f.w_o, (
            Slip("head-left-out", "head 2 left out", lambda f: f.concat[:, :2] @ f.w_o[:2]),
            Slip("head-left-out", "head 1 left out", lambda f: f.concat[:, 2:] @ f.w_o[2:]),
            Slip("heads-exchanged", "the heads met the wrong rows of w_o",
                 lambda f: f.concat[:, [2, 3, 0, 1]] @ f.w_o),
            Slip("not-projected", "not multiplied by w_o", lambda f: f.concat),
        )),
    ),
    given=("head_1", "head_2", "w_o"),
)  # fmt: skip


def _column(numbers: Any) -> Array:
    return np.asarray(numbers, dtype=np.float64)[:, None]


def _root(f: Facts, over: int) -> Any:
    centred = f.residual - _column(f.means)
    return np.sqrt((centred**2).sum(axis=1) / over)


def _draw_block(rng: np.random.Generator) -> dict[str, Any]:
    while True:
        x = rng.integers(0, 4, (2, 4)).astype(float)
        attention = rng.integers(-10, 21, (2, 4)) / 10
        if (x + attention).std(axis=1).min() > 0.6:
            return {"x": x, "attention": attention}


BLOCK = Worksheet(
    "block",
    _draw_block,
    (
        Question("residual", lambda f: f.x + f.attention, (
            Slip("residual-left-out", "x left out: the attention is added to x",
                 lambda f: f.attention),
            Slip("subtracted", "subtracted instead of added", lambda f: f.x - f.attention),
            Slip("multiplied", "multiplied instead of added", lambda f: f.x * f.attention),
        )),
        Question("means", lambda f: f.residual.mean(axis=1), (
            Slip("over-columns", "over the tokens; layer norm takes each token by itself",
                 lambda f: f.residual.mean(axis=0)),
            Slip("sum", "the sum is not divided by the number of dimensions",
                 lambda f: f.residual.sum(axis=1)),
        )),
        Question("deviations", lambda f: _root(f, 4), (
            Slip("n-minus-1", "divided by 3 instead of 4 under the root", lambda f: _root(f, 3)),
            Slip("variance", "this is the variance; the deviation is its root",
                 lambda f: _root(f, 4) ** 2),
            Slip("not-divided", "not divided by 4 under the root", lambda f: _root(f, 1)),
        )),
        Question("normed", lambda f: (f.residual - _column(f.means)) / _column(f.deviations), (
            Slip("not-centred", "the mean is not subtracted",
                 lambda f: f.residual / _column(f.deviations)),
            Slip("not-divided", "not divided by the deviation",
                 lambda f: f.residual - _column(f.means)),
            Slip("variance", "divided by the variance instead of its root",
                 lambda f: (f.residual - _column(f.means)) / _column(f.deviations) ** 2),
            Slip("over-columns", "over the tokens; layer norm takes each token by itself",
                 lambda f: (f.residual - f.residual.mean(axis=0))
                 / np.maximum(f.residual.std(axis=0), 1e-9)),
        )),
    ),
    given=("x", "attention"),
)  # fmt: skip

LATER_STEPS: Final = {step.name: step for step in (HEADS, BLOCK)}
