"""The vector of each word: the notes' own, a file's, or made up; and positions added to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError, ShapeError
from regard.learn.lesson.numbers import as_matrix, as_vector, draws, read_json, seed_of
from regard.learn.steps import Array
from regard.learn.text import listed, printable

WIDTH = 4
NOTES: dict[str, tuple[float, ...]] = {
    "the": (1.0, 0.0, 1.0, 0.0),
    "cat": (0.0, 1.0, 0.0, 1.0),
    "sat": (1.0, 1.0, 1.0, 1.0),
}


@dataclass(frozen=True)
class Embedding:
    """What enters the layer, (tokens, width), and where it comes from."""

    words: Array
    positions: Array | None
    made_up: tuple[str, ...]  # words whose vectors mean nothing
    source: str

    @property
    def x(self) -> Array:
        """The input of the layer: word, plus position where asked for."""
        return self.words if self.positions is None else self.words + self.positions

    @property
    def width(self) -> int:
        """Numbers per token."""
        return int(self.words.shape[1])


def embed(tokens: Sequence[str], *, file: Path | None = None, positions: bool = False) -> Embedding:
    """Look each token up; with `positions`, add the sinusoids of its place."""
    if file is None:
        words, invented, source = _from_notes(tokens)
    else:
        words, invented, source = _from_file(tokens, file), (), f"from {printable(file.name)}"
    added = sinusoids(len(tokens), words.shape[1]) if positions else None
    return Embedding(words, added, invented, source)


def made_up(word: str, width: int = WIDTH) -> Array:
    """A vector drawn from a hash of the word: always the same, and without any meaning."""
    return draws([seed_of(word)], (width,), decimals=1)


def _from_notes(tokens: Sequence[str]) -> tuple[Array, tuple[str, ...], str]:
    rows = [np.array(NOTES[t.lower()]) if t.lower() in NOTES else made_up(t) for t in tokens]
    invented = tuple(dict.fromkeys(t for t in tokens if t.lower() not in NOTES))
    known = tuple(dict.fromkeys(t for t in tokens if t.lower() in NOTES))
    if not invented:
        return np.stack(rows), invented, "the notes' own"
    begin = f"{listed([printable(t) for t in known])} from the notes; " if known else ""
    words = listed([printable(t) for t in invented])
    return (
        np.stack(rows),
        invented,
        f"{begin}{words} made up (from a hash of the word; they mean nothing)",
    )


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
