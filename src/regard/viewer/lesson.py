"""A lesson as the page reads it: LessonData in web/src/learner/data.ts, field by field.

The page computes every step itself, so what it starts from is enough.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from regard.learn import Lesson, Options
from regard.learn.grading.exercise import draw_exercise
from regard.learn.lesson.block import run_block
from regard.learn.lesson.embeddings import sinusoids
from regard.learn.lesson.projections import (
    Projections,
    Triple,
    identity_projections,
    random_projections,
    seed_in,
    settle,
)
from regard.learn.steps import Array

EXERCISES: Final = (4, 1, 2, 3)  # seeds; from two numbers per token to four
SPLITS: Final = (1, 2, 4)  # heads


def lesson_data(lesson: Lesson) -> dict[str, Any]:
    """Everything the learner's room needs, as lists and plain values."""
    x, w_o = lesson.embedding, lesson.projections.w_o
    return {
        "tokens": list(lesson.sentence.tokens),
        "labels": list(lesson.sentence.labels),
        "row": lesson.sentence.focus,
        "options": _options(lesson.options),
        "embeddings": {
            "source": x.source,
            "made_up": list(x.made_up),
            "words": x.words.tolist(),
            "positions": sinusoids(*x.words.shape).tolist(),
        },
        "projections": lesson.projections.source,
        "heads": [_triple(head) for head in lesson.projections.heads],
        "w_o": None if w_o is None else w_o.tolist(),
        "block": _block(lesson),
        "is_notes_example": lesson.is_notes_example,
        "splits": _splits(lesson),
        "real": _real(),
        "exercises": [_exercise(seed) for seed in EXERCISES],
    }


def _options(options: Options) -> dict[str, Any]:
    """Files by their names alone: a page is passed on, folders are nobody else's business."""
    given = options.as_dict()
    for name in ("embeddings", "projections"):
        if given[name] is not None:
            given[name] = Path(given[name]).name
    return given


def _triple(of: Triple) -> dict[str, Any]:
    return {"w_q": of.w_q.tolist(), "w_k": of.w_k.tolist(), "w_v": of.w_v.tolist()}


def _block(lesson: Lesson) -> dict[str, Any]:
    """w_1 and w_2, which depend on the width and the seed alone."""
    x = lesson.embedding.x
    block = lesson.block or run_block(x, x, seed=lesson.projections.seed)
    return {"w_1": block.w_1.tolist(), "w_2": block.w_2.tolist()}


def _splits(lesson: Lesson) -> list[dict[str, Any]]:
    """The same numbers cut into 1, 2 and 4 heads, as far as the width divides."""
    whole, words = _whole(lesson)
    width = lesson.embedding.width
    return [
        {
            "heads": [_triple(head) for head in _cut(whole, count)],
            "w_o": None if whole.w_o is None else whole.w_o.tolist(),
            "words": words,
        }
        for count in SPLITS
        if width % count == 0
    ]


def _whole(lesson: Lesson) -> tuple[Projections, str]:
    """One head as wide as the input, with w_o: the lesson's own where they are of that size."""
    own, width = lesson.projections, lesson.embedding.width
    joined = [
        np.concatenate([getattr(head, name) for head in own.heads], axis=1)
        for name in ("w_q", "w_k", "w_v")
    ]
    if any(matrix.shape != (width, width) for matrix in joined):
        drawn = random_projections(settle(width), own.seed, w_o=True)
        return drawn, "Not this lesson's own, whose widths differ: " + drawn.source
    w_o = own.w_o
    if w_o is None or w_o.shape != (width, width):
        w_o = _made_w_o(lesson, width)
    return Projections((Triple(*joined),), w_o, own.source, own.seed), own.source


def _made_w_o(lesson: Lesson, width: int) -> Array | None:
    """A lesson's single head has no w_o; here it gets the one that several heads would have."""
    if seed_in(lesson.options.projections) is None:
        return identity_projections(settle(width), w_o=True).w_o
    return random_projections(settle(width), lesson.projections.seed, w_o=True).w_o


def _cut(whole: Projections, count: int) -> list[Triple]:
    (one,) = whole.heads
    parts = (np.split(matrix, count, axis=1) for matrix in (one.w_q, one.w_k, one.w_v))
    return [Triple(*three) for three in zip(*parts, strict=True)]


def _real() -> Any:
    """What tools/real_head.py wrote; None where the package was built without it."""
    path = files("regard.viewer") / "real_head.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _exercise(seed: int) -> dict[str, Any]:
    tokens, x, head = draw_exercise(seed)
    task = Triple(head.w_q, head.w_k, head.w_v)
    return {"seed": seed, "tokens": tokens, "x": x.tolist(), "heads": [_triple(task)]}
