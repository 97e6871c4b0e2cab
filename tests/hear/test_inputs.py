"""What a call of a module brings, wherever in its arguments it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from recorder.readers import CALLS, Reader, batch_of
from regard.hear.inputs import (
    ModelInputs,
    argument_names,
    by_name,
    margins,
    real_in,
    real_tokens,
    without_padding,
)
from regard.mask import Extent
from regard.mask.base import Both


def given(module: nn.Module, *args: Any, **kwargs: Any) -> ModelInputs:
    return ModelInputs.of(module, by_name(argument_names(module), args, kwargs))


@pytest.mark.parametrize("name", CALLS)
def test_tokens_and_masks_are_found_in_any_structure(name: str) -> None:
    ids, mask = batch_of(3, "left")
    args, kwargs = CALLS[name](ids, mask)
    found = given(Reader(), *args, **kwargs)
    assert found.ids is not None and torch.equal(found.ids, ids)
    assert found.mask is mask and found.batch == 3


class Takes(nn.Module):
    """Any arguments."""

    def forward(self, first: Any, *rest: Any, **named: Any) -> Any:
        """Nothing."""


IDS = torch.ones(3, 6, dtype=torch.long)


def test_unnamed_integers_are_tokens_where_nothing_else_can_be() -> None:
    model = Takes()
    assert given(model, IDS).ids is not None
    assert given(model, {"x": IDS, "position_ids": IDS, "labels": IDS}).ids is not None
    assert given(model, IDS, IDS + 1).ids is None
    assert given(model, IDS).batch is None  # (tokens, batch), or (batch, tokens)
    assert given(model, {"input_ids": IDS}, IDS + 1).batch == 3


def test_embeddings_masks_and_the_declared_input_count_sequences() -> None:
    model: Any = Takes()
    assert given(model, inputs_embeds=torch.zeros(2, 5, 8), first=None).batch == 2
    assert given(model, {"attention_mask": IDS}).batch == 3
    assert given(model, torch.zeros(4, 3, 8, 8)).batch is None
    model.main_input_name = "pixel_values"
    assert given(model, pixel_values=torch.zeros(4, 3, 8, 8), first=None).batch == 4


def test_structures_that_hold_themselves_end() -> None:
    loop: dict[str, Any] = {"input_ids": IDS}
    loop["self"] = [loop]
    assert given(Takes(), loop).batch == 3


def test_caches_are_asked_for_their_length() -> None:
    class Cache:
        def __init__(self) -> None:
            self.held = torch.zeros(1, 1)

        def get_seq_length(self) -> int:
            return 7

    found = given(Takes(), {"past_key_values": Cache(), "encoder_outputs": (torch.zeros(1, 2, 3),)})
    assert found.cached == 7 and found.encoded and found.data == [((1, 2, 3), False)]


def test_arguments_have_the_names_of_forward() -> None:
    names = argument_names(Takes())
    assert by_name(names, (1, 2, 3), {"four": 4}) == {"first": 1, "rest": (2, 3), "four": 4}

    class Two(nn.Module):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            """The mask as second argument."""
            return input_ids

    assert given(Two(), IDS, IDS * 0).mask is not None


# ── which tokens are real, by what models and masks say ────────────────────────────────────────


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
    assert margins(flags.numpy()[None]) == [range(1, 4)]
    assert margins(np.zeros((2, 3), bool)) == [range(0)] * 2


def test_what_a_mask_says_of_an_entry() -> None:
    mask = regard.Causal() & regard.Padding(torch.tensor([2, 4]), torch.ones(2, 4).bool())
    told = real_in(mask, Extent(4, 4, (2,)))
    assert told.keys is not None and told.keys[0].tolist() == [True, True, False, False]
    assert told.queries is not None and told.queries.all()
    nothing = real_in(regard.Causal(), Extent(4, 4))
    assert nothing.queries is None and nothing.keys is None


def test_what_a_model_is_told() -> None:
    flags = torch.tensor([[1, 1, 0]])
    found = real_tokens(flags)
    assert found is not None and found.tolist() == [[True, True, False]]
    assert real_tokens(torch.zeros(1, 1, 3, 3)) is None
    assert real_tokens({"full": None, "sliding": flags}) is not None
    assert real_tokens(None) is None
