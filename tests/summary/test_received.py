"""Mass per key: which queries count, what it is divided by, which heads share it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import DTypeError, InputError
from regard.shapes import AttentionShape
from regard.summary import Received, Weighted
from regard.summary.columns import query_indices

CPU = torch.device("cpu")
#                       head 0                       head 1
WEIGHTS = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]])
VISIBLE = torch.tensor([[[True, False], [True, True]]] * 2)
SHAPE = AttentionShape.of((2, 2, 1), (1, 2, 1))


def received(*given: Any, **named: Any) -> list[list[float]]:
    summary = Received(*given, **named)
    return summary.define(SimpleNamespace(weights=WEIGHTS, visible=VISIBLE), SHAPE).tolist()


def test_column_sums() -> None:
    assert received() == [[1.5, 0.5], [1.25, 0.75]]


def test_of_some_queries() -> None:
    assert received(1) == received([1]) == received(slice(1, None)) == [[0.5, 0.5], [0.25, 0.75]]
    assert received([0]) == [[1.0, 0.0], [1.0, 0.0]]
    assert received([]) == [[0.0, 0.0], [0.0, 0.0]]


def test_mean_over_the_queries_that_may_see_a_key() -> None:
    assert received(per="visible") == [[0.75, 0.5], [0.625, 0.75]]
    # key 1 is seen by none of these: 0, not 0/0
    assert received([0], per="visible") == [[1.0, 0.0], [1.0, 0.0]]


def test_over_the_heads_of_a_group() -> None:
    assert received(groups="sum") == [[2.75, 1.25]]
    assert received(groups="mean") == [[1.375, 0.625]]
    assert received(per="visible", groups="mean") == [[0.6875, 0.625]]


def test_groups_are_neighbours() -> None:
    weights = torch.arange(4.0).reshape(4, 1, 1)  # four query heads, two key heads
    shape = AttentionShape.of((4, 1, 1), (2, 1, 1))
    found = Received(groups="sum").define(
        SimpleNamespace(weights=weights, visible=weights >= 0), shape
    )
    assert found.tolist() == [[0.0 + 1.0], [2.0 + 3.0]]


# ── which queries ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6]),
        (3, [4, 5, 6]),
        (100, [0, 1, 2, 3, 4, 5, 6]),
        (slice(None), [0, 1, 2, 3, 4, 5, 6]),
        (slice(1, 6, 2), [1, 3, 5]),
        (slice(-2, None), [5, 6]),
        (slice(None, None, -3), [0, 3, 6]),
        (slice(5, 1, -1), [2, 3, 4, 5]),
        (slice(3, 1), []),
        (range(2, 5), [2, 3, 4]),
        (range(6, 0, -2), [2, 4, 6]),
        ([4, 1], [1, 4]),
        ((0, -1), [0, 6]),
        ([2, 2, -5, 2], [2]),
        ([], []),
        (torch.tensor([5, -7, 5]), [0, 5]),
        (np.array([3, 1]), [1, 3]),
        (np.arange(3, dtype=np.int32), [0, 1, 2]),
        (np.int64(3), [4, 5, 6]),
        (torch.tensor(3), [4, 5, 6]),
        ([np.int64(3), 1], [1, 3]),
        (slice(np.int64(1), np.int32(6), np.int8(2)), [1, 3, 5]),
    ],
    ids=repr,
)
def test_query_indices(given: Any, rows: list[int]) -> None:
    found = query_indices(Received(given).queries, 7, CPU)
    assert found.tolist() == rows and found.dtype == torch.int64


@pytest.mark.parametrize("given", [[7], [-8], range(5, 9), torch.tensor([0, 9])], ids=repr)
def test_queries_that_do_not_exist(given: Any) -> None:
    shape = AttentionShape.of((1, 7, 1), (1, 3, 1))
    with pytest.raises(InputError, match=r"query -?\d does not exist; there are 7 queries"):
        Received(given).check(shape)


@pytest.mark.parametrize("n", [0, -2])
def test_the_last_n_means_at_least_one(n: int) -> None:
    with pytest.raises(InputError, match=r"a number means the last n queries, so n ≥ 1"):
        Received(n).check(SHAPE)


@pytest.mark.parametrize("given", [2.0, "last", [1.5], [True, False], np.array([0.5])], ids=repr)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="give a slice, a range, whole-number indices, or a numb"):
        Received(given)


@pytest.mark.parametrize("given", [True, np.bool_(True), np.float64(3), torch.tensor(2.0)])
def test_a_number_that_is_not_whole_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="or a number n for the last n queries"):
        Received(given)


def test_a_slice_is_of_whole_numbers_and_steps() -> None:
    with pytest.raises(InputError, match=r"queries=slice\('a', 'b', None\); give a slice of whole"):
        Received(slice("a", "b"))
    with pytest.raises(InputError, match=r"queries=slice\(0, 5, 0\); the step of a slice is not 0"):
        Received(slice(0, 5, 0))


def test_the_words_are_checked() -> None:
    with pytest.raises(InputError, match=r"Received\(per='mean'\); give 'sum' or 'visible'"):
        Received(per="mean")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"groups='all'\); give None, 'sum', 'mean' or 'max'"):
        Received(groups="all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Received\(how='least'\); give 'sum', 'mean' or 'max'"):
        Received(how="least")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the largest weight is not divided"):
        Received(per="visible", how="max")


def test_both_spellings_of_the_mean_are_equal() -> None:
    assert Received(4, how="mean") == Received(4, "visible") == Received(4, "visible", how="sum")
    assert Received(how="mean") != Received() != Received(how="max")


def test_the_largest_weight() -> None:
    assert received(how="max") == [[1.0, 0.5], [1.0, 0.75]]
    assert received([], how="max") == [[0.0, 0.0], [0.0, 0.0]]
    assert received(how="max", groups="max") == [[1.0, 0.75]]


def weighted(by: list[Any], *given: Any, **named: Any) -> list[list[float]]:
    summary = Weighted(Received(*given, **named), torch.tensor(by))
    return summary.define(SimpleNamespace(weights=WEIGHTS, visible=VISIBLE), SHAPE).tolist()


def test_queries_are_weighted_before_they_are_reduced() -> None:
    assert weighted([2.0, 4.0]) == [[4.0, 2.0], [3.0, 3.0]]
    assert weighted([2.0, 4.0], how="mean") == [[2.0, 2.0], [1.5, 3.0]]
    assert weighted([2.0, 6.0], how="max") == [[3.0, 3.0], [2.0, 4.5]]
    assert weighted([-1.0, -1.0], how="max") == [[0.0, 0.0], [0.0, 0.0]], "hidden cells count 0"
    assert weighted([[1.0, 0.0], [0.0, 4.0]], groups="sum") == [[2.0, 3.0]]
    assert weighted([3.0], [1]) == [[1.5, 1.5], [0.75, 2.25]], "one number for all"


def test_weights_of_queries_are_numbers() -> None:
    with pytest.raises(DTypeError, match="one number per query"):
        Weighted(Received(), [1.0, 2.0])  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"torch\.bool"):
        Weighted(Received(), torch.tensor([True]))
    with pytest.raises(InputError, match=r"give regard\.Received"):
        Weighted(torch.ones(2), torch.ones(2))  # type: ignore[arg-type]


def test_the_same_queries_are_the_same_summary() -> None:
    assert Received([1, 2]) == Received(torch.tensor([1, 2])) == Received(np.array([1, 2]))
    assert hash(Received(slice(1, 2))) == hash(Received(slice(1, 2)))
    assert Received(slice(1, 2)) == Received(slice(1, 2)) != Received(slice(1, 3))
    assert Received(5) == Received(np.int64(5)) != Received([5])
