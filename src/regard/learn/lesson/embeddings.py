"""The vector of each word: a vocabulary's, a file's, or made up; and positions added to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.languages import Phrase, listing
from regard.learn.lesson import vocabulary
from regard.learn.lesson.numbers import as_matrix, as_vector, read_json
from regard.learn.lesson.vocabulary import Vocabulary
from regard.learn.text import listed, printable

WIDTH = 4
_NAMED = 12  # made-up words before the rest is left out


@dataclass(frozen=True)
class Embedding:
    """What enters the layer, (tokens, width), and where it comes from."""

    words: Array
    positions: Array | None
    made_up: tuple[str, ...]  # words whose vectors mean nothing
    source: Phrase
    names: tuple[str, ...] | None = None  # of the dimensions, where they have names

    @property
    def x(self) -> Array:
        """The input of the layer: word, plus position where asked for."""
        return self.words if self.positions is None else self.words + self.positions

    @property
    def width(self) -> int:
        """Numbers per token."""
        return int(self.words.shape[1])


def embed(
    tokens: Sequence[str],
    *,
    file: Path | None = None,
    vectors: str = "notes",
    positions: bool = False,
) -> Embedding:
    """Look each token up; with `positions`, add the sinusoids of its place."""
    found = _found(tokens, file, vectors)
    return replace(found, positions=sinusoids(*found.words.shape)) if positions else found


def _found(tokens: Sequence[str], file: Path | None, vectors: str) -> Embedding:
    if file is not None:
        source = Phrase("origins.file", {"file": printable(file.name)})
        return Embedding(_from_file(tokens, file), None, (), source)
    given = vocabulary.vocabulary(vectors)
    words = np.stack([given.vector(t) for t in tokens])
    invented = tuple(dict.fromkeys(t for t in tokens if t not in given))
    return Embedding(words, None, invented, _source(given, tokens, invented), given.names)


def _source(given: Vocabulary, tokens: Sequence[str], invented: Sequence[str]) -> Phrase:
    """Of the words that have vectors, and those that were given one."""
    if not invented:
        return given.source
    words = listing([printable(t) for t in invented])
    known = [printable(t) for t in dict.fromkeys(tokens) if t in given]
    if not known:
        return Phrase("origins.made_up", {"words": words})
    if given.name == "notes":
        both = {"known": listing(known), "words": words}
        return Phrase("origins.notes_and_made_up", both)
    return Phrase("vectors.with_made_up", {"source": given.source, "words": words})


def made_up(word: str, width: int = WIDTH) -> Array:
    """A vector drawn from a hash of the word: always the same, and without any meaning."""
    return vocabulary.made_up(word, width)


def _from_file(tokens: Sequence[str], file: Path) -> Array:
    """A map from word to vector, or a list with one vector per token."""
    where = f"--embeddings {printable(str(file))}"
    given = read_json(file, "--embeddings")
    if isinstance(given, dict):
        return _from_map(tokens, given, where)
    vectors = as_matrix(given, f"{where}: the list")
    if len(vectors) != len(tokens):
        raise ShapeError(
            f"{where}: {len(vectors)} vectors for {len(tokens)} tokens; give one "
            "vector per token, or a map from word to vector"
        )
    return vectors


def _from_map(tokens: Sequence[str], given: dict[str, Any], where: str) -> Array:
    lower = {word.lower(): vector for word, vector in given.items()}
    found = {t: given.get(t, lower.get(t.lower())) for t in tokens}
    if missing := [printable(t) for t, vector in found.items() if vector is None]:
        raise InputError(
            f"{where}: no vector for {listed(missing)}; add them, or leave "
            "--embeddings out to have them made up"
        )
    rows = [as_vector(found[t], f"{where}: '{printable(t)}'") for t in tokens]
    for token, row in zip(tokens, rows, strict=True):
        if row.size != rows[0].size:
            raise ShapeError(
                f"{where}: '{printable(tokens[0])}' has {rows[0].size} numbers and "
                f"'{printable(token)}' has {row.size}; give vectors of equal width"
            )
    return np.stack(rows)


def sinusoids(tokens: int, width: int) -> Array:
    """(tokens, width): sin(p / 10000^(2i/width)) in even columns, the cosine in odd ones.

    Counted from p = 0, as in "Attention Is All You Need".
    """
    place = np.arange(tokens)[:, None]
    pair = np.arange(width)[None, :] // 2
    angle = place / 10000.0 ** (2.0 * pair / width)
    return np.where(np.arange(width) % 2 == 0, np.sin(angle), np.cos(angle))
