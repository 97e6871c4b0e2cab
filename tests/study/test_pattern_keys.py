"""Sink patches: looked at by all, and unlike the patches beside them."""

from __future__ import annotations

import numpy as np
import pytest

from regard import study
from regard.axes import Grid
from regard.study.words import sentence
from support.recordings.planted import mixed, record_patches

GRID = Grid(12, 12, prefix=1)
SEES = np.ones((GRID.count, GRID.count), bool)


def on(cells: list[tuple[int, int]], strength: float = 0.9) -> study.HeadStudy:
    """A head all of whose rows look at these patches."""
    aim = np.zeros((GRID.count, GRID.count), bool)
    aim[:, [GRID.at(0, *cell) for cell in cells]] = True
    weights = mixed(aim, 0.0, strength, 0.1, sees=SEES)
    (head,) = study.patterns(record_patches(weights[None, None], GRID))
    return head


def test_a_patch_alone_and_several_apart_are_sinks() -> None:
    for cells in ([(5, 7)], [(5, 7), (0, 0), (8, 2)], [(5, 7), (5, 8)]):
        head = on(cells)
        assert head.labels == ("sink-patch",)
        assert head["sink-patch"].detail["keys"] == sorted(GRID.at(0, *cell) for cell in cells)
        assert head["sink-patch"].score == pytest.approx(0.9, abs=0.03)
    assert "parks on patches, keys 68 '(5, 7)', 69 '(5, 8)'" in sentence(head, head["sink-patch"])


def test_patches_that_get_as_much_as_those_beside_them_are_an_object() -> None:
    head = on([(row, column) for row in (4, 5, 6) for column in (3, 4, 5)])
    assert head["sink-patch"].detail["keys"] == [] and "object" in head.labels


def test_a_little_more_than_even_is_no_sink() -> None:
    assert on([(5, 7), (9, 9)], 0.08).labels != ("sink-patch",)


def test_a_sink_takes_its_mass_from_the_border() -> None:
    corner = on([(0, 0)])
    assert corner["border"].score > 0.9 and not corner["border"].holds


def test_small_pictures_are_all_border_and_none_is_told() -> None:
    grid = Grid(2, 20)
    weights = mixed(np.eye(40, dtype=bool), 0, 0.9, sees=np.ones((40, 40), bool))
    (head,) = study.patterns(record_patches(weights[None, None], grid))
    assert head["border"].score == pytest.approx(1) and not head["border"].holds
