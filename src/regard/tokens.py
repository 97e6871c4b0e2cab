"""Text → token ids → text, for examples and small models. Real models bring their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from regard.errors import InputError


@dataclass(frozen=True)
class Vocabulary:
    """Every token once, in order; a token's place is its id."""

    tokens: tuple[str, ...]
    unit: Literal["word", "character"] = "word"

    def __post_init__(self) -> None:
        if self.unit not in ("word", "character"):
            raise InputError(f"unit={self.unit!r}; give 'word' or 'character'")
        object.__setattr__(self, "tokens", tuple(self.tokens))
        token, times = max(Counter(self.tokens).items(), key=itemgetter(1), default=("", 1))
        if times > 1:
            raise InputError(f"{token!r} stands {times} times among the tokens; give each once")

    @classmethod
    def of(cls, text: str, unit: Literal["word", "character"] = "word") -> Vocabulary:
        """The sorted distinct words (split at white space) or characters of a text."""
        vocabulary = cls(tuple(sorted(set(_split(text, unit)))), unit)
        if not vocabulary.tokens:
            raise InputError(f"the text has no {unit}s; give at least one")
        return vocabulary

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of the text's tokens; InputError names the first that is unknown."""
        ids = {token: n for n, token in enumerate(self.tokens)}
        pieces = _split(text, self.unit)
        unknown = [piece for piece in pieces if piece not in ids]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is not among the {len(self)} known {self.unit}s, "
                f"such as {', '.join(map(repr, self.tokens[:5]))}"
            )
        return [ids[piece] for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """The text again, words joined by one space; InputError names an id that is unknown."""
        glue = " " if self.unit == "word" else ""
        return glue.join(self._token(n) for n in ids)

    def _token(self, n: int) -> str:
        if not 0 <= n < len(self):  # a negative id would count from the end
            raise InputError(f"id {int(n)} is unknown; ids run from 0 to {len(self) - 1}")
        return self.tokens[n]


def _split(text: str, unit: str) -> list[str]:
    return text.split() if unit == "word" else list(text)
