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
from recorder.models import Plain, Torch, tiny, tokens
from regard.errors import InputError

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


# ── several texts, or none, in one call ──────────────────────────────────────────────────────


class Reads(nn.Module):
    """Texts or pictures one by one, in one call; two layers, or one that is used twice."""

    def __init__(self, shared: bool, entrance: nn.Module) -> None:
        super().__init__()
        self.entrance = entrance
        first = Torch()
        self.layers = nn.ModuleList([first, first if shared else Torch()])

    def forward(self, batch: Any) -> list[Tensor]:
        """Each (B, L) or (B, 3, H, W), in a list."""
        return [self.read(one) for one in batch]

    def read(self, one: Tensor) -> Tensor:
        """One of them."""
        x = self.entrance(one)
        x = x if x.ndim == 3 else x.flatten(2).mT
        for layer in self.layers:
            x = x + layer(x)
        return x


TEXTS = [tokens(5, 2), tokens(7, 2), tokens(7, 2)]
PICTURES = [torch.randn(2, 3, 16, 16), torch.randn(2, 3, 8, 8)]


@pytest.mark.parametrize("shared", [False, True], ids=["layers", "one layer"])
@pytest.mark.parametrize(
    ("entrance", "batch"),
    [(nn.Embedding(50, 32), TEXTS), (nn.Conv2d(3, 32, 4, 4), PICTURES)],
    ids=["texts", "pictures"],
)
def test_several_inputs_of_one_call_are_prompts_and_not_layers(
    entrance: nn.Module, batch: list[Tensor], shared: bool
) -> None:
    model = Reads(shared, entrance).eval()
    together = recorded(model, lambda: model(batch))
    alone = [recorded(model, lambda one=one: model([one])) for one in batch]
    assert together.stacks == {"": (2, 4)} and len(together.prompts) == 2 * len(batch)
    for number, prompt in enumerate(together.prompts):
        right = alone[number // 2].prompts[number % 2]
        for layer in range(2):
            np.testing.assert_array_equal(prompt[layer, 3][:, :], right[layer, 3][:, :])


class Universal(nn.Module):
    """One layer, three times, with something before it that is no input."""

    def __init__(self, before: nn.Module) -> None:
        super().__init__()
        self.before, self.layer = before, Torch()

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, 32)."""
        for step in range(3):
            if isinstance(self.before, nn.Embedding):
                x = x + self.before(torch.tensor(step))
            else:
                x = self.before(x.mT).mT
            x = x + self.layer(x)
        return x


@pytest.mark.parametrize(
    "before", [nn.Embedding(3, 32), nn.Conv1d(32, 32, 3, padding=1)], ids=["step", "convolution"]
)
def test_what_runs_before_a_shared_layer_is_no_input(before: nn.Module) -> None:
    model = Universal(before)
    found = recorded(model, lambda: model(torch.randn(2, 6, 32)))
    assert found.stacks == {"": (3, 4)} and len(found.prompts) == 2


def test_two_stacks_that_share_an_embedding_read_one_prompt() -> None:
    class Both(Reads):
        def forward(self, batch: Any) -> Any:
            first, second = (self.entrance(one) for one in batch)
            return self.layers[0](first).mean() + self.layers[1](second)

    model = Both(False, nn.Embedding(50, 32))
    assert len(recorded(model, lambda: model(TEXTS[:2])).prompts) == 2


@pytest.mark.parametrize("empty", [torch.zeros(0, 5), torch.zeros(2, 0)], ids=["batch", "text"])
def test_a_call_without_tokens_is_left_out(empty: Tensor) -> None:
    model = Reads(False, nn.Embedding(50, 32))
    found = recorded(model, lambda: [model([empty.long()]), model(TEXTS[:1])])
    assert len(found.prompts) == 2
    with pytest.raises(InputError, match="no row was recorded: the prompts are empty"):
        recorded(model, lambda: model([empty.long()]))
