"""The name is known to transformers, and models can be built and switched by it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface

from huggingface.zoo import FAMILIES, answer_of, build, inputs_of, model_of
from regard.huggingface import regard_attention, register
from regard.huggingface.registry import NAME, mask_interface


def test_the_name_stands_in_both_interfaces_however_often_it_is_registered() -> None:
    register()
    register()
    assert AttentionInterface()[NAME] is regard_attention
    assert AttentionMaskInterface()[NAME] is mask_interface
    assert AttentionInterface().valid_keys().count(NAME) == 1


def test_the_name_is_routed_nowhere_else() -> None:
    """transformers routes by substrings of the name."""
    assert not any(word in NAME for word in ("flash", "sdpa", "flex_attention", "eager"))
    assert not NAME.startswith("paged|")


@pytest.mark.parametrize("name", ["llama", "bart", "clip"])
@torch.no_grad()
def test_a_model_is_built_with_it_and_switched_to_it(name: str) -> None:
    inputs = inputs_of(FAMILIES[name].kind)
    wanted = answer_of(model_of(name)(**inputs))
    model = build(FAMILIES[name], NAME)
    assert model.config._attn_implementation == NAME
    torch.testing.assert_close(answer_of(model(**inputs)), wanted, rtol=1e-4, atol=1e-4)
    model.set_attn_implementation("eager")
    assert torch.equal(answer_of(model(**inputs)), wanted)
    model.set_attn_implementation(NAME)
    torch.testing.assert_close(answer_of(model(**inputs)), wanted, rtol=1e-4, atol=1e-4)


def test_without_transformers_the_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['transformers'] = None\n"
        "from regard.errors import MissingExtraError\n"
        "try:\n    import regard.huggingface\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "regard[huggingface]" in done.stdout, done.stderr
