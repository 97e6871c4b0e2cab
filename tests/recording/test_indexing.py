"""`head[…]` is `np.asarray(head)[…]`, whatever the index."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.mask import Causal
from regard.recording import Head, Recording
from support.recordings import Chunk, write_recording

ROWS, KEYS = 90, 130
DICE = np.random.default_rng(1)

INDICES = {
    "a cell": (5, 3), "the last": (-1, -1), "a row": 7, "a row in a tuple": (7,),
    "a column": (slice(None), 4), "everything": ..., "all": slice(None), "nothing given": (),
    "a row and dots": (7, ...), "dots and a column": (..., 7), "dots between": (3, ..., 4),
    "dots with both": (..., 3, 4), "slices": (slice(3, 50), slice(100, None)),
    "steps": (slice(None, None, 7), slice(5, 80, 3)),
    "backwards": (slice(None, None, -1), slice(9)),
    "an empty slice": (slice(5, 5), slice(3)), "a list": [3, 80, 3], "a list of one": ([5],),
    "an empty list": ([], slice(None)), "a list of keys": (slice(None), [3, -1, 100]),
    "a row's keys": (7, [3, 100]), "keys of lists": ([3, 5], 7), "a range": range(3, 9),
    "pairs": ([1, 2, 80], [0, 2, 129]), "a grid": (np.array([[1], [80]]), np.array([[0, 5, 129]])),
    "two axes of rows": (np.array([[1, 2], [3, 4]]),), "numpy integers": (np.int32(4), np.uint8(9)),
    "booleans of rows": (np.arange(ROWS) % 3 == 0,),
    "booleans of keys": (4, np.arange(KEYS) % 7 == 0),
    "booleans of both": (np.arange(ROWS) < 4, slice(None)),
    "a matrix of booleans": DICE.random((ROWS, KEYS)) > 0.97,
    "no booleans": np.zeros((ROWS, KEYS), bool),
    "a new axis": (None, 3), "a new axis between": (slice(3), None, slice(4)),
    "a new axis and a list": ([1, 2], None, 3), "negative lists": ([-1, -90], slice(None)),
    "an empty pair": ([], []), "two lists of rows and a slice": (np.array([[1, 2]]), slice(3, 6)),
}  # fmt: skip


@pytest.fixture(scope="module")
def head() -> Head:
    """A head of 90 queries and 130 keys."""
    store, _ = write_recording(
        chunks=[Chunk((0, ROWS), (0, KEYS), Causal())], kind="cross", statistics=False, pieces=37
    )
    return Recording(store)["L0H2"]


@pytest.mark.parametrize("name", list(INDICES))
def test_cells_are_those_of_the_whole_matrix(head, name):
    index = INDICES[name]
    index = list(index) if isinstance(index, range) else index
    for asked, whole in ((head, head.dense()), (head.scores, head.scores[...])):
        cells, wanted = asked[INDICES[name]], whole[index]
        assert np.shape(cells) == np.shape(wanted)
        np.testing.assert_array_equal(cells, wanted)
        assert cells.dtype == np.float32


@pytest.mark.parametrize(
    "index",
    [90, -91, (0, 130), (0, 0, 0), ([90], 3), (3, [-131]), "a", 1.5, ([0.5], 1), (..., ...),
     (slice("a"),), (slice(None, None, 0),), np.zeros((3, 3), bool), ([1, 2], [1, 2, 3])],
)  # fmt: skip
def test_what_does_not_fit_is_an_input_error(head, index):
    with pytest.raises(InputError, match=r"does not fit a matrix of shape \(90, 130\)"):
        head[index]


def test_rows_take_what_an_index_takes(head):
    dense = head.dense()
    for rows in (3, [3, 4], slice(5, 9), range(4), np.array([1, 7]), np.array([[1, 7]])):
        index = list(rows) if isinstance(rows, range) else rows
        np.testing.assert_array_equal(head.rows(rows), dense[index])
