"""Where an attention belongs and where its tokens stand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from recorder.models import Stack, tiny, tokens
from regard.engine.call import Call
from regard.engine.observers import editing
from regard.errors import UnavailableError
from regard.hear.names import Spot, has_parts
from regard.intervene.here import Here, is_hugging_face
from regard.mask import Mask


class Note:
    """Writes down where each attention was."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self.spots: list[Spot | None] = []
        self.starts: list[tuple[int, int]] = []

    def mask(self, call: Call) -> Mask | None:
        """As it is."""
        self.spots.append(self._here.spot(call))
        self.starts.append(self._here.starts(call))
        return call.mask

    def output(self, call: Call, output: Tensor) -> Tensor:
        """As it is."""
        self._here.done()
        return output


def test_the_places_of_a_model() -> None:
    model, other = Stack(), Stack()
    with Here(model) as here, editing(note := Note(here)):
        model(torch.randn(1, 5, 32))
        other(torch.randn(1, 5, 32))
        model.layers[1](torch.randn(1, 5, 32))
    assert note.spots == [Spot("", 0), Spot("", 1), None, None, Spot("", 1)]


def test_calls_of_a_shared_layer_are_layers() -> None:
    model = tiny("albert", embedding_size=16, num_hidden_layers=3)
    with regard.huggingface.using(model), Here(model) as here, editing(note := Note(here)):
        model(tokens(5))
        model(tokens(5))
        shared = model.encoder.albert_layer_groups[0].albert_layers[0].attention
        with pytest.raises(UnavailableError, match="serves several layers"):
            shared(torch.randn(1, 5, 32))
    assert [spot.layer for spot in note.spots] == [0, 1, 2] * 2


def test_tokens_in_a_cache_count() -> None:
    model = tiny("mistral", sliding_window=8, num_key_value_heads=2)
    with regard.huggingface.using(model), Here(model) as here, editing(note := Note(here)):
        model.generate(tokens(20), max_new_tokens=3, do_sample=False, eos_token_id=None)
    # the window is 8: a sliding cache keeps the seven tokens before
    assert note.starts == [(0, 0)] * 2 + [(20, 13)] * 2 + [(21, 14)] * 2


def test_kinds_of_models() -> None:
    assert is_hugging_face(tiny("llama"))
    assert not is_hugging_face(Stack())
    assert not has_parts(tiny("llama"))
    assert has_parts(tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4))
