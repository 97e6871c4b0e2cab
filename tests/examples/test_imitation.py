"""An indexer and a student of two heads learn from a layer of a real model."""

from __future__ import annotations

import re

import pytest

from examples.scripts import call, load

imitation, indexer, distil = load("imitation"), load("indexer"), load("distil")


def _numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def _rows(out: str) -> tuple[list[float], list[float]]:
    """What stands before and after training."""
    before, after = (next(line for line in out.splitlines() if word in line)
                     for word in ("before", "after"))  # fmt: skip
    return _numbers(before), _numbers(after)


def test_an_indexer_learns_which_keys_count() -> None:
    status, out = call(indexer, "--steps", "40", "--tokens", "128", "--k", "16")
    assert status == 0, out
    (apart, share), (closer, found) = _rows(out)
    assert closer < apart / 2 and found > share + 10


@pytest.mark.parametrize("how", ["kl", "js"])
def test_two_heads_imitate_nine(how: str) -> None:
    status, out = call(distil, "--steps", "30", "--tokens", "128", "--how", how)
    assert status == 0, out
    before, after = _rows(out)
    assert all(b < a * 0.8 for a, b in zip(before, after, strict=True)), out


def test_bad_numbers_are_one_line() -> None:
    for words in (("--layer", "99"), ("--tokens", "100000")):
        with pytest.raises(imitation.regard.errors.InputError, match=words[0]):
            imitation.passages("A few words.", int(words[1]) if "layer" in words[0] else 1,
                               int(words[1]) if "tokens" in words[0] else 4)  # fmt: skip
