"""Heads are named as recordings name them."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.hear.names import Spot
from regard.intervene.names import Heads, read_heads


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("L5H1", Heads("", 5, 1)),
        (" l5h1 ", Heads("", 5, 1)),
        ("L5", Heads("", 5, None)),
        ("cross.L2H0", Heads("cross", 2, 0)),
        ("cross", Heads("cross", None, None)),
        ((5, 2), Heads("", 5, 2)),
        ((np.int64(5), np.int32(2)), Heads("", 5, 2)),
        (("cross", 2, 0), Heads("cross", 2, 0)),
        ("model.layers.*.attn.L3H0", Heads("model.layers.*.attn", 3, 0)),
    ],
)
def test_names_are_read(given: object, meant: Heads) -> None:
    assert read_heads([given]) == (meant,)


def test_labels_are_read_back() -> None:
    for label in ("L5H1", "L5", "cross.L2H0", "cross", "encoder.L0"):
        (one,) = read_heads(label)
        assert one.label == label


@pytest.mark.parametrize(
    "wrong", [[5], [(5, -1)], [(5,)], [(5, 1.0)], [(True, 1)], ["5.1!"], [None], [("a", "b", 1)]]
)
def test_what_names_no_head_is_refused(wrong: list[object]) -> None:
    with pytest.raises(InputError, match="names no head; give 'L5H1'"):
        read_heads(wrong)


def test_a_single_number_is_no_list_of_heads() -> None:
    with pytest.raises(InputError, match="give a list of heads"):
        read_heads(5)


def test_where_heads_stand() -> None:
    assert Heads("", 5, 1).stand_at(Spot("", 5))
    assert not Heads("", 5, 1).stand_at(Spot("", 4))
    assert not Heads("", 5, 1).stand_at(Spot("cross", 5))
    assert Heads("Cross", None, None).stand_at(Spot("cross", 7))


def test_which_heads_of_a_layer_are_meant() -> None:
    assert list(Heads("", 5, 1).chosen(4)) == [1]
    assert list(Heads("", 5, None).chosen(4)) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="L5H9 does not exist; this layer has the heads 0–3"):
        Heads("", 5, 9).chosen(4)
