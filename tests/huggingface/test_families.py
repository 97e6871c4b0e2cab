"""Who can be seen, and what is said of those who cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedConfig

from huggingface.zoo import BLIND, FAMILIES, build, inputs_of, model_of
from regard.errors import UnavailableError
from regard.huggingface import supported_families, using
from regard.huggingface.families import check_config, refusal, sight


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_of_these_families_is_seen(name: str) -> None:
    assert name.removesuffix("_text") in supported_families()
    found = sight(model_of(name))
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


@pytest.mark.parametrize("name", ["bloom", "mpt", "mpnet", "longformer"])
def test_such_a_family_built_with_our_name_fails_when_it_runs(name: str) -> None:
    """transformers accepts any name for them and ignores it."""
    model = build(BLIND[name], "regard")
    with pytest.raises(UnavailableError, match=f"^{name} does not dispatch"):
        model(**inputs_of(BLIND[name].kind))


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
    assert "AttentionBlock" in str(refusal("toy", sight(model).unseen.values()))


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
