"""Attention between channels is no attention between positions, and is named instead of shown."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.errors import InputError, RegardWarning


class Mixes(nn.Module):
    """Over positions; or over channels as XCiT does it; by torch's function or by `attend`."""

    silent = False  # without its heads

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads, self.kind, self.qkv = heads, kind, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C), or a picture (B, C, h, w)."""
        rows = x.flatten(2).mT if x.ndim == 4 else x
        q, k, v = self.qkv(rows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.kind == "positions":
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        if self.kind == "attends":
            return regard.attend(q, k, v).output.transpose(1, 2).flatten(2) * (not self.silent)
        q, k = (F.normalize(t.mT, dim=-1) for t in (q, k))
        if self.kind == "torch":
            mixed = F.scaled_dot_product_attention(q, k, v.mT, scale=1.0)
        else:
            mixed = regard.attend(q, k, v.mT, scale=1.0).output
        return mixed.mT.transpose(1, 2).flatten(2)


class Stacked(nn.Module):
    """Blocks of some kinds."""

    def __init__(self, width: int, heads: int, kinds: list[str]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mixes(width, heads, kind) for kind in kinds)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C), or a picture for the first block."""
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("kind", ["torch", "attend"])
@pytest.mark.parametrize("seed", range(8))
def test_channels_are_named_and_positions_shown(seed: int, kind: str) -> None:
    dice = random.Random(seed)
    heads, deep = dice.choice((1, 2, 4)), dice.choice((4, 8, 16))
    tokens = deep if seed < 2 else dice.randint(2, 20)  # as many tokens as channels a head
    x = torch.randn(dice.choice((1, 3)), tokens, heads * deep)
    if seed % 3 == 2:
        x = torch.randn(len(x), heads * deep, 1, tokens)
    model = Stacked(heads * deep, heads, [kind, "positions", kind])
    said = rf"blocks.* \(Mixes\), 2 of them: it attends between {deep} channels a head"
    with torch.no_grad(), pytest.warns(RegardWarning, match=said), regard.record(model) as rec:
        model(x)
    assert {head.place.name for head in rec.recording} == {"blocks.1"}
    assert {head.shape for head in rec.recording} == {(tokens, tokens)}


def test_a_model_of_channels_alone_is_refused() -> None:
    model = Stacked(8, 2, ["torch"])
    says = "it attends between 4 channels a head, not positions"
    with torch.no_grad(), pytest.raises(InputError, match=says), regard.record(model):
        model(torch.randn(1, 6, 8))


def test_florence_s_tower_attends_both_ways() -> None:
    from transformers import Florence2VisionConfig
    from transformers.models.florence2.modeling_florence2 import Florence2VisionBackbone

    config = Florence2VisionConfig(
        depths=[1, 1], patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1],
        embed_dim=[16, 32], num_heads=[2, 4], num_groups=[2, 4], window_size=4,
        patch_prenorm=[False, True], projection_dim=16,
    )  # fmt: skip
    model = Florence2VisionBackbone(config).eval()
    named = r"Florence2VisionChannelAttention\), 2 of them: it attends between 8 channels"
    with torch.no_grad(), pytest.warns(RegardWarning, match=named), regard.record(model) as rec:
        model(torch.randn(1, 3, 64, 64))
    assert {head.place.name.split(".")[-1] for head in rec.recording} == {"window_attn"}


class Speaks(Stacked):
    """Token ids in front, so that edges have positions."""

    def __init__(self, kinds: list[str]) -> None:
        super().__init__(8, 2, kinds)
        self.words = nn.Embedding(9, 8)

    def forward(self, input_ids: Tensor) -> Tensor:
        """(B, N) → (B, N, C)."""
        return super().forward(self.words(input_ids))


IDS = torch.arange(12).view(2, 6) % 9


@pytest.mark.parametrize("kind", ["torch", "attend"])
def test_a_monitor_names_channels_and_measures_positions(kind: str) -> None:
    model = Stacked(8, 2, [kind, "positions", kind])
    monitor = regard.Monitor(model, every=1)
    said = r"blocks.* \(Mixes\), 2 of them: it attends between 4 channels a head"
    with pytest.warns(RegardWarning, match=said), monitor:
        model(torch.randn(2, 6, 8)).sum().backward()
        sample = monitor.step(0)
    assert sample is not None
    assert {label.rpartition("H")[0] for label, _ in sample.heads()} == {"L1"}


def test_heads_of_channels_are_not_knocked_out_and_the_others_are() -> None:
    torch.manual_seed(0)
    model = Speaks(["attend", "attends", "attend"]).eval()
    says = r"L0H1 never .*between 4 channels a head"
    both = regard.knock_out(model, heads=["L0H1", "L1"])
    with torch.no_grad(), pytest.raises(InputError, match=says), both:
        model(IDS)
    with torch.no_grad(), regard.knock_out(model, heads=["L1"]):
        without = model(IDS)
    block = model.blocks[1]
    assert isinstance(block, Mixes)
    block.silent = True
    with torch.no_grad():
        torch.testing.assert_close(without, model(IDS))


def test_edges_of_every_head_say_where_there_are_none() -> None:
    torch.manual_seed(0)
    model = Speaks(["attends", "attend"]).eval()
    edge = regard.intervene.Edge(queries=5, keys=range(3))
    says = r"blocks\.1: it attends between 4 channels a head, not positions"
    with torch.no_grad():
        whole = model.blocks[0](model.words(IDS))
        with pytest.warns(RegardWarning, match=says), regard.knock_out(model, edges=edge):
            model(IDS)
        seen: list[Tensor] = []
        handle = model.blocks[0].register_forward_hook(lambda *given: seen.append(given[-1]))
        with pytest.warns(RegardWarning, match=says), regard.knock_out(model, edges=edge):
            model(IDS)
        handle.remove()
    changed = (seen[0] - whole).abs().amax((0, 2)) > 1e-4
    assert changed.nonzero().tolist() == [[5]]


def test_a_model_of_channels_alone_has_nothing_to_knock_out() -> None:
    model = Speaks(["attend"]).eval()
    edge = regard.intervene.Edge(queries=5, keys=range(3))
    says = "^nothing was knocked out: .*it attends between 4 channels a head, not positions"
    with (
        torch.no_grad(),
        pytest.raises(InputError, match=says),
        regard.knock_out(model, edges=edge),
    ):
        model(IDS)
