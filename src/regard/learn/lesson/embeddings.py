"""The vector of each word: a vocabulary's (the notes', hand-made features, SmolLM2's), a file's, or
made up; and positions added to them."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError, ShapeError
from regard.learn.languages import Phrase, listing
from regard.learn.lesson.numbers import as_matrix, as_vector, draws, read_json, seed_of
from regard.learn.text import listed, printable, quoted

WIDTH = 4
_NOTES: dict[str, tuple[float, ...]] = {
    "the": (1.0, 0.0, 1.0, 0.0),
    "cat": (0.0, 1.0, 0.0, 1.0),
    "sat": (1.0, 1.0, 1.0, 1.0),
}


@dataclass(frozen=True)
class Vocabulary:
    """Word → vector, all of one width. Words are in lower case, without punctuation around them."""

    name: str
    names: tuple[str, ...] | None  # of the dimensions, where they have names
    words: Mapping[str, tuple[float, ...]]
    source: Phrase  # where the numbers come from, in words

    @property
    def width(self) -> int:
        """Numbers per word."""
        return len(next(iter(self.words.values())))

    def __contains__(self, word: str) -> bool:
        return bare(word) in self.words

    def vector(self, word: str) -> Array:
        """(width,): the word's own, or one made up from a hash of the word."""
        plain = bare(word)
        return np.array(self.words[plain]) if plain in self.words else made_up(word, self.width)


def bare(word: str) -> str:
    """In lower case and without punctuation around it: "River." is "river", "…" stays."""
    plain = unicodedata.normalize("NFC", word.lower())
    start, end = 0, len(plain)
    while start < end and _is_punctuation(plain[start]):
        start += 1
    while end > start and _is_punctuation(plain[end - 1]):
        end -= 1
    return plain[start:end] or plain


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P")


def made_up(word: str, width: int = WIDTH) -> Array:
    """A vector drawn from a hash of the word: always the same, and without any meaning."""
    return draws([seed_of(bare(word))], (width,), decimals=1)


def vocabulary(name: str) -> Vocabulary:
    """The vocabulary that `--vectors` names."""
    known = {"notes": notes, "features": features, "smollm2": smollm2}
    if name not in known:
        raise InputError(f"--vectors {quoted(name)} is not known; give {', '.join(known)}")
    return known[name]()


@cache
def notes() -> Vocabulary:
    """The three words of the notes, four numbers each."""
    return Vocabulary("notes", None, _NOTES, Phrase("origins.notes"))


@cache
def features() -> Vocabulary:
    """Eight named features, small whole numbers: "animal 2, water 1" for a fish."""
    given = _read("features.json")
    names = tuple(given["features"])
    words = {
        word: _featured(group, names)
        for group, listed in given["words"].items()
        for word in listed.split()
    }
    return Vocabulary("features", names, words, Phrase("vectors.from_features"))


def _featured(group: str, names: tuple[str, ...]) -> tuple[float, ...]:
    """ "animal 2, water 1" as numbers, in the order of the names."""
    parts = dict(part.rsplit(" ", 1) for part in group.split(", ") if part)
    return tuple(float(parts.get(name, 0)) for name in names)


@cache
def smollm2() -> Vocabulary:
    """SmolLM2-135M's embeddings in eight dimensions, as tools/word_vectors.py wrote them."""
    given = packed_smollm2()
    whole = np.frombuffer(base64.b64decode(given["numbers"]), np.int8).astype(np.float64)
    words = given["words"].split()
    rows = (whole / given["per_unit"]).reshape(len(words), -1)
    vectors = {word: tuple(row) for word, row in zip(words, rows.tolist(), strict=True)}
    facts = {name: given[name] for name in ("count", "wide", "percent")}
    return Vocabulary("smollm2", None, vectors, Phrase("vectors.from_smollm2", facts))


@cache
def packed_smollm2() -> dict[str, Any]:
    """Words as one string; numbers as base64 of int8, `per_unit` of them to a unit.

    Of `wide` numbers each of the `count` words had, these hold `percent` % of the variance.
    """
    return _read("smollm2_words.json")


def _read(name: str) -> dict[str, Any]:
    text = (files("regard.learn.lesson") / name).read_text(encoding="utf-8")
    return json.loads(text)


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
    given = vocabulary(vectors)
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
