"""What one pass of a model is, wherever it begins: its prompts, its tokens, its layers' names."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard
from recorder.models import Plain, Torch, tiny, tokens
from regard.errors import InputError


@torch.no_grad()
def recorded(model: nn.Module, run: Callable[[], Any]) -> Any:
    with regard.record(model) as rec:
        run()
    return rec.recording


def same(recording: Any, right: Any) -> None:
    """Two recordings of the same prompts."""
    assert recording.stacks == right.stacks and len(recording.prompts) == len(right.prompts)
    for mine, other in zip(recording.prompts, right.prompts, strict=True):
        assert mine.tokens == other.tokens
        for head in other:
            np.testing.assert_array_equal(mine[head.layer, head.head][:, :], head[:, :])


class Around(nn.Module):
    """A wrapper that is never called itself: a LightningModule, an adapter."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def test_a_part_of_it_gives_what_the_whole_gives() -> None:
    model, ids = tiny("llama"), tokens(7, batch=2)
    around, shared = Around(model), nn.DataParallel(model)
    whole = recorded(model, lambda: model(ids))
    same(recorded(model, lambda: model.model(ids)), whole)
    same(recorded(around, lambda: around.model(input_ids=ids, labels=ids).loss), whole)
    same(recorded(shared, lambda: shared(ids)), whole)
    options = {"input_ids": ids[:1], "max_new_tokens": 3, "do_sample": False}
    written = recorded(model, lambda: model.generate(**options))
    assert len(written.prompts[0].tokens) == 9
    same(recorded(around, lambda: around.model.generate(**options)), written)


def test_parts_one_after_the_other_are_one_pass() -> None:
    torch.manual_seed(0)
    model = Plain().eval()
    model.embed = nn.Embedding(50, 32)

    def loop(ids: Tensor) -> None:
        x = model.embed(ids)
        for block in model.blocks:
            x = x + block(x)

    recording = recorded(model, lambda: [loop(tokens(6, 2)), loop(tokens(5, 1))])
    assert recording.stacks == {"": (3, 4)}
    assert [len(prompt.tokens) for prompt in recording.prompts] == [6, 6, 5]
    whole = recorded(model, lambda: model(model.embed(tokens(6, 2))))
    for layer in range(3):
        right = whole.prompts[1][layer, 2][:, :]
        np.testing.assert_allclose(recording.prompts[1][layer, 2][:, :], right, atol=1e-6)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_part_that_runs_again_for_its_gradients_is_not_another_text(reentrant: bool) -> None:
    model, x = Plain(), torch.randn(2, 6, 32, requires_grad=True)
    with regard.record(model) as rec:
        for block in model.blocks:
            x = x + checkpoint(block, x, use_reentrant=reentrant)
        x.sum().backward()
    assert rec.stacks == {"": (3, 4)} and len(rec.recording.prompts) == 2


class Takes(Torch):
    """Any arguments, of which nothing says in the model what they are."""

    def forward(self, first: Any = None, *rest: Any, **named: Any) -> Any:
        """(3, 6, 32)."""
        return super().forward(torch.zeros(3, 6, 32))


IDS = tokens(6, 3)
LOOP: dict[str, Any] = {"input_ids": IDS}
LOOP["self"] = [LOOP]


@pytest.mark.parametrize(
    ("args", "named", "are_tokens"),
    [
        (({"x": IDS, "position_ids": IDS + 1, "labels": IDS + 2},), {}, True),
        (([{"ids": IDS}, IDS + 1],), {}, True),
        ((LOOP,), {}, True),
        ((IDS, IDS + 1), {}, False),  # either could be
        ((), {"inputs_embeds": torch.zeros(3, 6, 32)}, False),
        ((SimpleNamespace(pixels=torch.zeros(3, 3, 8, 8)),), {}, False),
    ],
    ids=["by their name", "in a list", "loop", "two", "embedded", "pixels"],
)
def test_integers_that_can_be_tokens_are(args: Any, named: Any, are_tokens: bool) -> None:
    model = Takes()
    recording = recorded(model, lambda: model(*args, **named))
    assert [prompt.ids.tolist() for prompt in recording.prompts] == (
        IDS.tolist() if are_tokens else [[]] * 3
    )


class Reads(nn.Module):
    """Texts or pictures one by one, in one call; two layers, or one that is used twice."""

    def __init__(self, shared: bool, entrance: nn.Module) -> None:
        super().__init__()
        self.entrance = entrance
        first = Torch()
        self.layers = nn.ModuleList([first, first if shared else Torch()])

    def forward(self, batch: list[Tensor]) -> Any:
        """Each (B, L) or (B, 3, H, W)."""
        for part in batch:
            x = self.entrance(part)
            x = x if x.ndim == 3 else x.flatten(2).mT
            for layer in self.layers:
                x = x + layer(x)


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
    alone = [recorded(model, lambda part=part: model([part])) for part in batch]
    assert together.stacks == {"": (2, 4)} and len(together.prompts) == 2 * len(batch)
    for number, prompt in enumerate(together.prompts):
        right = alone[number // 2].prompts[number % 2]
        for layer in range(2):
            np.testing.assert_array_equal(prompt[layer, 3][:, :], right[layer, 3][:, :])


def test_two_stacks_that_share_an_embedding_read_one_prompt() -> None:
    class Both(Reads):
        def forward(self, batch: list[Tensor]) -> Any:
            first, second = (self.entrance(part) for part in batch)
            return self.layers[0](first).mean() + self.layers[1](second)

    model = Both(False, nn.Embedding(50, 32))
    assert len(recorded(model, lambda: model(TEXTS[:2])).prompts) == 2


@pytest.mark.parametrize("empty", [torch.zeros(0, 5), torch.zeros(2, 0)], ids=["batch", "text"])
def test_a_call_without_tokens_is_left_out(empty: Tensor) -> None:
    model = Reads(False, nn.Embedding(50, 32))
    recording = recorded(model, lambda: [model([empty.long()]), model(TEXTS[:1])])
    assert len(recording.prompts) == 2
    with pytest.raises(InputError, match="no row was recorded: the prompts are empty"):
        recorded(model, lambda: model([empty.long()]))


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
def test_a_layer_that_runs_several_times_is_several(before: nn.Module) -> None:
    model = Universal(before)
    recording = recorded(model, lambda: model(torch.randn(2, 6, 32)))
    assert recording.stacks == {"": (3, 4)} and len(recording.prompts) == 2


class Tree(nn.Module):
    """Attention at these paths, called in this order."""

    def __init__(self, paths: list[str], **config: Any) -> None:
        super().__init__()
        self.paths, self.config = paths, SimpleNamespace(**config)
        for path in paths:
            inner: nn.Module = self
            *around, last = path.split(".")
            for piece in around:
                if piece not in inner._modules:
                    inner.add_module(piece, nn.Module())
                inner = getattr(inner, piece)
            inner.add_module(last, Torch())

    def forward(self, x: Tensor) -> None:
        """(B, L, 32)."""
        for path in self.paths:
            self.get_submodule(path)(x)


NAMES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "numbers in any order": (
        {f"model.layers.{n}.self_attn": f"L{n}" for n in (5, 0, 2)}, {}),
    "several numbers count": (
        {"a.0.b.0.attn": "L0", "a.0.b.1.attn": "L1", "a.1.b.0.attn": "L2"}, {}),
    "parts after the first": (
        {"model.layers.0.attn": "L0", "vision.blocks.1.attn": "vision.L1",
         "audio_tower.layers.3.attn": "audio.L3"}, {}),
    "parts of an encoder-decoder": (
        {"encoder.block.1.attn": "encoder.L1", "decoder.block.1.attn": "decoder.L1",
         "decoder.block.1.encoder_attn": "cross.L1"}, {"is_encoder_decoder": True}),
    "other words for cross": (
        {"decoder.0.attn": "decoder.L0", "decoder.0.EncDecAttention": "cross.L0"},
        {"is_encoder_decoder": True}),
    "torch's word for it": (
        {"decoder.0.attn": "decoder.L0", "decoder.0.multihead_attn": "cross.L0"},
        {"is_encoder_decoder": True}),
    "several towers": (
        {"vision.0.attn": "vision.L0", "text.0.attn": "text.L0"},
        {"vision_config": None, "text_config": None}),
    "two stacks of one part": (
        {"encoder.near.0.attn": "encoder.L0", "encoder.far.0.attn": "encoder.far.*.attn.L0"},
        {"is_encoder_decoder": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_paths_name_stacks_and_layers(name: str) -> None:
    labels, config = NAMES[name]
    model = Tree(list(labels), **config)
    recording = recorded(model, lambda: [model(torch.randn(1, 6, 32)) for _ in range(2)])
    named = {head.place.name: head.label.rpartition("H")[0] for head in recording}
    assert named == labels and len(recording.prompts) == 2
