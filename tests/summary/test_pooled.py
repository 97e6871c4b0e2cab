"""The map of cells: sizes, ragged edges, mean and largest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.shapes import AttentionShape
from regard.summary import Pooled

WEIGHTS = torch.tensor(
    [
        [
            [1.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, 0.5, 0.0, 0.0, 0.0],
            [0.25, 0.25, 0.5, 0.0, 0.0],
        ]
    ]
)


def shape_of(queries: int, keys: int) -> AttentionShape:
    return AttentionShape.of((1, queries, 1), (1, keys, 1))


def pooled(summary: Pooled) -> list[list[float]]:
    return summary.define(SimpleNamespace(weights=WEIGHTS), shape_of(3, 5))[0].tolist()


def test_the_mean_divides_by_the_area_inside_the_matrix() -> None:
    # 2 × 2 squares; the last row of squares is one token tall, the last column one wide
    assert pooled(Pooled(2)) == [[2.0 / 4, 0.0, 0.0], [0.5 / 2, 0.5 / 2, 0.0]]


def test_the_largest() -> None:
    assert pooled(Pooled(2, "max")) == [[1.0, 0.0, 0.0], [0.25, 0.5, 0.0]]


def test_a_cell_of_one_token_is_the_matrix() -> None:
    assert pooled(Pooled(1)) == pooled(Pooled(1, "max")) == WEIGHTS[0].tolist()


def test_a_cell_larger_than_the_matrix() -> None:
    assert pooled(Pooled(8)) == [[pytest.approx(3.0 / 15)]]
    assert pooled(Pooled(8, "max")) == [[1.0]]


@pytest.mark.parametrize(
    ("queries", "keys", "cell", "area"),
    [
        (4, 4, 2, [[4, 4], [4, 4]]),
        (3, 5, 2, [[4, 4, 2], [2, 2, 1]]),
        (1, 3, 5, [[3]]),
        (6, 2, 4, [[8], [4]]),
    ],
)
def test_area(queries: int, keys: int, cell: int, area: list[list[int]]) -> None:
    found = Pooled(cell).area(shape_of(queries, keys), torch.zeros(1, dtype=torch.float64))
    assert found.tolist() == area and found.dtype == torch.float64
    assert found.sum() == queries * keys


@pytest.mark.parametrize(
    ("queries", "keys", "size"),
    [(1, 1, 1), (512, 512, 1), (513, 10, 2), (10, 1025, 3), (4096, 8192, 16), (0, 0, 1)],
)
def test_the_default_has_at_most_512_cells_a_side(queries: int, keys: int, size: int) -> None:
    shape = shape_of(queries, keys)
    assert Pooled().size(shape) == size
    assert max(Pooled().area(shape, torch.zeros(1)).shape) <= 512
    assert Pooled(7).size(shape) == 7


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
def test_an_empty_matrix_has_an_empty_map(how: Any, queries: int, keys: int) -> None:
    nothing = SimpleNamespace(weights=torch.zeros(1, queries, keys))
    found = Pooled(2, how).define(nothing, shape_of(queries, keys))
    assert found.shape == (1, -(-queries // 2), -(-keys // 2))


@pytest.mark.parametrize("cell", [0, -1, 2.0, True, "8"])
def test_the_cell_is_a_whole_number_from_one(cell: Any) -> None:
    with pytest.raises(InputError, match=r"Pooled\(cell=.*\); give a whole number ≥ 1, or None"):
        Pooled(cell)


def test_how_is_one_of_two_words() -> None:
    with pytest.raises(InputError, match=r"Pooled\(how='sum'\); give 'mean' or 'max'"):
        Pooled(2, "sum")  # type: ignore[arg-type]
