"""An indexer and a student of two heads learn from a layer of a real model."""

from __future__ import annotations

import re

import pytest

from examples.scripts import call, load
from regard.errors import InputError

imitation, indexer, distil = load("imitation"), load("indexer"), load("distil")


def _rows(out: str) -> list[list[float]]:
    """The numbers that stand before and after training."""
    lines = [next(line for line in out.splitlines() if w in line) for w in ("before", "after")]
    return [[float(number) for number in re.findall(r"\d+\.\d+", line)] for line in lines]


def test_an_indexer_learns_which_keys_count() -> None:
    status, out = call(indexer, "--steps", "40", "--tokens", "128", "--k", "16")
    assert status == 0, out
    (apart, share), (closer, covered) = _rows(out)
    assert closer < apart / 2 and covered > share + 10


@pytest.mark.parametrize("how", ["kl", "js"])
def test_two_heads_imitate_nine(how: str) -> None:
    status, out = call(distil, "--steps", "30", "--tokens", "128", "--how", how)
    assert status == 0, out
    before, after = _rows(out)
    assert all(b < a * 0.8 for a, b in zip(before, after, strict=True)), out


def test_bad_numbers_are_one_line() -> None:
    for layer, tokens, option in ((99, 4, "--layer"), (1, 100_000, "--tokens")):
        with pytest.raises(InputError, match=option):
            imitation.passages("A few words.", layer, tokens)
