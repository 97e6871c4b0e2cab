"""What indexer.py and distil.py share: one layer of SmolLM2 as a teacher, and a student's training.

The teacher is the attention of the layer on passages of an essay. It is never built as a matrix:
`regard.divergence` compares two attentions in memory that grows with the number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from rich.progress import track
from torch import Tensor, nn

import regard
from regard.models import load

Student = Callable[[Tensor], regard.Attention]


class Passage(NamedTuple):
    """Some tokens: what enters the layer (1, N, width), and its attention (1, H, N, N)."""

    states: Tensor
    attention: regard.Attention


def passages(text: str, layer: int, tokens: int) -> list[Passage]:
    """The text in pieces of so many tokens, read by SmolLM2."""
    loaded = load("smollm2")
    loaded.model.set_attn_implementation("regard")
    ids = loaded.tokenizer(text, return_tensors="pt").input_ids[0]
    count = len(loaded.model.model.layers)
    if not 0 <= layer < count:
        raise regard.errors.InputError(f"--layer {layer}: the model has layers 0 to {count - 1}")
    norm, made = loaded.model.model.layers[layer].input_layernorm, []
    for piece in track(ids.split(tokens), "reading", transient=True):
        if len(piece) < tokens:
            continue
        with torch.no_grad():
            out = loaded.model(piece[None], output_attentions=True, output_hidden_states=True)
            made.append(Passage(norm(out.hidden_states[layer]), out.attentions[layer].detach()))
    if len(made) < 2:
        raise regard.errors.InputError(f"--tokens {tokens}: the text has {len(ids)}; give fewer")
    return made


def train(
    student: nn.Module, taught: list[Passage], steps: int, loss: Callable[[Passage], Tensor]
) -> float:
    """The mean loss of the last tenth of the steps."""
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps + 1)
    losses = []
    for step in track(range(steps), "training", transient=True):
        optimizer.zero_grad()
        found = loss(taught[step % len(taught)])
        torch.autograd.backward(found)
        optimizer.step()
        rate.step()
        losses.append(found.item())
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)
