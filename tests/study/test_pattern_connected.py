"""Pieces of patches, and what chance makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from regard import study
from regard.axes import Grid
from regard.study.pattern.connected import _by_chance, largest_piece
from support.recordings.planted import mixed, record_patches


def by_walking(marks: np.ndarray) -> int:
    """The largest piece, patch by patch."""
    left, best = {tuple(cell) for cell in np.argwhere(marks)}, 0
    while left:
        waiting, size = [left.pop()], 0
        while waiting:
            y, x = waiting.pop()
            size += 1
            for cell in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if cell in left:
                    left.remove(cell)
                    waiting.append(cell)
        best = max(best, size)
    return best


def test_pieces_are_joined_by_sides() -> None:
    dice = np.random.default_rng(0)
    marks = dice.random((60, 9, 13)) < dice.random((60, 1, 1))
    assert largest_piece(marks).tolist() == [by_walking(one) for one in marks]
    assert largest_piece(np.eye(5, dtype=bool)[None]).tolist() == [1]  # corners do not join
    assert largest_piece(np.zeros((2, 3, 3), bool)).tolist() == [0, 0]
    snake = np.ones((1, 5, 5), bool)
    snake[0, 1, :4] = snake[0, 3, 1:] = False
    assert largest_piece(snake).tolist() == [17]


def test_chance_is_that_of_random_patches() -> None:
    counts, shares = _by_chance(10, 12)
    assert shares[0] == shares[-1] == 1 and np.all(shares > 0)
    dice = np.random.default_rng(5)
    for count in (6, 20, 60):
        drawn = [np.isin(np.arange(120), dice.permutation(120)[:count]) for _ in range(200)]
        mean = np.mean([by_walking(one.reshape(10, 12)) for one in drawn]) / count
        assert np.interp(count, counts, shares) == pytest.approx(mean, abs=0.08)


def test_an_object_of_each_row_s_own_and_patches_strewn_about() -> None:
    """Half of the rows look at one thing, half at another; then at as many patches anywhere."""
    grid, n = Grid(12, 12), 144
    row, column = np.divmod(np.arange(n), 12)
    bump = np.exp(-(((row - 3) / 2) ** 2) - ((column - 3) / 2) ** 2)
    other = np.exp(-(((row - 8) / 2) ** 2) - ((column - 7) / 2) ** 2)
    aim = np.where((row < 6)[:, None], bump, other)
    strewn = np.stack([np.random.default_rng(n).permutation(one) for n, one in enumerate(aim)])
    sees = np.ones((n, n), bool)
    weights = np.array([[mixed(one, 0, 0.9, 0.1, sees=sees) for one in (aim, strewn)]])
    whole, apart = study.patterns(record_patches(weights, grid))
    assert "object" in whole.labels and whole["object"].score > 0.9
    assert whole["object"].n_rows == 64 and whole["object"].rows[0].value == 1
    assert not apart.labels and apart["object"].score < 2 * apart["object"].chance


def test_rows_that_look_at_few_patches_say_nothing() -> None:
    n = 100
    aim = np.eye(n, dtype=bool)[np.random.default_rng(0).permutation(n)]
    weights = mixed(aim, 0, 0.99, sees=np.ones((n, n), bool))
    (head,) = study.patterns(record_patches(weights[None, None], Grid(10, 10)))
    assert not head["object"].holds and head["object"].n_rows == 0
