"""Exercises to work by hand, a new one for every seed, and their keys.

Small whole numbers, three tokens, and weights that are neither equal nor hidden behind 0.0000.
An exercise is Markdown that `regard grade` reads, with its answers left blank.
"""

from __future__ import annotations

import numpy as np

from regard.errors import InputError
from regard.learn.steps import Array, Head, attend

_SENTENCES = (
    "The cat sat", "Birds sing early", "Rain fell softly", "She reads books", "Dogs chase cars",
    "Time flies fast", "Stars shine tonight", "We drink tea", "Snow covers hills", "He plays chess",
    "Bees make honey", "Trains run late", "Children love stories", "Rivers carve stone",
)  # fmt: skip
_SHAPES = ((2, 1, 2), (2, 2, 2), (2, 4, 2), (3, 4, 2), (4, 4, 3))  # width, d_k, d_v
_LEAST_WEIGHT = 0.01
_BLANK = "?"


def exercise_markdown(seed: int) -> str:
    """The exercise of a seed: its task filled in, its answers blank."""
    return _page(seed, answers=False)


def exercise_key(seed: int) -> str:
    """The same page with every answer."""
    return _page(seed, answers=True)


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


def _is_fair(x: Array, head: Head) -> bool:
    """Every token differs from the others, in what it is, what it says and where it looks."""
    spread = np.ptp(head.weights, axis=1)
    rows = (x, head.values, head.weights)
    return bool(
        head.weights.min() >= _LEAST_WEIGHT
        and spread.min() > 0.05
        and all(len(np.unique(matrix.round(4), axis=0)) == len(matrix) for matrix in rows)
    )


def _page(seed: int, *, answers: bool) -> str:
    tokens, x, head = draw_exercise(seed)
    d_k = head.w_k.shape[1]
    title = f"# Attention by hand, exercise {seed}" + (": the key" if answers else "")
    dims = [str(i + 1) for i in range(max(x.shape[1], head.w_q.shape[1], head.w_v.shape[1]))]

    def task(name: str, matrix: Array, rows: list[str]) -> str:
        return _table(f"## {name}", "", rows, dims[: matrix.shape[1]], matrix, shown=True)

    def answer(name: str, how: str, matrix: Array, columns: list[str]) -> str:
        return _table(f"## {name}", how, tokens, columns, matrix, shown=answers)

    return "\n".join(
        [
            title, "", *_OPENING, "",
            "## tokens", "", ", ".join(tokens), "",
            task("embeddings", x, tokens),
            *(task(name, getattr(head, name), dims) for name in ("w_q", "w_k", "w_v")),
            answer("Q", "embeddings · w_q", head.queries, dims[:d_k]),
            answer("K", "embeddings · w_k", head.keys, dims[:d_k]),
            answer("V", "embeddings · w_v", head.values, dims[: head.w_v.shape[1]]),
            answer("scores", "Q · Kᵀ: every query against every key", head.scores, tokens),
            answer("scaled", f"scores ÷ √d_k, here √{d_k}", head.scaled, tokens),
            answer("weights", "softmax along each row, four decimals", head.weights, tokens),
            answer("output", "weights · V, four decimals", head.context, dims[: head.w_v.shape[1]]),
        ]
    )  # fmt: skip


_OPENING = (
    "Work from top to bottom and put a number in place of every `?`. Decimals or fractions will",
    "do, rounded or cut. To check it, whole or in part: `regard grade THIS_FILE.md`.",
)


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
