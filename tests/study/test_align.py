"""Which tokens of two texts stand for each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.study.align import Alignment, align


def stream(*ids: int) -> Any:
    return SimpleNamespace(ids=np.array(ids, np.int64))


def pairs(found: Alignment) -> list[tuple[int, int]]:
    return list(zip(found.a.tolist(), found.b.tolist(), strict=True))


def test_the_same_text() -> None:
    found = align(stream(1, 2, 3), stream(1, 2, 3), (3, 3))
    assert found.is_identity and found.how == "the same tokens" and len(found) == 3


def test_texts_of_one_length_are_taken_row_by_row() -> None:
    found = align(stream(1, 2, 3), stream(1, 9, 3), (3, 3))
    assert found.is_identity and found.how == "row by row; 2 of 3 tokens are the same"


def test_beginning_and_end_and_what_both_have_between() -> None:
    found = align(stream(1, 2, 5, 6, 7, 9, 4), stream(1, 2, 8, 5, 6, 7, 4), (7, 7))
    assert found.is_identity  # of one length
    found = align(stream(1, 2, 5, 6, 7, 4), stream(1, 2, 8, 5, 6, 7, 3, 4), (6, 8))
    assert pairs(found) == [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 7)]
    assert found.how == "by tokens: 6 of 6 and 8 stand for each other" and not found.is_identity


def test_one_text_is_the_beginning_of_the_other() -> None:
    found = align(stream(1, 2, 3), stream(1, 2, 3, 4, 5), (3, 5))
    assert found.is_identity and len(found) == 3


def test_nothing_in_common() -> None:
    assert len(align(stream(1, 2), stream(3, 4, 5), (2, 3))) == 0


@pytest.mark.parametrize("known", [(None, None), (stream(1, 2), None), (stream(1), stream(1, 2))])
def test_without_tokens_rows_are_taken_by_number(known: Any) -> None:
    found = align(*known, (2, 2))
    assert found.is_identity and "not known" in found.how


def test_every_pair_is_of_equal_tokens_and_ascends() -> None:
    dice = np.random.default_rng(0)
    for _ in range(30):
        a = dice.integers(0, 6, dice.integers(1, 60))
        b = np.delete(a, dice.integers(0, a.size, dice.integers(1, 4)))
        found = align(stream(*a), stream(*b), (a.size, b.size))
        np.testing.assert_array_equal(a[found.a], b[found.b])
        assert np.all(np.diff(found.a) > 0) and np.all(np.diff(found.b) > 0)


def test_a_long_difference_keeps_beginning_and_end() -> None:
    a = np.arange(70_000)
    b = np.concatenate([a[:100], -a[100:50_000], a[50_000:]])[:-1]
    b = np.concatenate([b, a[-1:], a[-1:]])
    found = align(stream(*a), stream(*b), (a.size, b.size))
    assert 100 <= len(found) < 70_000
