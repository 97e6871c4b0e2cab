"""Which tokens of two texts stand for each other."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np

from regard.recording import Stream
from regard.recording.stores import Array

_LONGEST: Final = 20_000  # tokens of a differing middle that are matched; more takes minutes


@dataclass(frozen=True)
class Alignment:
    """Token a[n] of the first stands for token b[n] of the second, both ascending."""

    a: Array
    b: Array
    how: str  # in words

    def __len__(self) -> int:
        return len(self.a)

    @property
    def is_identity(self) -> bool:
        """Whether every token stands for the one of its own number."""
        return bool(np.array_equal(self.a, self.b) and np.array_equal(self.a, np.arange(len(self))))


def first_paired(keys: Alignment) -> Alignment:
    """The same, the first tokens standing for each other whatever they are: what is parked there is
    parked in both texts, also where the first token of one comes later in the other."""
    if not len(keys) or (keys.a[0] == 0 and keys.b[0] == 0):
        return keys
    later = (keys.a > 0) & (keys.b > 0)
    first, second = (np.concatenate([[0], side[later]]) for side in (keys.a, keys.b))
    return Alignment(first, second, f"{keys.how}, and the first tokens do")


def align(a: Stream | None, b: Stream | None, counts: tuple[int, int]) -> Alignment:
    """By ids where both have them, else by number. `counts` are the lengths of the two."""
    if a is None or b is None or a.ids.size < counts[0] or b.ids.size < counts[1]:
        how = "row by row; the tokens are not known"
        return _by_number(min(counts), how)
    left, right = a.ids[: counts[0]], b.ids[: counts[1]]
    if np.array_equal(left, right):
        return _by_number(left.size, "the same tokens")
    if left.size == right.size:
        same = int(np.count_nonzero(left == right))
        return _by_number(left.size, f"row by row; {same} of {left.size} tokens are the same")
    return _by_tokens(left, right)


def _by_number(count: int, how: str) -> Alignment:
    every = np.arange(count)
    return Alignment(every, every, how)


def _by_tokens(left: Array, right: Array) -> Alignment:
    """The common beginning and end, and the runs that both have in between."""
    head = _common(left, right)
    tail = _common(left[head:][::-1], right[head:][::-1])
    ends = left.size - tail, right.size - tail
    middle = [(0, 0, head), *_runs(left[head : ends[0]], right[head : ends[1]], head)]
    blocks = [*middle, (*ends, tail)]
    first = np.concatenate([np.arange(i, i + n) for i, _, n in blocks])
    second = np.concatenate([np.arange(j, j + n) for _, j, n in blocks])
    how = f"by tokens: {first.size} of {left.size} and {right.size} stand for each other"
    return Alignment(first, second, how)


def _runs(left: Array, right: Array, shift: int) -> list[tuple[int, int, int]]:
    if not 0 < left.size <= _LONGEST or not 0 < right.size <= _LONGEST:
        return []
    matcher = SequenceMatcher(None, left.tolist(), right.tolist())
    return [(m.a + shift, m.b + shift, m.size) for m in matcher.get_matching_blocks() if m.size]


def _common(left: Array, right: Array) -> int:
    """How many tokens both begin with."""
    size = min(left.size, right.size)
    differ = np.flatnonzero(left[:size] != right[:size])
    return int(differ[0]) if differ.size else size
