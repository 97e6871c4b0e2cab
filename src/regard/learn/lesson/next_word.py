"""From the block's last row to the next word: logits over a vocabulary, and their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.attention import softmax
from regard.errors import InputError
from regard.learn.lesson.vocabulary import bare

_TIE = 1e-9  # logits closer than this are equal, but for the order of a sum


@dataclass(frozen=True)
class NextWord:
    """One logit and one probability per word of the vocabulary."""

    words: tuple[str, ...]
    logits: Array  # (words,)
    probabilities: Array  # (words,), they sum to 1
    temperature: float

    @property
    def order(self) -> list[int]:
        """The words' places, the likeliest first; equals keep their order."""
        return [int(place) for place in np.argsort(-self.logits, kind="stable")]

    @property
    def likeliest(self) -> str:
        """The word with the largest logit."""
        return self.words[self.order[0]]

    @property
    def ties(self) -> tuple[str, ...]:
        """The words that share the largest logit, the likeliest among them."""
        near = self.logits.max() - self.logits <= _TIE * max(1.0, float(np.abs(self.logits).max()))
        return tuple(word for word, is_top in zip(self.words, near, strict=True) if is_top)

    @property
    def entropy(self) -> float:
        """−Σ p log p in nats: 0 where one word has it all."""
        kept = self.probabilities[self.probabilities > 0]
        return float(-(kept * np.log(kept)).sum())

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        return {
            "words": list(self.words),
            "logits": self.logits.tolist(),
            "probabilities": self.probabilities.tolist(),
            "temperature": self.temperature,
            "likeliest": self.likeliest,
            "entropy": self.entropy,
        }


def next_word(
    hidden: Array, words: Sequence[str], embeddings: Array, *, temperature: float = 1.0
) -> NextWord:
    """h · Eᵀ, then softmax(logits / temperature).

    `hidden` is (width,): the last row of the block's output. `embeddings` is (words, width). At
    temperature 0 the largest logit has it all, the first of equals.
    """
    logits = embeddings @ hidden
    return NextWord(tuple(words), logits, _shares(logits, temperature), temperature)


def _shares(logits: Array, temperature: float) -> Array:
    if temperature > 0:
        return softmax(logits[None] / temperature)[0]
    return np.eye(logits.size)[int(logits.argmax())]


def check_temperature(temperature: float) -> None:
    """Refuse what no softmax can be divided by."""
    if not 0 <= temperature < float("inf"):
        raise InputError(f"--temperature {temperature:g}: give a number ≥ 0, as in 0.7")


def vocabulary_of(
    tokens: Sequence[str], rows: Array, known: Mapping[str, Sequence[float]]
) -> tuple[list[str], Array]:
    """Which words may come next: the known ones, then those of the sentence beside them.

    `rows` are the word embeddings of the tokens, (tokens, width).
    """
    found = {word: np.array(vector) for word, vector in known.items()}
    for token, row in zip(tokens, rows, strict=True):
        found.setdefault(bare(token), row)
    return list(found), np.stack(list(found.values()))
