"""The lesson as one value: a sentence through every head, w_o and, if asked, the whole block."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.display import as_html
from regard.errors import InputError, ShapeError
from regard.learn.languages import Language, Phrase, language
from regard.learn.lesson.block import (
    Block,
    NextWord,
    check_temperature,
    next_word,
    run_block,
    vocabulary_of,
)
from regard.learn.lesson.embeddings import Embedding, embed, vocabulary
from regard.learn.lesson.head import Head, attend
from regard.learn.lesson.projections import (
    Projections,
    identity_projections,
    projections_by_hand,
    random_projections,
    read_projections,
    seed_in,
    settle,
)
from regard.learn.lesson.sentence import Sentence, read_sentence
from regard.learn.text import quoted
from regard.mask import Causal

NOTES_SENTENCE = ("the", "cat", "sat")


@dataclass(frozen=True)
class Options:
    """What was asked for. None leaves the choice to the lesson."""

    sentence: str
    token: str | None = None
    projections: str = "identity"
    vectors: str = "notes"  # notes, features or smollm2: the words that have vectors
    embeddings: Path | None = None
    d_k: int | None = None
    d_v: int | None = None
    heads: int | None = None
    scaled: bool = True
    causal: bool = False
    positions: bool = False
    block: bool = False
    next: bool = False  # with the block, whose last row it starts from
    temperature: float = 1.0
    language: str | None = None  # the terminal's is English, a page's the browser's

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}


@dataclass(frozen=True)
class GivenLayer:
    """What a lesson about a layer has beside its heads."""

    whole: str  # what has the numbers that are left out
    remarks: tuple[Phrase, ...]
    sources: tuple[Array, Array]  # (keys, width)
    keys: Sentence | None  # of another sequence
    stages: tuple[tuple[str, str, Array], ...]  # of a block: name, formula, (tokens, width)


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
    next: NextWord | None = None
    layer: GivenLayer | None = None  # of a layer that exists; None: of the lesson's own numbers

    _repr_html_ = as_html

    @property
    def say(self) -> Language:
        """The language that was asked for; English without one."""
        spoken = language(self.options.language or "en")
        return spoken if self.layer is None else replace(spoken, whole=self.layer.whole)

    @property
    def key_labels(self) -> tuple[str, ...]:
        """The labels of the keys: the sentence's own, unless they are of another sequence."""
        other = None if self.layer is None else self.layer.keys
        return self.sentence.labels if other is None else other.labels

    @property
    def sources(self) -> tuple[Array, Array]:
        """What keys and values were made of, each (keys, width)."""
        return (self.embedding.x,) * 2 if self.layer is None else self.layer.sources

    @property
    def is_notes_example(self) -> bool:
        """Whether these are the numbers the notes work with."""
        asked = self.options
        if self.layer is not None:
            return False
        own = asked.embeddings is None and asked.vectors == "notes"
        plain = asked.projections == "identity" and own and asked.scaled
        words = tuple(token.lower() for token in self.sentence.tokens)
        shape = (self.projections.sizes.heads, self.heads[0].w_k.shape[1], self.output.shape[1])
        return (
            plain
            and not (asked.causal or asked.positions)
            and words == NOTES_SENTENCE
            and shape == (1, 4, 4)
        )

    def names(self, of: str, count: int) -> tuple[str, ...] | None:
        """Names of the `count` dimensions of x or of the output, where these are features."""
        given, spec = self.embedding.names, self.options.projections
        keeps = spec == "by-hand" or (spec == "identity" and len(self.heads) == 1)
        if given is None or len(given) != count or not (of == "x" or keeps):
            return None
        speak = language(self.options.language or "en")
        return tuple(speak(f"vectors.{name}") for name in given)

    @property
    def in_two_heads(self) -> Lesson | None:
        """Where one head was shown: the same x through two, as `--heads 2` has it."""
        seed, width = seed_in(self.options.projections), self.embedding.width
        is_made = seed is not None or self.options.projections == "identity"
        if len(self.heads) > 1 or width % 2 or not is_made:
            return None
        sizes = settle(width, heads=2)
        made = (
            identity_projections(sizes, w_o=True)
            if seed is None
            else random_projections(sizes, seed, w_o=True)
        )
        heads, concat, output = _attended(self.embedding.x, made, self.options)
        return replace(
            self, projections=made, heads=heads, concat=concat, output=output, block=None, next=None
        )

    @property
    def rest_of_block(self) -> Block | None:
        """Where the lesson ends with attention: what follows it, as `--block` has it."""
        if self.block is not None or self.output.shape != self.embedding.x.shape:
            return None
        return run_block(self.embedding.x, self.output, seed=self.projections.seed)

    def as_dict(self) -> dict[str, Any]:
        """Every intermediate of every head as nested lists; hidden scores are None.

        Its words are English in every language, as its names are.
        """
        say = language("en")
        x, w_o = self.embedding, self.projections.w_o
        two, rest = self.in_two_heads, self.rest_of_block
        return {
            "tokens": list(self.sentence.tokens),
            "labels": list(self.sentence.labels),
            "row": self.sentence.focus,
            "options": self.options.as_dict(),
            "embeddings": {
                "source": say(x.source),
                "names": None if x.names is None else list(x.names),
                "made_up": list(x.made_up),
                "words": x.words.tolist(),
                "positions": None if x.positions is None else x.positions.tolist(),
                "x": x.x.tolist(),
            },
            "projections": say(self.projections.source),
            "heads": [head.as_dict() for head in self.heads],
            "concat": self.concat.tolist(),
            "w_o": None if w_o is None else w_o.tolist(),
            "output": self.output.tolist(),
            "block": None if self.block is None else self.block.as_dict(),
            "next": None if self.next is None else self.next.as_dict(),
            "further": {
                "heads": None if two is None else [head.as_dict() for head in two.heads],
                "output": None if two is None else two.output.tolist(),
                "block": None if rest is None else rest.as_dict(),
            },
        }


def make_lesson(options: Options) -> Lesson:
    """Work the whole lesson out."""
    if options.language is not None:
        language(options.language)  # an unknown one is refused before anything is computed
    check_temperature(options.temperature)
    sentence = read_sentence(options.sentence, options.token)
    embedding = _embedding(options, sentence)
    if options.token is None:
        sentence = replace(sentence, focus=_first(embedding.words))
    projections = _projections(options, embedding.width)
    heads, concat, output = _attended(embedding.x, projections, options)
    with_block = options.block or options.next
    block = _block(embedding.x, output, projections.seed) if with_block else None
    following = _next(options, sentence, embedding, block)
    return Lesson(
        options, sentence, embedding, projections, heads, concat, output, block, following
    )


def _attended(
    x: Array, projections: Projections, options: Options
) -> tuple[tuple[Head, ...], Array, Array]:
    """Every head, their outputs side by side, and these through w_o where there is one."""
    mask = Causal() if options.causal else None
    heads = tuple(
        attend(x, t.w_q, t.w_k, t.w_v, mask=mask, scaled=options.scaled) for t in projections.heads
    )
    concat = np.concatenate([head.context for head in heads], axis=1)
    return heads, concat, concat if projections.w_o is None else concat @ projections.w_o


def _next(
    options: Options, sentence: Sentence, embedding: Embedding, block: Block | None
) -> NextWord | None:
    """After the last token, out of the block's last row."""
    if block is None or not options.next:
        return None
    known = {} if options.embeddings else vocabulary(options.vectors).words
    words, rows = vocabulary_of(sentence.tokens, embedding.words, known)
    return next_word(block.output[-1], words, rows, temperature=options.temperature)


def _embedding(options: Options, sentence: Sentence) -> Embedding:
    if options.embeddings is not None and options.vectors != "notes":
        raise InputError(
            f"--vectors {quoted(options.vectors)} and --embeddings both give the words' vectors; "
            "leave one of them out"
        )
    return embed(
        sentence.tokens,
        file=options.embeddings,
        vectors=options.vectors,
        positions=options.positions,
    )


def _first(words: Array) -> int:
    """The first token whose vector is not zero throughout: a row of zeros shows nothing."""
    return int(words.any(axis=1).argmax())


def _projections(options: Options, width: int) -> Projections:
    spec, seed = options.projections, seed_in(options.projections)
    if spec == "by-hand":
        return _by_hand(options)
    if spec != "identity" and seed is None:
        return _from_file(options, width)
    sizes = settle(width, heads=options.heads, d_k=options.d_k, d_v=options.d_v)
    # The notes' single head has no w_o; several heads do, and a residual needs x's own width.
    w_o = sizes.heads > 1 or ((options.block or options.next) and sizes.d_v != width)
    if seed is None:
        return identity_projections(sizes, w_o=w_o)
    return random_projections(sizes, seed, w_o=w_o)


def _from_file(options: Options, width: int) -> Projections:
    path = Path(options.projections)
    if path.suffix != ".json" and not path.is_file():
        raise InputError(
            f"--projections {quoted(options.projections)} is not known; give identity, "
            "random:SEED (as random:7), by-hand or a file (as projections.json)"
        )
    given = read_projections(path, width)
    _check_sizes(options, given, "the file has")
    return given


def _by_hand(options: Options) -> Projections:
    if options.vectors != "features":
        raise InputError(
            "--projections by-hand works on the hand-made features; give --vectors features with it"
        )
    given = projections_by_hand()
    _check_sizes(options, given, "the projections made by hand have")
    return given


def _check_sizes(options: Options, given: Projections, has: str) -> None:
    for name in ("heads", "d_k", "d_v"):
        asked, own = getattr(options, name), getattr(given.sizes, name)
        if asked not in (None, own):
            option = f"--{name.replace('_', '-')}"
            raise ShapeError(f"{option} {asked}: {has} {own}; leave {option} out")


def _block(x: Array, output: Array, seed: int) -> Block:
    if x.shape != output.shape:
        raise ShapeError(
            f"--block adds x (width {x.shape[1]}) to the attention output (width "
            f"{output.shape[1]}); give a w_o with {x.shape[1]} columns"
        )
    return run_block(x, output, seed=seed)
