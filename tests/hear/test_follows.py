"""Tokens are padding to a layer that computed so, not because its model was given a mask."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.intervene import Edge

IGNORING = ("nothing", "torch", "window", "distance")
FOLLOWING = ("padding", "table", "infinity", "ten thousand", "lowest", "torch table", "torch added")


class Reads(nn.Module):
    """A layer over token ids, whose attention does something of its own with the attention_mask;
    `weights` are those of its last call."""

    def __init__(self, kind: str, causal: bool) -> None:
        super().__init__()
        self.kind, self.causal = kind, causal
        self.words, self.qkv = nn.Embedding(20, 8), nn.Linear(8, 24)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, N) each → (B, N, C)."""
        q, k, v = self.qkv(self.words(input_ids)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        n, real = q.shape[-2], attention_mask.bool()[:, None, None]
        seen = torch.ones(n, n).tril(0 if self.causal else n) > 0
        rule: Any = regard.Causal() if self.causal else None
        if self.kind == "window":
            seen = seen.triu(-3)
            rule = regard.Window(3, 0 if self.causal else None)
        lowest = {"ten thousand": -1e4, "lowest": torch.finfo(q.dtype).min}
        bias = torch.zeros(real.shape).masked_fill(~real, lowest.get(self.kind, -torch.inf))
        if self.kind == "distance":
            bias = -(torch.arange(n) - torch.arange(n)[:, None]).abs().float()
        scores = q @ k.mT / 2 + (0 if self.kind in IGNORING[:3] else bias)
        self.weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0)
        both = seen & real
        match self.kind:
            case "torch":
                o = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            case "torch table":
                o = F.scaled_dot_product_attention(q, k, v, attn_mask=both)
            case "torch added":
                added = torch.zeros(both.shape).masked_fill(~both, torch.finfo(q.dtype).min)
                o = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
            case "padding":
                here = regard.Padding(attention_mask.bool())
                o = regard.attend(q, k, v, mask=here & rule if self.causal else here).output
            case "table":
                o = regard.attend(q, k, v, mask=both).output
            case "nothing" | "window":
                o = regard.attend(q, k, v, mask=rule).output
            case _:
                o = regard.attend(q, k, v, mask=rule, bias=bias).output
        return o.transpose(1, 2).flatten(2)


def padded(dice: random.Random, side: str) -> tuple[Tensor, Tensor, Tensor]:
    """(3, N) ids, flags, and which tokens lie between the first and the last real one."""
    n = dice.randint(6, 9)
    between = torch.ones(3, n, dtype=torch.long)
    for row in between[::2]:
        less = dice.randint(0, n - 3)
        row[slice(n - less, None) if side == "right" else slice(less)] = 0
    flags = between.clone()
    if side == "hole":
        flags[:, n - 2] = 0
    return torch.randint(3, 20, (3, n)), flags, between.bool()


@pytest.mark.parametrize("side", ["left", "right", "hole"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", [*IGNORING, *FOLLOWING])
@torch.no_grad()
def test_rows_are_cut_where_no_real_token_sees_the_others(
    kind: str, causal: bool, side: str
) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        ids, flags, between = padded(random.Random(seed), side)
        model = Reads(kind, causal).eval()
        with regard.record(model) as rec:
            model(ids, attention_mask=flags)
        ignored = any(
            rows[:, real][..., ~real].gt(1e-9).any()
            for rows, real in zip(model.weights, between, strict=True)
        )
        assert not ignored or kind in IGNORING
        for entry, real in enumerate(between):
            kept = torch.ones_like(real) if ignored else real
            prompt = rec.recording.prompts[entry]
            assert prompt.tokens == [f"#{n}" for n in ids[entry, kept].tolist()]
            for head in range(2):
                shown = torch.as_tensor(prompt[f"L0H{head}"].dense())
                right = model.weights[entry, head][kept][:, kept]
                torch.testing.assert_close(shown, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["nothing", "torch", "padding", "infinity"])
def test_a_monitor_counts_the_rows_that_the_layer_knows(kind: str) -> None:
    torch.manual_seed(0)
    ids, flags, real = padded(random.Random(4), "left")
    model = Reads(kind, causal=False)
    with regard.Monitor(model, every=1) as monitor:
        model(ids, attention_mask=flags).sum().backward()
        sample = monitor.step(0)
    assert sample is not None
    counted = torch.ones_like(real) if kind in IGNORING else real
    rows = model.weights.detach().movedim(1, 0)  # (H, B, N, N)
    heaviest = rows.amax(-1)[:, counted].mean(-1).tolist()
    assert sample["peak"][0].tolist() == pytest.approx(heaviest, rel=1e-4)


@pytest.mark.parametrize("kind", ["nothing", "padding"])
@torch.no_grad()
def test_an_edge_counts_as_the_recording_does(kind: str) -> None:
    torch.manual_seed(0)
    ids, flags, between = padded(random.Random(5), "left")
    model = Reads(kind, causal=True).eval()
    edge = Edge(queries=slice(1, None), keys=0)
    with regard.knock_out(model, edges=edge), regard.record(model) as rec:
        model(ids, attention_mask=flags)
    for entry, real in enumerate(between):
        weights = torch.as_tensor(rec.recording.prompts[entry]["L0H0"].dense())
        assert len(weights) == (int(real.sum()) if kind == "padding" else len(real))
        assert weights[0, 0] == 1 and not weights[1:, 0].any()
