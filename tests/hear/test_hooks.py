"""The module at work gives the place its name."""

from __future__ import annotations

import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.hear.hooks import Caller, ModelHooks
from regard.hear.names import LayerNames, Spot, is_cross


def test_a_stack_is_all_paths_that_differ_in_their_number() -> None:
    atlas = LayerNames(named=False)
    first = [atlas.spot(Caller(f"model.layers.{n}.self_attn")) for n in (0, 5, 2)]
    assert first == [Spot("", 0), Spot("", 5), Spot("", 2)]
    assert atlas.spot(Caller("vision.blocks.1.attn")) == Spot("vision", 1)


def test_parts_of_an_encoder_decoder_have_names() -> None:
    atlas = LayerNames(named=True)
    paths = {
        "encoder.block.1.layer.0.SelfAttention": "encoder",
        "decoder.block.1.layer.0.SelfAttention": "decoder",
        "decoder.block.1.layer.1.EncDecAttention": "cross",
    }
    for path, stack in paths.items():
        assert atlas.spot(Caller(path)).stack == stack
    assert is_cross("model.decoder.layers.3.encoder_attn")
    assert not is_cross("model.encoder.layers.3.self_attn")


def test_several_numbers_count_in_the_order_of_hearing() -> None:
    atlas = LayerNames(named=False)
    paths = ["layers.0.blocks.0.attn", "layers.0.blocks.1.attn", "layers.1.blocks.0.attn"]
    assert [atlas.spot(Caller(path)).layer for path in paths] == [0, 1, 2]
    assert [atlas.spot(Caller(path)).layer for path in paths] == [0, 1, 2]


def test_a_shared_layer_is_many_places() -> None:
    model = tiny("albert", embedding_size=16, num_hidden_layers=3)
    with torch.no_grad(), regard.record(model) as rec:
        model(tokens(12))
    assert rec.stacks == {"": (3, 4)}


def test_hooks_are_gone_after_an_error() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError), ModelHooks(model):
        model(torch.zeros(1, 3))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_prompt_that_failed_is_not_finished() -> None:
    model = tiny("llama", num_hidden_layers=3)
    real = model.model.layers[1].mlp.forward
    with torch.no_grad(), regard.record(model) as rec:
        model.model.layers[1].mlp.forward = lambda _: 1 / 0
        with pytest.raises(ZeroDivisionError):
            model(tokens(12))
        model.model.layers[1].mlp.forward = real
        model(tokens(15))
    assert [prompt.finished for prompt in rec.recording.prompts] == [False, True]
    assert rec.recording.prompts[1]["L2H0"].shape == (15, 15)


def test_an_error_in_the_middle_is_forgotten() -> None:
    class Fragile(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] == 3:
                raise RuntimeError("three")
            seen.append(where.caller())
            return x

    seen: list[Caller | None] = []
    model = torch.nn.Sequential(torch.nn.Sequential(Fragile()))
    with ModelHooks(model) as where:
        with pytest.raises(RuntimeError, match="three"):
            model(torch.zeros(3, 1))
        model(torch.zeros(2, 1))
    assert seen == [Caller("0.0")]
