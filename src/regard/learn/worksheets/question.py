"""What a worksheet is made of: numbers drawn from a seed, questions about them, known slips.

A question is a sentence (`sheet.LAB_NAME` in the language tables), how its answer is computed, and
the answers of those who made a known mistake. Later questions may use the answers of earlier ones:
an answer is a fact under the name of its question.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from regard.arrays import Array
from regard.errors import InputError

Facts: TypeAlias = SimpleNamespace
Formula: TypeAlias = Callable[[Facts], ArrayLike]
_TRIES = 2000
_APART = 4  # units of the last place between two answers that can be told apart


@dataclass(frozen=True)
class Slip:
    """A known mistake: its short name, its words, and the answer it leads to."""

    kind: str
    text: str
    answer: Formula


@dataclass(frozen=True)
class Question:
    """One question. `places` are the decimals of the key, 0 for whole numbers; with `shape` the
    answer is the sizes of an array. `also` are other right ways, from rounded answers before it."""

    name: str
    right: Formula
    slips: tuple[Slip, ...] = ()
    places: int = 2
    shape: bool = False
    also: tuple[Formula, ...] = ()

    def answer(self, facts: Facts) -> Array:
        """The right answer as rows and columns."""
        return as_rows(self.right(facts))

    def slips_of(self, facts: Facts) -> Iterator[tuple[Slip, Array]]:
        """Every known slip with the answer it gives."""
        return ((slip, as_rows(slip.answer(facts))) for slip in self.slips)


@dataclass(frozen=True)
class Worksheet:
    """The questions of one lab or step. `given` are the facts that the page lists as matrices."""

    name: str
    draw: Callable[[np.random.Generator], Mapping[str, Any]]
    questions: tuple[Question, ...]
    given: tuple[str, ...] = ()
    is_step: bool = False

    @property
    def kind(self) -> str:
        """What the line that names the sheet begins with."""
        return "step" if self.is_step else "lab"

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
    least = _APART * 10.0**-question.places if question.places else 0.5
    return all(_differ(one, other, least) for one, other in combinations(answers, 2))


def _differ(one: Array, other: Array, least: float) -> bool:
    return one.shape != other.shape or bool((np.abs(one - other) >= least).any())


def as_rows(answer: ArrayLike) -> Array:
    """A number, a vector or a matrix as rows and columns."""
    return np.atleast_2d(np.asarray(answer, dtype=np.float64)) + 0.0  # −0 becomes 0


def plain(answer: Array) -> Any:
    """The opposite of `as_rows`, for formulas: one number, one row, or a matrix."""
    if answer.size == 1:
        return float(answer[0, 0])
    return answer[0] if len(answer) == 1 else answer
