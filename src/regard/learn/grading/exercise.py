"""Exercises to work by hand, a new one for every seed, and their keys.

Small whole numbers, three tokens, and weights that are neither equal nor hidden behind 0.0000.
An exercise is Markdown that `regard grade` reads, with its answers left blank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.grading.submission import Assigned
from regard.learn.languages import language
from regard.learn.lesson.head import Head, attend
from regard.learn.text import page_lines

_SENTENCES = (
    "The cat sat", "Birds sing early", "Rain fell softly", "She reads books", "Dogs chase cars",
    "Time flies fast", "Stars shine tonight", "We drink tea", "Snow covers hills", "He plays chess",
    "Bees make honey", "Trains run late", "Children love stories", "Rivers carve stone",
)  # fmt: skip
_SHAPES = ((2, 1, 2), (2, 2, 2), (2, 4, 2), (3, 4, 2), (4, 4, 3))  # width, d_k, d_v
ANSWERS = ("Q", "K", "V", "scores", "scaled", "weights", "output")
_FIELDS = {
    "Q": "queries", "K": "keys", "V": "values", "scores": "scores", "scaled": "scaled",
    "weights": "weights", "output": "context",
}  # fmt: skip
_BY_KEY = ("scores", "scaled", "weights")
_LEAST_WEIGHT = 0.01
_BLANK = "?"


def exercise_markdown(seed: int) -> str:
    """The exercise of a seed: its task filled in, its answers blank."""
    return exercise_page(seed, answers=False)


def exercise_key(seed: int) -> str:
    """The same page with every answer."""
    return exercise_page(seed, answers=True)


def draw_exercise(seed: int) -> tuple[list[str], Array, Head]:
    """Tokens, embeddings and every step; drawn again until the numbers make a fair exercise."""
    if seed < 0:
        raise InputError(f"an exercise's seed is a whole number of 0 or more; got {seed}")
    rng = np.random.default_rng([seed, 0xA77E])
    tokens = _SENTENCES[rng.integers(len(_SENTENCES))].split()
    width, d_k, d_v = _SHAPES[rng.integers(len(_SHAPES))]
    while True:
        x = rng.integers(0, 3, (len(tokens), width)).astype(float)
        w_q, w_k, w_v = (rng.integers(-1, 3, (width, d)).astype(float) for d in (d_k, d_k, d_v))
        head = attend(x, w_q, w_k, w_v)
        if _is_fair(x, head):
            return tokens, x, head


def assigned(seed: int, name: str = "exercise", asked: Sequence[str] | None = None) -> Assigned:
    """What the sheet of a seed gives and asks for; `asked` as in `exercise_page`."""
    tokens, x, head = draw_exercise(seed)
    answers = {name: getattr(head, field) for name, field in _FIELDS.items()}
    wanted = tuple(asked or ANSWERS)
    before = ANSWERS[: ANSWERS.index(wanted[0])]
    given = {"embeddings": x, "w_q": head.w_q, "w_k": head.w_k, "w_v": head.w_v}
    given |= {name: answers[name] for name in before}
    sizes = {name: (len(tokens), answers[name].shape[1]) for name in wanted}
    return Assigned(name, seed, given, sizes)


def _is_fair(x: Array, head: Head) -> bool:
    """Every token differs from the others, in what it is, what it says and where it looks."""
    spread = np.ptp(head.weights, axis=1)
    rows = (x, head.values, head.weights)
    return bool(
        head.weights.min() >= _LEAST_WEIGHT
        and spread.min() > 0.05
        and all(len(np.unique(matrix.round(4), axis=0)) == len(matrix) for matrix in rows)
    )


def exercise_page(
    seed: int,
    *,
    answers: bool,
    asked: Sequence[str] | None = None,
    line: str = "",
    code: str = "en",
) -> str:
    """The page of a seed in a language. With `asked`, the steps before those are filled in and the
    steps after them are left out; `line` says so to the grader."""
    say = language(code)
    tokens, x, head = draw_exercise(seed)
    dims = [str(i + 1) for i in range(max(x.shape[1], head.w_q.shape[1], head.w_v.shape[1]))]
    title = say("sheet.title_key" if answers else "sheet.title", seed=seed,
                name=say(f"sheet.{'_'.join(asked).lower() if asked else 'by_hand'}"))  # fmt: skip
    last = ANSWERS.index(asked[-1]) if asked else len(ANSWERS) - 1

    def task(name: str, matrix: Array, rows: list[str]) -> str:
        return _table(f"## {name}", "", rows, dims[: matrix.shape[1]], matrix, shown=True)

    def answer(name: str) -> str:
        matrix = getattr(head, _FIELDS[name])
        columns = tokens if name in _BY_KEY else dims[: matrix.shape[1]]
        how = say(f"sheet.how_{name.lower()}", d_k=head.w_k.shape[1])
        is_shown = answers or (asked is not None and name not in asked)
        return _table(f"## {name}", how, tokens, columns, matrix, shown=is_shown)

    named = "opening_key" if answers else "opening_step" if asked else "opening"
    opening = say(f"sheet.{named}", steps=", ".join(asked or ()))
    return "\n".join(
        [
            f"# {title}", "", *([line, ""] if line else []), *page_lines(opening), "",
            "## tokens", "", ", ".join(tokens), "",
            task("embeddings", x, tokens),
            *(task(name, getattr(head, name), dims) for name in ("w_q", "w_k", "w_v")),
            *(answer(name) for name in ANSWERS[: last + 1]),
        ]
    )  # fmt: skip


def _table(
    heading: str, how: str, rows: list[str], columns: list[str], matrix: Array, *, shown: bool
) -> str:
    places = 0 if (matrix == matrix.round()).all() else 1 if (matrix * 2 % 1 == 0).all() else 4
    texts = [[f"{v + 0.0:.{places}f}" if shown else _BLANK for v in row] for row in matrix]
    wide = max(len(text) for line in (columns, *texts) for text in line)
    left = max(map(len, rows))
    lines = [heading, "", *([how, ""] if how else [])]
    lines.append(f"| {'':<{left}} | " + " | ".join(name.rjust(wide) for name in columns) + " |")
    lines.append(f"|-{'-' * left}-|" + "|".join(["-" * (wide + 1) + ":"] * len(columns)) + "|")
    for label, row in zip(rows, texts, strict=False):
        cells = " | ".join(text.rjust(wide) for text in row)
        lines.append(f"| {label:<{left}} | {cells} |")
    return "\n".join([*lines, ""])
