"""What follows attention in a deep network: residual, layer norm, MLP, both again; the next word.

The order is the original Transformer's (norm after each sum); most models of today normalise
before attention and before the MLP instead. The parts are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.attention import softmax
from regard.errors import InputError
from regard.learn.lesson.embeddings import bare
from regard.learn.lesson.numbers import draws

EPSILON = 1e-5
WIDENING = 2  # 4 in real models; 2 keeps the hidden layer on one screen


@dataclass(frozen=True)
class Block:
    """One block after its attention, every intermediate by name, in the order it is computed."""

    w_1: Array  # (width, hidden)
    w_2: Array  # (hidden, width)
    residual: Array  # x + attention
    normed: Array
    hidden: Array  # normed @ w_1
    activated: Array  # max(hidden, 0)
    mlp: Array  # activated @ w_2
    residual_2: Array  # normed + mlp
    output: Array  # the hidden state that the next block receives

    def as_dict(self) -> dict[str, Any]:
        """The same, as nested lists, for JSON."""
        return {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}


def layer_norm(rows: Array) -> Array:
    """Each row with mean 0 and deviation 1 (learned gain 1, learned shift 0)."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)


def run_block(x: Array, attention: Array, *, seed: int = 0) -> Block:
    """The rest of the block on input x and attention output, both (tokens, width)."""
    width = x.shape[1]
    # The tags 5 and 6 are no projection's, so no two matrices share their numbers.
    w_1 = draws([seed, 1, 5], (width, WIDENING * width), spread=width**-0.5)
    w_2 = draws([seed, 1, 6], (WIDENING * width, width), spread=width**-0.5)
    residual = x + attention
    normed = layer_norm(residual)
    hidden = normed @ w_1
    activated = np.maximum(hidden, 0.0)
    mlp = activated @ w_2
    residual_2 = normed + mlp
    return Block(
        w_1=w_1, w_2=w_2, residual=residual, normed=normed, hidden=hidden, activated=activated,
        mlp=mlp, residual_2=residual_2, output=layer_norm(residual_2),
    )  # fmt: skip


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
