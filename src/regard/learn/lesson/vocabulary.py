"""Words that have a vector: hand-made features, SmolLM2's own embeddings, the notes' words."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.errors import InputError
from regard.learn.languages import Phrase
from regard.learn.lesson.numbers import draws, seed_of
from regard.learn.text import quoted

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


def made_up(word: str, width: int) -> Array:
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
