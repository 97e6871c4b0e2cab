"""A pass may begin at any part of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard
from recorder.models import Plain, tiny, tokens

SIZES = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
}


class Around(nn.Module):
    """A wrapper that is never called itself: a LightningModule, an adapter."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def step(self, ids: Tensor) -> Any:
        """One step of training."""
        return self.model(input_ids=ids, labels=ids).loss

    def generate(self, **given: Any) -> Any:
        """Writes on."""
        return self.model.generate(**given)


def same(found: Any, right: Any) -> None:
    assert found.stacks == right.stacks and len(found.prompts) == len(right.prompts)
    for one, other in zip(found.prompts, right.prompts, strict=True):
        assert one.tokens == other.tokens
        for head in other:
            np.testing.assert_array_equal(one[head.layer, head.head][:, :], head[:, :])


@torch.no_grad()
def recorded(model: nn.Module, run: Any) -> Any:
    with regard.record(model) as rec:
        run()
    return rec.recording


def test_a_part_of_it_gives_what_the_whole_gives() -> None:
    model, ids = tiny("llama"), tokens(7, batch=2)
    around = Around(model)
    whole = recorded(model, lambda: model(ids))
    same(recorded(model, lambda: model.model(ids)), whole)
    same(recorded(around, lambda: around.step(ids)), whole)
    options = {"max_new_tokens": 3, "do_sample": False}
    written = recorded(model, lambda: model.generate(input_ids=ids[:1], **options))
    same(recorded(around, lambda: around.generate(input_ids=ids[:1], **options)), written)


def test_parts_one_after_the_other_are_one_pass() -> None:
    torch.manual_seed(0)
    model, x = Plain().eval(), torch.randn(2, 6, 32)
    model.embed = nn.Embedding(50, 32)

    def loop(ids: Tensor) -> Tensor:
        x = model.embed(ids)
        for block in model.blocks:
            x = x + block(x)
        return x

    found = recorded(model, lambda: [loop(tokens(6, 2)), loop(tokens(5, 1))])
    assert found.stacks == {"": (3, 4)} and [len(p.tokens) for p in found.prompts] == [6, 6, 5]
    with torch.no_grad(), regard.record(model) as rec:
        model(model.embed(tokens(6, 2)))
    for layer in range(3):
        right = rec.recording.prompts[1][layer, 2][:, :]
        np.testing.assert_allclose(found.prompts[1][layer, 2][:, :], right, atol=1e-6)
    del x


def test_the_towers_of_clip_alone() -> None:
    config = transformers.CLIPConfig(
        text_config=SIZES | {"vocab_size": 50, "eos_token_id": 49, "bos_token_id": 1},
        vision_config=SIZES | {"image_size": 16, "patch_size": 4},
    )
    torch.manual_seed(0)
    model = transformers.CLIPModel(config).eval()
    pictures = torch.randn(2, 3, 16, 16)
    text = recorded(model, lambda: model.get_text_features(input_ids=tokens(6)))
    assert text.stacks == {"text": (2, 4)} and len(text.prompts[0].tokens) == 6
    seen = recorded(model, lambda: model.get_image_features(pixel_values=pictures))
    assert seen.stacks == {"vision": (2, 4)} and len(seen.prompts) == 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_part_that_runs_again_for_its_gradients_is_not_another_text(reentrant: bool) -> None:
    model, x = Plain(), torch.randn(2, 6, 32, requires_grad=True)

    def run(x: Tensor) -> Tensor:
        for block in model.blocks:
            x = x + checkpoint(block, x, use_reentrant=reentrant)
        return x

    with regard.record(model) as rec:
        run(x).sum().backward()
    assert rec.stacks == {"": (3, 4)} and len(rec.recording.prompts) == 2


def test_lora_of_peft() -> None:
    import peft

    ids = tokens(7)
    model = peft.get_peft_model(
        tiny("llama"), peft.LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    ).eval()
    options = {"input_ids": ids, "max_new_tokens": 3, "do_sample": False}
    found = recorded(model, lambda: model.generate(**options))
    assert found.stacks == {"": (2, 4)} and len(found.prompts[0].tokens) == 9


def test_over_one_device_in_parallel() -> None:
    model = tiny("llama")
    whole = recorded(model, lambda: model(tokens(7)))
    shared = nn.DataParallel(model)
    same(recorded(shared, lambda: shared(tokens(7))), whole)


def test_weights_that_are_elsewhere() -> None:
    import accelerate

    model = tiny("llama")
    whole = recorded(model, lambda: model.model(tokens(7)))
    moved = accelerate.cpu_offload(model, execution_device="cpu")
    same(recorded(moved, lambda: moved.model(tokens(7))), whole)
