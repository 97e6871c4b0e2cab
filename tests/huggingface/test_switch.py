"""using(): regard for as long as a block lasts, and everything as it was afterwards."""

from __future__ import annotations

import copy
import warnings
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import MambaConfig, MambaModel, PreTrainedConfig

import regard
from huggingface.zoo import FAMILIES, build, inputs_of, model_of
from regard.errors import DTypeError, RegardWarning, UnavailableError
from regard.huggingface import using


def implementations(model: nn.Module) -> list[str]:
    """What each configuration in a model says, parts and parts of parts."""
    found = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    return [c._attn_implementation for c in found.values() if isinstance(c, PreTrainedConfig)]


def test_every_part_is_switched_and_switched_back_to_its_own() -> None:
    model = build(FAMILIES["clip"])
    model.vision_model.config._attn_implementation = "sdpa"
    model.text_model.config._attn_implementation = "eager"
    before = implementations(model)
    assert {"sdpa", "eager"} <= set(before)
    with using(model):
        assert set(implementations(model)) == {"regard"}
    assert implementations(model) == before


def test_configurations_of_other_parts_are_left_alone() -> None:
    model = build(FAMILIES["clip"])
    model.vision_model = nn.Identity()
    with using(model):
        assert model.config._attn_implementation == "regard"
        assert model.config.text_config._attn_implementation == "regard"
        assert model.config.vision_config._attn_implementation == "eager"


def test_a_layer_with_a_configuration_of_its_own_is_switched_too() -> None:
    model = build(FAMILIES["llama"])
    layer = model.model.layers[1].self_attn
    layer.config = copy.deepcopy(layer.config)
    with using(model):
        assert layer.config._attn_implementation == "regard"
    assert layer.config._attn_implementation == "eager"


def test_it_is_switched_back_after_an_error() -> None:
    model = model_of("t5")  # encoder and decoder have configurations of their own
    before = implementations(model)
    with pytest.raises(ZeroDivisionError), using(model):
        assert set(implementations(model)) == {"regard"}
        1 / 0  # noqa: B018
    assert implementations(model) == before


def test_blocks_nest() -> None:
    model = model_of("llama")
    with using(model):
        with using(model):
            pass
        assert set(implementations(model)) == {"regard"}
    assert set(implementations(model)) == {"eager"}


def test_it_gives_the_modules_that_are_seen() -> None:
    with using(model_of("llama")) as found:
        assert list(found.seen) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
        assert not found.unseen


@torch.no_grad()
def test_a_part_of_a_model_or_a_model_inside_another_module_will_do() -> None:
    model = model_of("llama")
    inputs = inputs_of("decoder")
    with using(model.model):
        found = model(**inputs, output_attentions=True)
    assert isinstance(found.attentions[0], regard.Attention)
    with using(nn.ModuleDict({"wrapped": model})):
        found = model(**inputs, output_attentions=True)
    assert isinstance(found.attentions[0], regard.Attention)
    assert set(implementations(model)) == {"eager"}


def test_parts_that_are_not_seen_are_a_warning_that_names_them() -> None:
    says = r"siglip.*vision_model\.head"
    with pytest.warns(RegardWarning, match=says) as caught, using(model_of("siglip")) as found:
        assert found.seen and found.unseen
    assert caught[0].filename == __file__


def test_a_model_all_of_which_is_seen_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with using(model_of("bart")):
            pass


def test_a_model_without_attention_is_an_error() -> None:
    model = MambaModel(MambaConfig(hidden_size=8, num_hidden_layers=1, vocab_size=9, state_size=4))
    with pytest.raises(UnavailableError, match="mamba has no attention"), using(model):
        pass


@pytest.mark.parametrize("wrong", [nn.Linear(2, 2), "llama", None], ids=["layer", "name", "None"])
def test_what_is_no_model_is_an_error(wrong: Any) -> None:
    with pytest.raises(DTypeError, match=f"not a {type(wrong).__name__}"), using(wrong):
        pass


class Inner(PreTrainedConfig):
    """A part of a part."""


class Part(PreTrainedConfig):
    """Has one."""

    sub_configs: ClassVar = {"inner": Inner}


class Whole(PreTrainedConfig):
    """Has one that has one."""

    sub_configs: ClassVar = {"part": Part}


def test_configurations_inside_those_inside_are_left_alone() -> None:
    """transformers' own property hands a part's name down to the parts of that part."""
    model = build(FAMILIES["bert"])
    whole, part, inner = model.config, Part(), Inner()
    type(whole).sub_configs, before = Whole.sub_configs, type(whole).sub_configs
    try:
        whole.part, part.inner = part, inner
        whole._attn_implementation_internal = "eager"
        part._attn_implementation_internal = "sdpa"
        inner._attn_implementation_internal = "eager"
        for _ in range(2):
            assert (part._attn_implementation, inner._attn_implementation) == ("sdpa", "eager")
            with using(model):
                assert whole._attn_implementation == "regard"
                assert (part._attn_implementation, inner._attn_implementation) == ("sdpa", "eager")
    finally:
        type(whole).sub_configs = before


def test_a_configuration_without_a_name_gets_none_back() -> None:
    model = model_of("bert")
    model.config._attn_implementation_internal = None
    try:
        with using(model):
            assert model.config._attn_implementation == "regard"
        assert model.config._attn_implementation is None
    finally:
        model.config._attn_implementation_internal = "eager"
