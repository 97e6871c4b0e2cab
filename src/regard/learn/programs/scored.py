"""Scores and their scale."""

from __future__ import annotations

from typing import Final

from regard.learn.programs.mistake import Mistake, mistake

_BATCH: Final = "every entry of a batch attends to itself alone"

SCORED: Final[tuple[Mistake, ...]] = (
    mistake(
        "scores",
        "queries and keys swapped",
        "the scores are transposed: keys ask, queries answer",
        "scores = Q Kᵀ",
        scores="kq",
        mask=["before", "transposed"],
    ),
    mistake("scores", "wrong factor", "the scores are Q Qᵀ", "scores = Q Kᵀ", scores="qq"),
    mistake("scores", "wrong factor", "the scores are K Kᵀ", "scores = Q Kᵀ", scores="kk"),
    mistake(
        "scores",
        "wrong factor",
        "the scores use V in place of K",
        "scores = Q Kᵀ",
        scores=["qv", "vq"],
    ),
    mistake(
        "scores",
        "wrong factor",
        "the scores use V in place of Q",
        "scores = Q Kᵀ",
        scores=["vk", "kv", "vv"],
    ),
    mistake(
        "scores", "wrong sign", "the scores have the wrong sign", "scores = Q Kᵀ", scores="-qk"
    ),
    mistake(
        "scores",
        "not a dot product",
        "the scores are no dot products",
        "scores = Q Kᵀ",
        scores=["distance", "cosine", "added"],
    ),
    mistake(
        "scores",
        "batch mixed up",
        "queries meet the keys of another entry of the batch",
        _BATCH,
        scores="nextbatch",
    ),
    mistake(
        "scaling",
        "no scale",
        "not scaled",
        "divide the scores by √d, the width of one head",
        scale="none",
    ),
    mistake(
        "scaling", "wrong scale", "divided by d, not by √d", "divide by √d", scale=["1/d", "1/2d"]
    ),
    mistake("scaling", "wrong scale", "multiplied by √d, not divided", "divide by √d", scale="*d"),
    mistake("scaling", "wrong scale", "multiplied by d", "divide by √d", scale="**d"),
    mistake(
        "scaling",
        "√embed",
        "divided by √embed, not by √head",
        "divide by √d, d the width of one head",
        scale=["embed", "width"],
    ),
    mistake(
        "scaling",
        "wrong scale",
        "divided by the embedding's width",
        "divide by √d, d the width of one head",
        scale=["1/embed", "1/width"],
    ),
    mistake(
        "scaling",
        "wrong scale",
        "multiplied by √embed",
        "divide by √d, d the width of one head",
        scale="*embed",
    ),
    mistake(
        "scaling",
        "√heads",
        "divided by √heads",
        "divide by √d, d the width of one head",
        scale="heads",
    ),
    mistake(
        "scaling",
        "√tokens",
        "divided by √tokens",
        "divide by √d, d the width of one head",
        scale=["tokens", "keys"],
    ),
    mistake(
        "scaling", "wrong scale", "divided by the number of keys", "divide by √d", scale="1/keys"
    ),
    mistake(
        "scaling",
        "√d_v",
        "divided by the square root of the values' width",
        "divide by √d of queries and keys",
        scale="d_v",
    ),
    mistake("scaling", "wrong scale", "divided by √batch", "divide by √d", scale="batch"),
    mistake("scaling", "wrong scale", "divided by √(d/2)", "divide by √d", scale="d/2"),
    mistake("scaling", "wrong scale", "divided by d²", "divide by √d", scale="1/d2"),
    mistake(
        "scaling", "wrong scale", "divided by the fourth root of d", "divide by √d", scale="d**.25"
    ),
    mistake(
        "scaling",
        "scale after softmax",
        "scaled after the softmax",
        "divide the scores by √d, before the softmax",
        scale=["late", "both"],
    ),
)
