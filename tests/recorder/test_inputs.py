"""What a call of a module brings, wherever in its arguments it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recorder.readers import CALLS, Reader, batch_of
from regard.recorder.inputs import ModelInputs, argument_names, by_name


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
