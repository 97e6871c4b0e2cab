"""Who can be seen, and what is said of those who cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedConfig

from huggingface.zoo import BLIND, FAMILIES, build, model_of
from regard.errors import UnavailableError
from regard.huggingface import supported_families, using
from regard.huggingface.families import calls_torch, check_config, refusal, sight


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_of_these_families_is_seen(name: str) -> None:
    found = sight(model_of(name))
    assert name.removesuffix("_text") in supported_families()
    assert found.seen
    # Siglip's pooling head is torch's own MultiheadAttention
    assert list(found.unseen) == (["vision_model.head"] if name == "siglip" else [])


@pytest.mark.parametrize("name", BLIND)
def test_a_family_with_attention_of_its_own_is_named(name: str) -> None:
    assert name.replace("-", "_") not in supported_families()
    model = build(BLIND[name])
    says = f"^{name} does not dispatch.*Attention"
    with pytest.raises(UnavailableError, match=says) as caught, using(model):
        pass
    assert "llama" in str(caught.value)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", BLIND)
def test_who_calls_torchs_function_can_be_heard_there(name: str) -> None:
    assert not calls_torch(build(BLIND[name], "eager"))
    if name == "falcon":
        assert calls_torch(build(BLIND[name], "sdpa"))


def test_who_dispatches_is_not_heard_at_torchs_function() -> None:
    assert not calls_torch(build(FAMILIES["llama"], "sdpa"))
    assert not calls_torch(nn.Linear(2, 2))


def test_a_configuration_alone_tells_no_more_than_it_knows() -> None:
    check_config(None)
    check_config(LlamaConfig())
    check_config(PreTrainedConfig())
    with pytest.raises(UnavailableError):
        build(BLIND["bloom"])
        check_config(BLIND["bloom"].configuration())


class Unseen(nn.Module):
    """Computes by itself."""


class SelfAttention(Unseen):
    """Looks like attention."""


class Around(nn.Module):
    """Holds others."""

    def __init__(self, **inside: nn.Module) -> None:
        super().__init__()
        for name, module in inside.items():
            self.add_module(name, module)


class AttentionBlock(Around):
    """Looks like attention from outside."""


def test_modules_around_and_inside_one_that_dispatches_count_as_seen() -> None:
    layer = model_of("llama").model.layers[0].self_attn
    found = sight(AttentionBlock(inner=layer))
    assert list(found.seen) == ["inner"] and not found.unseen


def test_of_nested_modules_that_do_not_dispatch_the_outermost_is_named() -> None:
    model = Around(one=AttentionBlock(inner=SelfAttention()), other=Unseen())
    assert list(sight(model).unseen) == ["one"]
    assert "AttentionBlock" in str(refusal("toy", map(type, sight(model).unseen.values())))


def test_a_method_that_dispatches_is_found_wherever_it_is() -> None:
    class Decorated(nn.Module):
        @torch.no_grad()
        def helper(self) -> None:
            def inner() -> None:
                ALL_ATTENTION_FUNCTIONS  # type: ignore  # noqa

            inner()

    class Inherits(Decorated):
        pass

    assert list(sight(Around(a=Decorated(), b=Inherits(), c=Unseen())).seen) == ["a", "b"]
