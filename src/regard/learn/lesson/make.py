"""The lesson as one value: a sentence through every head, w_o and, if asked, the whole block."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from regard.display import as_html
from regard.errors import InputError, ShapeError
from regard.learn.lesson.block import Block, run_block
from regard.learn.lesson.embeddings import Embedding, embed
from regard.learn.lesson.projections import (
    Projections,
    identity_projections,
    random_projections,
    seed_in,
    settle,
)
from regard.learn.lesson.projections_file import read_projections
from regard.learn.lesson.sentence import Sentence, read_sentence
from regard.learn.steps import Array, Head, attend
from regard.learn.text import quoted
from regard.mask import Causal


@dataclass(frozen=True)
class Options:
    """What was asked for. None leaves the choice to the lesson."""

    sentence: str
    token: str | None = None
    projections: str = "identity"
    embeddings: Path | None = None
    d_k: int | None = None
    d_v: int | None = None
    heads: int | None = None
    scaled: bool = True
    causal: bool = False
    positions: bool = False
    block: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}


@dataclass(frozen=True)
class Lesson:
    """Everything that was computed, in the order it was computed."""

    options: Options
    sentence: Sentence
    embedding: Embedding
    projections: Projections
    heads: tuple[Head, ...]
    concat: Array  # (tokens, heads · d_v): the heads' outputs side by side
    output: Array  # concat @ w_o, or concat itself where there is no w_o
    block: Block | None

    _repr_html_ = as_html

    @property
    def is_notes_example(self) -> bool:
        """Whether these are the numbers the notes work with."""
        asked = self.options
        plain = asked.projections == "identity" and asked.embeddings is None and asked.scaled
        words = tuple(token.lower() for token in self.sentence.tokens)
        shape = (self.projections.sizes.heads, self.heads[0].w_k.shape[1], self.output.shape[1])
        return (
            plain
            and not (asked.causal or asked.positions)
            and words == ("the", "cat", "sat")
            and shape == (1, 4, 4)
        )

    def as_dict(self) -> dict[str, Any]:
        """Every intermediate of every head as nested lists; hidden scores are None."""
        x, w_o = self.embedding, self.projections.w_o
        return {
            "tokens": list(self.sentence.tokens),
            "labels": list(self.sentence.labels),
            "row": self.sentence.focus,
            "options": self.options.as_dict(),
            "embeddings": {
                "source": x.source,
                "made_up": list(x.made_up),
                "words": x.words.tolist(),
                "positions": None if x.positions is None else x.positions.tolist(),
                "x": x.x.tolist(),
            },
            "projections": self.projections.source,
            "heads": [head.as_dict() for head in self.heads],
            "concat": self.concat.tolist(),
            "w_o": None if w_o is None else w_o.tolist(),
            "output": self.output.tolist(),
            "block": None if self.block is None else self.block.as_dict(),
        }


def make_lesson(options: Options) -> Lesson:
    """Work the whole lesson out."""
    sentence = read_sentence(options.sentence, options.token)
    embedding = embed(sentence.tokens, file=options.embeddings, positions=options.positions)
    projections = _projections(options, embedding.width)
    mask = Causal() if options.causal else None
    heads = tuple(
        attend(embedding.x, t.w_q, t.w_k, t.w_v, mask=mask, scaled=options.scaled)
        for t in projections.heads
    )
    concat = np.concatenate([head.context for head in heads], axis=1)
    output = concat if projections.w_o is None else concat @ projections.w_o
    block = _block(embedding.x, output, projections.seed) if options.block else None
    return Lesson(options, sentence, embedding, projections, heads, concat, output, block)


def _projections(options: Options, width: int) -> Projections:
    spec, seed = options.projections, seed_in(options.projections)
    if spec != "identity" and seed is None:
        return _from_file(options, width)
    sizes = settle(width, heads=options.heads, d_k=options.d_k, d_v=options.d_v)
    # The notes' single head has no w_o; several heads do, and a residual needs x's own width.
    w_o = sizes.heads > 1 or (options.block and sizes.d_v != width)
    if seed is None:
        return identity_projections(sizes, w_o=w_o)
    return random_projections(sizes, seed, w_o=w_o)


def _from_file(options: Options, width: int) -> Projections:
    path = Path(options.projections)
    if path.suffix != ".json" and not path.is_file():
        raise InputError(
            f"--projections {quoted(options.projections)} is not known; give identity, "
            "random:SEED (as random:7) or a file (as projections.json)"
        )
    given = read_projections(path, width)
    for name in ("heads", "d_k", "d_v"):
        asked, has = getattr(options, name), getattr(given.sizes, name)
        if asked not in (None, has):
            option = f"--{name.replace('_', '-')}"
            raise ShapeError(f"{option} {asked}: the file has {has}; leave {option} out")
    return given


def _block(x: Array, output: Array, seed: int) -> Block:
    if x.shape != output.shape:
        raise ShapeError(
            f"--block adds x (width {x.shape[1]}) to the attention output (width "
            f"{output.shape[1]}); give a w_o with {x.shape[1]} columns"
        )
    return run_block(x, output, seed=seed)
