"""Every attention of a model is heard, one way or the other; where not, somebody says so."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import FalconConfig, FalconForCausalLM

import regard
from huggingface.zoo import BLIND, FAMILIES, answer_of, build, enliven, inputs_of
from regard.engine.observers import Request
from regard.errors import InputError, RegardWarning, UnavailableError
from regard.hear.intercept import AttentionHooks, is_hugging_face

SHAPES: dict[str, dict[str, Any]] = {
    "one key head": {},
    "a key head each": {"multi_query": False},
    "groups": {"new_decoder_architecture": True, "num_kv_heads": 2},
}


class Deaf:
    """A listener that leaves attention computed by regard alone."""

    def wants(self, call: Any) -> Request[None]:
        """Nothing."""
        return Request()

    def heard(self, attention: regard.Attention, request: Request[None]) -> None:
        """Nothing."""


class Wrapped(nn.Module):
    """Somebody's module around a model, and maybe an attention of its own."""

    def __init__(self, model: nn.Module, attends: bool = False) -> None:
        super().__init__()
        self.model, self.attends = model, attends

    def forward(self, **inputs: Any) -> Any:
        """The model's answer."""
        if self.attends:
            x = torch.randn(2, 4, 11, 8, generator=torch.Generator().manual_seed(0))
            nn.functional.scaled_dot_product_attention(x, x, x)
        return self.model(**inputs)


@pytest.mark.parametrize("name", BLIND)
def test_a_model_that_cannot_be_heard_is_refused_before_a_file_is_made(
    name: str, tmp_path: Path
) -> None:
    model, path = build(BLIND[name]), tmp_path / "run.regard"
    with (
        pytest.raises(UnavailableError, match=rf"^{name} does not dispatch.*regard\.replay"),
        regard.record(model, path),
    ):
        pass
    assert not path.exists()
    model(**inputs_of(BLIND[name].kind))  # and runs as before


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_falcon_on_sdpa_is_recorded_as_its_eager_self(shape: str, padding: str) -> None:
    config = FalconConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **SHAPES[shape]
    )
    torch.manual_seed(0)
    model = FalconForCausalLM._from_config(copy.deepcopy(config), attn_implementation="sdpa")
    twin = FalconForCausalLM._from_config(config, attn_implementation="eager").eval()
    twin.load_state_dict(enliven(model.eval()).state_dict())
    inputs = inputs_of("decoder", padding)
    plain = answer_of(model(**inputs))
    with regard.record(model) as rec:
        assert torch.equal(answer_of(model(**inputs)), plain)
    truth = twin(**inputs, output_attentions=True).attentions
    assert len(rec.recording) == 2 * 4 and len(rec.recording.prompts) == 2
    for number, prompt in enumerate(rec.recording.prompts):
        real = inputs["attention_mask"][number].bool().numpy()
        for head in prompt:
            wanted = truth[head.layer][number, head.head].numpy()[real][:, real]
            np.testing.assert_allclose(head[:, :], wanted, atol=2e-6)


def test_falcon_on_eager_is_told_what_would_work() -> None:
    with (
        pytest.raises(UnavailableError, match="with attn_implementation='sdpa' it can be recorded"),
        regard.record(build(BLIND["falcon"], "eager")),
    ):
        pass


@torch.no_grad()
def test_inside_another_module_it_is_a_warning_even_where_something_else_is_heard() -> None:
    inputs = inputs_of("encoder")
    deberta = build(BLIND["deberta-v2"])
    says = "deberta-v2 does not dispatch its attention .computed by DebertaV2Attention"
    with (
        pytest.raises(InputError, match=f"no attention was heard: Wrapped ran, .*{says}"),
        regard.record(Wrapped(deberta)) as rec,
    ):
        rec.model(**inputs)
    with pytest.warns(RegardWarning, match=says), regard.record(Wrapped(deberta, True)) as rec:
        rec.model(**inputs)
    assert len(rec.recording) == 4  # its own


@torch.no_grad()
def test_what_is_heard_inside_another_module_is_no_warning() -> None:
    inputs = inputs_of("decoder")
    for model in (build(FAMILIES["llama"], "sdpa"), build(BLIND["falcon"], "sdpa")):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RegardWarning)
            with regard.record(Wrapped(model)) as rec:
                rec.model(**inputs)
        assert rec["L0H3"].shape == (11, 11)


def test_who_wrote_the_model() -> None:
    assert is_hugging_face(build(FAMILIES["llama"]))
    assert not is_hugging_face(Wrapped(build(FAMILIES["llama"])))
    assert not is_hugging_face(nn.Linear(2, 2))


@torch.no_grad()
def test_each_call_of_torchs_function_is_told_once_and_none_afterwards() -> None:
    model, heard = build(BLIND["falcon"], "sdpa"), []
    with AttentionHooks(model, Deaf(), lambda attention, *_: heard.append(attention.shape)):
        model(**inputs_of("decoder"))
    model(**inputs_of("decoder"))
    assert heard == [(2, 4, 11, 11)]
