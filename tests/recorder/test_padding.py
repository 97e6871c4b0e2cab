"""Which tokens are real, by what models and masks say."""

from __future__ import annotations

import numpy as np
import torch

import regard
from regard.mask.base import Both
from regard.recorder.inputs import margin, real_in, real_tokens, without_padding

ALL = range(4)


def test_padding_is_taken_out_of_a_conjunction() -> None:
    padding = regard.Padding(4)
    assert without_padding(padding, ALL, ALL) is None
    assert repr(without_padding(regard.Causal() & padding, ALL, ALL)) == repr(regard.Causal())
    assert repr(without_padding(padding & regard.Window(3), ALL, ALL)) == repr(regard.Window(3))
    kept = ~padding & regard.Causal()
    assert isinstance(without_padding(kept, ALL, ALL), Both)


def test_a_hole_stays_in_the_mask() -> None:
    flags = torch.tensor([False, True, False, True])
    assert without_padding(regard.Padding(flags), ALL, range(1, 4)) is not None
    assert without_padding(regard.Padding(flags), ALL, range(3, 4)) is None
    assert margin(flags.numpy()) == range(1, 4)
    assert margin(np.zeros(3, bool)) == range(0)


def test_what_a_mask_says_of_an_entry() -> None:
    mask = regard.Causal() & regard.Padding(torch.tensor([2, 4]), torch.ones(2, 4).bool())
    told = real_in(mask, (0,), 4, 4)
    assert told.keys is not None and told.keys.tolist() == [True, True, False, False]
    assert told.queries is not None and told.queries.all()
    nothing = real_in(regard.Causal(), (), 4, 4)
    assert nothing.queries is None and nothing.keys is None


def test_what_a_model_is_told() -> None:
    flags = torch.tensor([[1, 1, 0]])
    found = real_tokens(flags)
    assert found is not None and found.tolist() == [[True, True, False]]
    assert real_tokens(torch.zeros(1, 1, 3, 3)) is None
    assert real_tokens({"full": None, "sliding": flags}) is not None
    assert real_tokens(None) is None
