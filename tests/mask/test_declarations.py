"""What a mask says of itself to those who treat such masks in a way of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.mask import Extent, Mask, Part, Window
from regard.nn.decode import sees_everything
from regard.nn.prefix import sees_prefix
from regard.recorder.layer_writer import follows
from regard.score import ALiBi, PartBias


class Near(Mask):
    """A window by another name."""

    steps: int

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return Window(self.steps).allows(i, j, extent)

    def as_window(self) -> Window:
        return Window(self.steps)


class Silent(Mask):
    """One that says nothing of itself."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return (i == i)[:, None] & (j == j)[None, :]


def test_windows() -> None:
    assert regard.Causal().as_window() == Window(None, 0)
    assert regard.Causal("start").as_window() == Window(None, 0, "start")
    assert Window(3, 1).as_window() == Window(3, 1)
    others = (regard.Prefix(2), regard.Padding([2]), ~regard.Causal(), Silent(), Near(1) & Near(2))
    assert [mask.as_window() for mask in others] == [None] * 5


def test_padding() -> None:
    padding = regard.Padding([2, 3])
    assert padding.as_padding() is padding
    assert (regard.Causal() & padding).as_padding() is None


def test_conditions_are_what_and_joined() -> None:
    a, b, c = regard.Causal(), Window(3), Silent()
    assert (a & (b & c)).conditions() == ((a & b) & c).conditions() == (a, b, c)
    assert (a | b).conditions() == (a | b,)


def test_a_stranger_is_treated_as_what_it_says() -> None:
    query, keys = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 5, 4)
    assert sees_everything(Near(4), query, keys) and not sees_everything(Near(3), query, keys)
    assert not sees_everything(Silent(), query, keys)
    assert not sees_prefix(Near(4)) and not sees_prefix(Silent()) and sees_prefix(regard.Causal())
    assert follows(Near(4) & regard.Causal(), 7) and not follows(Near(4) & Silent(), 7)


@pytest.mark.parametrize("mask", [Window(2), Near(2), Window(2) & regard.Prefix(4)])
def test_a_part_of_a_part(mask: Mask) -> None:
    whole = mask.allows(np.arange(9), np.arange(9), Extent(9, 9))
    part = mask.seen_from(2, 1, 9, 9)
    again = part.seen_from(3, 2, 5, 7)
    assert isinstance(part, Part) and again == Part(mask, 5, 3, 9, 9)
    here = Extent(2, 4)
    assert np.array_equal(again.allows(np.arange(2), np.arange(4), here), whole[..., 5:7, 3:7])


def test_a_part_of_a_part_of_a_bias() -> None:
    again = ALiBi(np.array([0.5])).seen_from(2, 1, 9, 9).seen_from(3, 2, 5, 7)
    assert isinstance(again, PartBias) and not isinstance(again.bias, PartBias)
    assert (again.query_start, again.key_start, again.queries, again.keys) == (5, 3, 9, 9)


def test_a_stranger_has_no_intervals() -> None:
    extent = Extent(4, 4)
    spans, rest = (regard.Causal() & Silent()).intervals(extent)
    assert rest == Silent() and spans is not None
    assert np.array_equal(spans.high, [1, 2, 3, 4])
    assert (regard.Causal() | Silent()).intervals(extent) == (None, regard.Causal() | Silent())
