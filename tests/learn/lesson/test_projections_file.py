"""Projections out of a file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError, ShapeError
from regard.learn.languages import language
from regard.learn.lesson.projections import read_projections

EYE = [[1, 0], [0, 1]]
HEAD = {"w_q": EYE, "w_k": EYE, "w_v": [[1, 0, 2], [0, 1, 3]]}


@pytest.fixture
def read(tmp_path):
    """Write a document and read it as projections for embeddings of width 2."""

    def write_and_read(value, width=2):
        path = tmp_path / "p.json"
        path.write_text(json.dumps(value))
        return read_projections(path, width)

    return write_and_read


def test_one_head(read):
    made = read(HEAD)
    (head,) = made.heads
    assert np.array_equal(head.w_q, np.eye(2))
    assert head.w_v.shape == (2, 3)
    assert made.w_o is None
    assert language("en")(made.source) == "projections from p.json"
    assert (made.sizes.heads, made.sizes.d_k, made.sizes.d_v) == (1, 2, 3)


def test_w_o_of_one_head(read):
    made = read(HEAD | {"w_o": [[1], [2], [3]]})
    assert made.w_o is not None
    assert made.w_o.tolist() == [[1], [2], [3]]


def test_several_heads(read):
    made = read({"heads": [HEAD, HEAD], "w_o": [[1, 0]] * 6})
    assert made.sizes.heads == 2
    assert made.w_o is not None


def test_other_keys_do_not_matter(read):
    assert read(HEAD | {"comment": "mine", "w_o": None}).w_o is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1], "not an object"),
        ({}, "w_q, w_k, w_v missing, the object has nothing"),
        ({"w_q": EYE, "W_K": EYE}, "w_k, w_v missing, the object has w_q, W_K"),
        ({"heads": []}, '"heads" is not a list of objects'),
        ({"heads": [3]}, '"heads" is not a list of objects'),
        ({"heads": {"w_q": EYE}}, '"heads" is not a list of objects'),
        ({"heads": [HEAD, {"w_q": EYE}], "w_o": EYE}, "head 2: w_k, w_v missing"),
        ({"heads": [HEAD, HEAD]}, "2 heads need w_o; give it 6 rows"),
        (HEAD | {"w_k": [[1, "a"], [0, 1]]}, 'w_k, row 1, column 2 is "a"'),
        (HEAD | {"w_o": [[1, 2], [3]]}, "w_o is ragged"),
        (HEAD | {"w_o": 5}, "w_o is not a matrix"),
    ],
)
def test_what_is_wrong_is_named(read, value, words):
    with pytest.raises(InputError) as caught:
        read(value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            HEAD | {"w_q": [[1, 0]]},
            "x (tokens × 2) @ w_q (1 × 2) does not multiply; give w_q 2 rows",
        ),
        (HEAD | {"w_v": [[1]]}, "x (tokens × 2) @ w_v (1 × 1) does not multiply; give w_v 2 rows"),
        (HEAD | {"w_k": [[1], [0]]}, "w_q is 2 × 2 and w_k is 2 × 1, so a query cannot meet a key"),
        (HEAD | {"w_o": EYE}, "(tokens × 3) @ w_o (2 × 2) does not multiply; give w_o 3 rows"),
        (
            {"heads": [HEAD, HEAD | {"w_v": EYE}], "w_o": EYE},
            "head 2: w_v is 2 × 2 and head 1's is 2 × 3; give all heads the same sizes",
        ),
    ],
)
def test_shapes_that_do_not_multiply_say_both(read, value, words):
    with pytest.raises(ShapeError) as caught:
        read(value)
    assert words in str(caught.value)


def test_the_width_comes_from_the_embeddings(read):
    with pytest.raises(ShapeError, match=r"x \(tokens × 4\) @ w_q \(2 × 2\)"):
        read(HEAD, width=4)
