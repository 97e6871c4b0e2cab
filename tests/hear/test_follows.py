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

IGNORING = ("nothing", "torch", "distance", "window")
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
        n, real = q.shape[-2], attention_mask.bool()
        table = torch.ones(n, n, dtype=torch.bool)
        table = table.tril() if self.causal else table
        causal: Any = regard.Causal() if self.causal else None
        bias = None
        if self.kind in FOLLOWING:
            lowest = {"ten thousand": -1e4, "lowest": torch.finfo(q.dtype).min}
            number = lowest.get(self.kind, -torch.inf)
            bias = torch.zeros(real.shape).masked_fill(~real, number)[:, None, None]
            table = table & real[:, None, None]
        if self.kind == "distance":
            bias = -(torch.arange(n) - torch.arange(n)[:, None]).abs().float()
        if self.kind == "window":
            table = table & (torch.ones(n, n).triu(-3) > 0)
            causal = regard.Window(3, 0 if self.causal else None)
        scores = q @ k.mT / 2 + (0 if bias is None else bias)
        table = table if bias is None or self.kind == "distance" else table | ~real[:, None, None]
        self.weights = scores.masked_fill(~table, -torch.inf).softmax(-1).nan_to_num(0)
        if self.kind == "torch":
            o = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.kind.startswith("torch"):
            both = table & real[:, None, None]
            added = torch.zeros(both.shape).masked_fill(~both, torch.finfo(q.dtype).min)
            given = both if self.kind == "torch table" else added
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=given)
        elif self.kind == "padding":
            here = regard.Padding(real)
            o = regard.attend(q, k, v, mask=here & causal if self.causal else here).output
        elif self.kind == "table":
            o = regard.attend(q, k, v, mask=table & real[:, None, None]).output
        else:
            o = regard.attend(q, k, v, mask=causal, bias=bias).output
        return o.transpose(1, 2).flatten(2)


def padded(dice: random.Random, side: str) -> tuple[Tensor, Tensor]:
    """(3, N) ids and flags."""
    n = dice.randint(5, 9)
    flags = torch.ones(3, n, dtype=torch.long)
    for row in flags:
        less = dice.randint(0, n - 2)
        row[slice(less) if side == "left" else slice(n - less, None)] = 0
    flags[1] = 1
    return torch.randint(3, 20, (3, n)), flags


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", [*IGNORING, *FOLLOWING])
@torch.no_grad()
def test_rows_are_cut_where_no_real_token_sees_the_others(
    kind: str, causal: bool, side: str
) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        ids, flags = padded(random.Random(seed), side)
        model = Reads(kind, causal).eval()
        with regard.record(model) as rec:
            model(ids, attention_mask=flags)
        weights, every = model.weights, flags.bool()
        ignored = any(
            rows[:, f][..., ~f].gt(1e-9).any() for rows, f in zip(weights, every, strict=True)
        )
        assert not ignored or kind in IGNORING
        for entry, real in enumerate(every):
            kept = torch.ones_like(real) if ignored else real
            prompt = rec.recording.prompts[entry]
            assert prompt.tokens == [f"#{n}" for n in ids[entry, kept].tolist()]
            for head in range(2):
                shown = torch.as_tensor(prompt[f"L0H{head}"].dense())
                torch.testing.assert_close(
                    shown, weights[entry, head][kept][:, kept], atol=1e-5, rtol=1e-5
                )


@pytest.mark.parametrize("kind", ["nothing", "torch", "padding", "infinity"])
def test_a_monitor_counts_the_rows_that_the_layer_knows(kind: str) -> None:
    torch.manual_seed(0)
    ids, flags = padded(random.Random(4), "left")
    model = Reads(kind, causal=False)
    monitor = regard.Monitor(model, every=1)
    with monitor:
        model(ids, attention_mask=flags).sum().backward()
        sample = monitor.step(0)
    assert sample is not None
    rows = model.weights.detach().movedim(1, 0)  # (H, B, N, N)
    counted = flags.bool() if kind not in IGNORING else torch.ones_like(flags).bool()
    heaviest = rows.amax(-1)[:, counted].mean(-1).tolist()
    assert sample["peak"][0].tolist() == pytest.approx(heaviest, rel=1e-4)


@pytest.mark.parametrize("kind", ["nothing", "padding"])
@torch.no_grad()
def test_an_edge_counts_as_the_recording_does(kind: str) -> None:
    torch.manual_seed(0)
    ids, flags = padded(random.Random(5), "left")
    model = Reads(kind, causal=True).eval()
    with (
        regard.knock_out(model, edges=Edge(queries=slice(1, None), keys=0)),
        regard.record(model) as rec,
    ):
        model(ids, attention_mask=flags)
    for entry, real in enumerate(flags.bool()):
        weights = torch.as_tensor(rec.recording.prompts[entry]["L0H0"].dense())
        assert len(weights) == (int(real.sum()) if kind == "padding" else len(real))
        assert weights[0, 0] == 1 and not weights[1:, 0].any()
