"""The mass that Monitor counts as a row's sink, over masks × biases, against the whole matrix."""

from __future__ import annotations

import random
from typing import Any

import torch

import regard
from regard.mask import Packed, Rule, Table
from regard.monitor.sink import sink_mass

B, H, L = 2, 4, 23


def masks(dice: random.Random, torch_dice: torch.Generator) -> dict[str, Any]:
    """Those of one seed, by name."""
    cuts = [0, *sorted(dice.sample(range(1, L), 3)), L]
    starts = torch.tensor(cuts)
    ids = torch.bucketize(torch.arange(L), starts[1:], right=True)
    left = torch.zeros(B, L, dtype=torch.bool)
    for entry in range(B):
        left[entry, dice.randrange(L - 1) :] = True
    scattered = torch.randint(3, (B, L), generator=torch_dice)
    causal = regard.Causal()
    return {
        "none": None,
        "causal": causal,
        "documents": causal & regard.Documents(ids),
        "each": causal & regard.Documents(torch.stack([ids, ids.flip(0)])),
        "scattered": causal & regard.Documents(scattered),
        "packed": Packed(starts, starts, causal),
        "packed window": Packed(starts, starts, regard.Window(3, 0)),
        "left": causal & regard.Padding(left),
        "window": causal & regard.Window(dice.randrange(1, 6)),
        "local padding": regard.Window(2, 2) & regard.Padding(left),
        "rule": Rule(lambda b, h, i, j: (j <= i) & (j % 3 != b % 3) & (j >= h)),
        "table": Table(torch.rand(B, H, L, L, generator=torch_dice) > 0.6),
        "not": ~regard.Prefix(5) & causal,
    }


def _biases(torch_dice: torch.Generator) -> dict[str, Any]:
    hides = torch.randn(B, 1, L, L, generator=torch_dice)
    hides[torch.rand(hides.shape, generator=torch_dice) > 0.5] = -torch.inf
    return {
        "none": None,
        "alibi": regard.ALiBi([0.5, 0.25, 0.1, 0.05]),
        "table": torch.randn(H, L, L, generator=torch_dice),
        "hides": hides,
    }


def check(seed: int) -> None:
    """Every mask × bias of this seed against the whole matrix."""
    dice, torch_dice = random.Random(seed), torch.Generator().manual_seed(seed)
    kv = dice.choice([1, 2, 4])
    q = torch.randn(B, H, L, 8, generator=torch_dice)
    k = torch.randn(B, kv, L, 8, generator=torch_dice)
    for mask_name, mask in masks(dice, torch_dice).items():
        for bias_name, bias in _biases(torch_dice).items():
            sink = torch.randn(H, generator=torch_dice) if dice.random() < 0.3 else None
            cap = 2.0 if dice.random() < 0.3 else None
            a = regard.attend(q, k, k, mask=mask, bias=bias, sink=sink, softcap=cap)
            sees = (a.scores[...] > -torch.inf).expand(B, H, L, L)
            first = sees.int().argmax(-1, keepdim=True)
            right = a.dense().expand(B, H, L, L).gather(-1, first)[..., 0] + a.sink_mass()
            with torch.no_grad():
                found = sink_mass(a, a.lse)
            told = f"seed {seed}: {mask_name}, {bias_name}, sink {sink is not None}, cap {cap}"
            torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5, msg=told)
