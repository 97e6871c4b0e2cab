"""Worksheets for the steps after one head: two heads through w_o, and the start of the block."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.arrays import Array
from regard.learn.worksheets.question import Facts, Question, Slip, Worksheet


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
    is_step=True,
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
    is_step=True,
)  # fmt: skip

STEPS = (HEADS, BLOCK)
