"""The sentence: its tokens, their labels, and the one whose row is spelt out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.learn.text import labels_of, listed, quoted

MAX_TOKENS = 512


@dataclass(frozen=True)
class Sentence:
    """Words between blanks, in order. `focus` is the index of the row that is spelt out."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    focus: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def name(self) -> str:
        """The label of the token that is spelt out."""
        return self.labels[self.focus]


def read_sentence(text: str, token: str | None = None) -> Sentence:
    """Split at blanks; `token` picks the row to spell out, by word, label or 1-based position."""
    tokens = _split(text)
    labels = labels_of(tokens)
    return Sentence(tokens, labels, 0 if token is None else find_token(token, tokens, labels))


def _split(text: str) -> tuple[str, ...]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the sentence is not valid text at character {error.start + 1}; give it as UTF-8"
        ) from None
    tokens = tuple(text.split())
    if not tokens:
        raise InputError('the sentence is empty; give at least one word, as in "The cat sat"')
    if len(tokens) > MAX_TOKENS:
        raise InputError(
            f"the sentence has {len(tokens):,} tokens and the lesson takes at most {MAX_TOKENS}; "
            "give a shorter one"
        )
    return tokens


def find_token(
    given: str, tokens: Sequence[str], labels: Sequence[str], option: str = "--token "
) -> int:
    """The index of the one token meant, from the strictest reading to the loosest."""
    place = int(given) - 1 if given.isdecimal() and len(given) <= 4 else -1
    readings = (
        [i for i, word in enumerate(tokens) if word == given],
        [i for i, label in enumerate(labels) if label == given],
        [i for i, word in enumerate(tokens) if word.lower() == given.lower()],
        [place] if 0 <= place < len(tokens) else [],
    )
    meant = next((found for found in readings if found), [])
    if len(meant) == 1 or place in meant:
        return place if place in meant else meant[0]
    if meant:
        raise InputError(
            f"{option}{quoted(given)} stands at positions {listed([str(i + 1) for i in meant])}; "
            "give one of these positions"
        )
    raise InputError(
        f"{option}{quoted(given)} is not in the sentence; its tokens are {listed(labels)} "
        f"(or give a position, 1 to {len(tokens)})"
    )
