"""A lesson as the page reads it: LessonData in web/src/learner/data.ts, field by field.

The page computes every step itself, so what it starts from is enough.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from regard.arrays import Array
from regard.learn import Lesson, Options
from regard.learn.grading.exercise import draw_exercise
from regard.learn.languages import LANGUAGES, Phrase, table_of
from regard.learn.lesson import embeddings
from regard.learn.lesson.block import run_block
from regard.learn.lesson.embeddings import sinusoids
from regard.learn.lesson.projections import (
    Projections,
    Triple,
    identity_projections,
    projections_by_hand,
    random_projections,
    seed_in,
    settle,
)

EXERCISES: Final = (4, 1, 2, 3)  # seeds; from two numbers per token to four
SPLITS: Final = (1, 2, 4)  # heads
PAGE_SEED: Final = 1  # of the random heads that the page offers


def lesson_data(lesson: Lesson) -> dict[str, Any]:
    """Everything the learner's room needs, as lists and plain values."""
    x, w_o = lesson.embedding, lesson.projections.w_o
    return {
        "tokens": list(lesson.sentence.tokens),
        "labels": list(lesson.sentence.labels),
        "row": lesson.sentence.focus,
        "options": _options(lesson.options),
        "embeddings": {
            "source": x.source.as_dict(),
            "names": None if x.names is None else list(x.names),
            "made_up": list(x.made_up),
            "words": x.words.tolist(),
            "positions": sinusoids(*x.words.shape).tolist(),
        },
        "projections": lesson.projections.source.as_dict(),
        "heads": [_triple(head) for head in lesson.projections.heads],
        "w_o": None if w_o is None else w_o.tolist(),
        "block": _block(lesson),
        "is_notes_example": lesson.is_notes_example,
        "splits": _splits(lesson),
        "real": _carried("real_head.json"),
        "next_words": _carried("next_words.json"),
        "exercises": [_exercise(seed) for seed in EXERCISES],
        "languages": {code: table_of(code) for code in LANGUAGES},
        "vocabularies": vocabularies(),
        "head_sources": _head_sources(),
    }


def _head_sources() -> dict[str, Any]:
    """Where the projections come from that the page can make itself, in words."""
    one, two = (identity_projections(settle(8, heads=n), w_o=n > 1) for n in (1, 2))
    drawn = random_projections(settle(8, heads=2), PAGE_SEED, w_o=True)
    made = {"one": one, "split": two, "by-hand": projections_by_hand(), "random": drawn}
    return {name: given.source.as_dict() for name, given in made.items()}


def vocabularies() -> dict[str, Any]:
    """The words that a sentence of the page can have vectors for; the long list as it is stored."""
    short = (embeddings.notes(), embeddings.features())
    found: dict[str, Any] = {
        one.name: {
            "names": None if one.names is None else list(one.names),
            "width": one.width,
            "source": one.source.as_dict(),
            "words": {word: list(vector) for word, vector in one.words.items()},
        }
        for one in short
    }
    packed = embeddings.packed_smollm2()
    return found | {"smollm2": packed | {"source": embeddings.smollm2().source.as_dict()}}


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
    width = lesson.embedding.width
    return [
        {
            "heads": [_triple(head) for head in split.heads],
            "w_o": None if split.w_o is None else split.w_o.tolist(),
            "words": words.as_dict(),
        }
        for count in SPLITS
        if width % count == 0
        for split, words in [_split(lesson, count)]
    ]


def _split(lesson: Lesson, count: int) -> tuple[Projections, Phrase]:
    """Identities are made anew for every count: cut out of one, the notes' heads were equal."""
    whole, words = _whole(lesson)
    if lesson.options.projections == "identity" and words == lesson.projections.source:
        own = identity_projections(settle(lesson.embedding.width, heads=count), w_o=True)
        return own, own.source
    return Projections(tuple(_cut(whole, count)), whole.w_o, whole.source), words


def _whole(lesson: Lesson) -> tuple[Projections, Phrase]:
    """One head as wide as the input, with w_o: the lesson's own where they are of that size."""
    own, width = lesson.projections, lesson.embedding.width
    joined = [
        np.concatenate([getattr(head, name) for head in own.heads], axis=1)
        for name in ("w_q", "w_k", "w_v")
    ]
    if any(matrix.shape != (width, width) for matrix in joined):
        drawn = random_projections(settle(width), own.seed, w_o=True)
        return drawn, Phrase("origins.not_own", {"source": drawn.source})
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


def _carried(name: str) -> Any:
    """What tools/real_head.py or tools/next_words.py wrote; None in a package without it."""
    path = files("regard.viewer") / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _exercise(seed: int) -> dict[str, Any]:
    tokens, x, head = draw_exercise(seed)
    task = Triple(head.w_q, head.w_k, head.w_v)
    return {"seed": seed, "tokens": tokens, "x": x.tolist(), "heads": [_triple(task)]}
