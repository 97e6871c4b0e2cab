"""What a model has can mostly be told before it runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from recorder.models import Plain, Stack, tiny, tokens
from regard.errors import InputError
from regard.intervene.names import read_heads
from regard.intervene.survey import Survey, listed

T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
FAMILIES = {
    "llama": {},
    "bert": {},
    "albert": {"embedding_size": 16, "num_hidden_layers": 3},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2},
    "t5": T5,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_its_labels_are_those_of_a_recording(family: str) -> None:
    model, ids = tiny(family, **FAMILIES[family]), tokens(8)
    more = {"decoder_input_ids": ids} if family == "t5" else {}
    with torch.no_grad(), regard.record(model) as rec:
        model(ids, **more)
    assert sorted(Survey.of(model).labels()) == sorted(rec.labels())


def test_layers_of_regard_s_own() -> None:
    assert Survey.of(Stack()).labels() == [f"L{n}H{h}" for n in range(2) for h in range(4)]
    assert Survey.of(regard.nn.SelfAttention(8)).labels() == ["L0H0"]


def test_where_nothing_is_known_nothing_is_refused() -> None:
    survey = Survey.of(Plain())
    assert survey.labels() == []
    survey.check(read_heads(["L99H99", "cross"]))


class Towers(nn.Module):
    """Two stacks, neither of which need be heard first."""

    def __init__(self) -> None:
        super().__init__()
        self.vision = Stack(layers=3)
        self.text = Stack(layers=2)


def test_where_names_depend_on_who_is_heard_first_either_is_fine() -> None:
    survey = Survey.of(Towers())
    survey.check(read_heads(["L0H0", "text.L0H0", "vision.L2H3"]))
    with pytest.raises(InputError, match="layer 3 does not exist; this model has 0–2"):
        survey.check(read_heads(["text.L3H0"]))
    with pytest.raises(InputError, match="no stack 'audio'"):
        survey.check(read_heads(["audio.L0H0"]))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], "none"), ([0], "0 alone"), ([0, 1, 2], "0–2"), ([0, 4, 8], "0, 4, 8")],
)
def test_numbers_for_people(numbers: list[int], said: str) -> None:
    assert listed(numbers) == said
