"""The Attention is handed out where somebody keeps it, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regard
from huggingface.zoo import FAMILIES, inputs_of, model_of
from installed import needs
from regard.huggingface import using
from regard.huggingface.asked import is_wanted


def test_it_is_wanted_by_those_who_say_so_and_by_those_who_do_not_say() -> None:
    assert is_wanted({"output_attentions": True})
    assert is_wanted({}) and is_wanted({"output_attentions": False})  # called by hand
    needs("transformers", "5.2", "models list the outputs they collect")
    from transformers.utils import output_capturing

    for collected, wanted in (({}, False), ({"hidden_states": []}, False), ({"attentions": []}, 1)):
        token = output_capturing._active_collector.set(collected)
        try:
            assert is_wanted({}) == bool(wanted)
            assert is_wanted({"output_attentions": True})
        finally:
            output_capturing._active_collector.reset(token)


@pytest.mark.parametrize("name", ["llama", "bert", "vit", "t5", "swin"])
@torch.no_grad()
def test_layers_hand_it_out_only_when_asked(name: str) -> None:
    """Some of these pass `output_attentions` down to their layers and some do not."""
    model, inputs = model_of(name), inputs_of(FAMILIES[name].kind)
    handed: list[Any] = []

    def note(module: nn.Module, args: Any, output: Any) -> None:
        handed.extend(o for o in output if isinstance(o, regard.Attention))

    with using(model) as found:
        hooks = [module.register_forward_hook(note) for module in found.seen.values()]
        model(**inputs)
        assert not handed
        model(**inputs, output_attentions=True)
        assert len(handed) == len(found.seen)
    for hook in hooks:
        hook.remove()
