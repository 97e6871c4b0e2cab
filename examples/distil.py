"""Two heads imitate a layer of nine: what of SmolLM2's attention fits into fewer heads.

The student has q and k of its own and is trained on the divergence between its heads, added up, and
those of the layer. Number and size of heads differ; the keys are the same.

    python examples/distil.py --layer 12 --how js
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from typer import Option

import regard
from imitation import Passage, passages, train

HERE = Path(__file__).parent


class How(StrEnum):
    """The divergences there are."""

    kl = "kl"
    reverse_kl = "reverse_kl"
    js = "js"
    tv = "tv"


class FewHeads(nn.Module):
    """Causal attention without values."""

    def __init__(self, width: int, heads: int, dim: int = 64) -> None:
        super().__init__()
        self.heads, self.rotary = heads, regard.nn.Rotary(dim)
        self.query, self.key = (nn.Linear(width, heads * dim) for _ in range(2))

    def forward(self, x: Tensor) -> regard.Attention:
        """x (1, N, width)."""
        q, k = (
            self.rotary(part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2))
            for part in (self.query, self.key)
        )
        return regard.replay(q, k, mask=regard.Causal())


def main(
    layer: Annotated[int, Option(help="The layer that is imitated.")] = 12,
    heads: Annotated[int, Option(help="Heads of the student.")] = 2,
    how: Annotated[How, Option(help="The divergence to train on.")] = How.kl,
    steps: Annotated[int, Option(help="Steps of training.")] = 200,
    tokens: Annotated[int, Option(help="Tokens of a passage.")] = 512,
    text: Annotated[Path, Option(help="The text to read.")] = HERE / "tides.txt",
) -> None:
    """Train a student of a few heads to imitate a layer of SmolLM2."""
    torch.manual_seed(0)
    *taught, held_out = passages(text.read_text(), layer, tokens)
    student = FewHeads(held_out.states.shape[-1], heads)

    def apart(passage: Passage, how: How) -> Tensor:
        made = student(passage.states)
        found = regard.divergence(passage.attention, made, how=how.value, heads="sum")
        return found.mean()

    def readings() -> list[float]:
        with torch.no_grad():
            return [float(apart(held_out, name)) for name in (How.kl, How.js, How.tv)]

    before = readings()
    train(student, taught, steps, lambda passage: apart(passage, how))
    count = held_out.attention.shape[1]
    table = Table(title=f"{heads} heads for the {count} of layer {layer}, a passage not trained on")
    for name in ("", "KL", "JS", "TV"):
        table.add_column(name, justify="right")
    table.add_row("before", *(f"{one:.3f}" for one in before))
    table.add_row("after", *(f"{one:.3f}" for one in readings()))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
