"""A Rule's cell is what its function returns for this cell alone, whatever shape it works on."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.mask import Extent, Intervals, Rule
from regard.mask.spans import runs_of

EXTENT = Extent(7, 9, (2,), 3)
ROWS, COLS = torch.arange(7), torch.arange(9)
DOC = torch.tensor([0, 0, 1, 1, 2, 2, 2, 3, 3])
BOUNDS = torch.tensor([[0, 3]] * 3 + [[2, 8]] * 4)
TABLE = torch.rand(7, 9, generator=torch.Generator().manual_seed(0)) > 0.5
OF_HEADS = torch.rand(2, 3, 7, 9, generator=torch.Generator().manual_seed(1)) > 0.5
MARKED = torch.tensor([1, 4, 7])


def _between(i: Any, j: Any) -> Any:
    low, high = BOUNDS[i]
    return (low <= j) & (j < high)


FUNCTIONS = {
    "reduced by any": lambda i, j: (i >= j).any(),
    "reduced by sum": lambda i, j: (i - j).abs().sum() < 3,
    "reduced with its axis kept": lambda i, j: (i >= j).any(-1, keepdim=True),
    "reduced in part": lambda b, h, i, j: (i >= j) & (DOC[i] == DOC[j]).any(),
    "beyond the mean": lambda i, j: j > i.float().mean(),
    "cumulated": lambda i, j: (i >= j).cumsum(0) > 0,
    "a sum of a captured table": lambda i, j: BOUNDS[i].sum() > j,
    "the first of a captured pair": lambda i, j: (BOUNDS[i][0] <= j) & (j < BOUNDS[i][1]),
    "a captured pair": _between,
    "a table": lambda i, j: TABLE[i, j],
    "a table, axis by axis": lambda i, j: TABLE[i][j],
    "a table, swapped": lambda i, j: TABLE.T[j, i],
    "a table of heads": lambda b, h, i, j: OF_HEADS[b, h, i, j],
    "a table of heads, axis by axis": lambda b, h, i, j: OF_HEADS[b, h][i, j],
    "a slice of a table": lambda b, h, i, j: OF_HEADS[b, :, i, j][h],
    "one of several": lambda i, j: (j == MARKED).any(),
    "one of several, spread": lambda i, j: (j[..., None] == MARKED).any(-1),
    "stacked": lambda i, j: torch.stack([i == j, i > j]).any(),
    "a constant": lambda i, j: torch.tensor(True),
    "a new tensor": lambda i, j: i.new_tensor([1, 2])[0] < j,
    "of queries alone": lambda i, j: i > 2,
    "of keys alone": lambda i, j: j < 3,
    "of heads alone": lambda b, h, i, j: h == 1,
    "of entries": lambda b, h, i, j: (b == 1) & (j <= i),
}


def _takes_four(fn: Any) -> bool:
    return fn.__code__.co_argcount == 4


def _by_cells(fn: Any) -> torch.Tensor:
    made = torch.zeros(EXTENT.full, dtype=torch.bool)
    for cell in itertools.product(*map(range, EXTENT.full)):
        made[cell] = fn(*map(torch.tensor, cell if _takes_four(fn) else cell[2:]))
    return made


@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS)
def test_each_cell_is_the_functions_word_about_it_alone(fn):
    right, dice = _by_cells(fn), random.Random(0)
    seen = Rule(fn).allows(torch.arange(7), torch.arange(9), EXTENT).expand(EXTENT.full)
    assert torch.equal(seen, right)
    for _ in range(3):  # and any part of the matrix is that part of it
        i, j = (torch.tensor(sorted(dice.sample(range(n), dice.randrange(1, n)))) for n in (7, 9))
        part = Rule(fn).allows(i, j, EXTENT).expand(2, 3, len(i), len(j))
        assert torch.equal(part, right[..., i, :][..., j])
    q, k, v = (torch.randn(2, 3, n, 4) for n in (7, 9, 9))
    truth = regard.attend(q, k, v, mask=right, implementation="dense")
    for implementation in ("cpu", "tiled", "dense"):
        a = regard.attend(q, k, v, mask=Rule(fn), implementation=implementation)
        torch.testing.assert_close(a.output, truth.output)
        torch.testing.assert_close(a.received(), truth.received())


def test_axes_along_which_nothing_changes_have_size_one():
    for fn, shape in (
        (lambda b, h, i, j: i >= j, (1, 1, 7, 9)),
        (lambda b, h, i, j: (b == 1) & (j <= i), (2, 1, 7, 9)),
        (lambda b, h, i, j: (h == 1) & (j <= i), (1, 3, 7, 9)),
        (lambda i, j: i >= j, (7, 9)),
    ):
        assert Rule(fn).allows(ROWS, COLS, EXTENT).shape == shape


def test_a_rule_of_one_run_a_row_is_such_intervals():
    def runs(fn: Any) -> Any:
        return runs_of(Rule(fn), EXTENT, lambda start, stop: torch.arange(start, stop))

    band = runs(lambda i, j: (j <= i + 3) & (j > i - 2))
    table = Rule(lambda i, j: (j <= i + 3) & (j > i - 2)).allows(ROWS, COLS, EXTENT)
    again = Intervals(*band).allows(ROWS.numpy(), COLS.numpy(), EXTENT)
    assert np.array_equal(again, table.numpy())
    assert runs(lambda i, j: (i + j) % 2 == 0) is None
    assert runs(lambda b, h, i, j: j <= i + h) is None


def test_a_function_that_vmap_cannot_run_is_given_index_arrays():
    def by_numpy(i: Any, j: Any) -> Any:
        return torch.from_numpy(np.isin(j.numpy(), [1, 2])) & (i > 3)

    def by_shape(i: Any, j: Any) -> Any:
        return i[:, 0][:, None] >= j[0]

    i, j = torch.arange(7), torch.arange(9)
    seen = Rule(by_numpy).allows(i, j, EXTENT)
    assert torch.equal(seen, (i > 3)[:, None] & ((j == 1) | (j == 2)))
    assert torch.equal(Rule(by_shape).allows(i, j, EXTENT), i[:, None] >= j)


@pytest.mark.parametrize(
    "fn",
    [
        lambda i, j: torch.from_numpy((i.numpy() >= j.numpy()).any(-1, keepdims=True)),
        lambda i, j: torch.from_numpy(np.array((i.numpy() >= j.numpy()).any())),
        lambda i, j: (i >= j) if i.max().item() > 3 else (i < j),
    ],
    ids=["an axis", "both axes", "by the largest"],
)
def test_there_it_must_not_mix_cells(fn):
    with pytest.raises(
        InputError, match=r"Rule\(fn\) mixes cells.*return one boolean per \(i, j\)"
    ):
        Rule(fn).allows(torch.arange(7), torch.arange(9), EXTENT)


def test_a_function_that_fails_says_so_in_our_words():
    q = torch.randn(1, 1, 7, 4)
    with pytest.raises(
        InputError, match=r"the function in Rule\(fn\) runs neither .* out of bounds"
    ):
        regard.attend(q, q, q, mask=Rule(lambda i, j: TABLE[i + 100, j]))
