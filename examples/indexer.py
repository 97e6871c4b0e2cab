"""A lightning indexer learns which keys a layer of SmolLM2 attends to.

Sparse attention scores all keys by a small indexer, Σ_h w_h·relu(q_h·k), and attends to the best k
alone. The indexer is trained on KL(attention of the layer, summed over its heads ‖ softmax of its
scores). Recall is the share of the keys with the largest summed weights that it selects.

    python examples/indexer.py --layer 12 --steps 300
"""

from __future__ import annotations

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


class Indexer(nn.Module):
    """Queries of a few small heads, one key, and a weight for each head and query."""

    def __init__(self, width: int, heads: int = 4, dim: int = 32) -> None:
        super().__init__()
        self.heads, self.rotary = heads, regard.nn.Rotary(dim)
        self.query, self.key = nn.Linear(width, heads * dim), nn.Linear(width, dim)
        self.weights = nn.Linear(width, heads)

    def forward(self, x: Tensor) -> regard.Attention:
        """x (1, N, width)."""
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (1, H, N, D)
        k = self.key(x).unsqueeze(1)  # (1, 1, N, D)
        scale = (self.heads * k.shape[-1]) ** -0.5
        w = self.weights(x).transpose(1, 2)  # (1, H, N)
        return regard.lightning_indexer(
            self.rotary(q), self.rotary(k), w, mask=regard.Causal(), scale=scale
        )


def recall(indexer: Indexer, passage: Passage, k: int) -> float:
    """Over the queries that see more than k keys."""
    with torch.no_grad():
        chosen = indexer(passage.states).top(k).keys[0, 0, k:]  # (N − k, k)
    found = []
    for start in range(0, len(chosen), 128):  # a strip of rows of the summed attention at a time
        here = slice(start, start + 128)
        rows = torch.arange(k, k + len(chosen))[here]
        best = passage.attention[0, :, rows].sum(0).topk(k).indices
        found.append((chosen[here, :, None] == best[:, None, :]).any(-1).float().mean(-1))
    return float(torch.cat(found).mean())


def main(
    layer: Annotated[int, Option(help="The layer that is imitated.")] = 12,
    steps: Annotated[int, Option(help="Steps of training.")] = 300,
    tokens: Annotated[int, Option(help="Tokens of a passage.")] = 512,
    k: Annotated[int, Option(help="Keys that are selected.")] = 32,
    text: Annotated[Path, Option(help="The text to read.")] = HERE / "tides.txt",
) -> None:
    """Train a lightning indexer to imitate a layer of SmolLM2."""
    torch.manual_seed(0)
    *taught, held_out = passages(text.read_text(), layer, tokens)
    indexer = Indexer(held_out.states.shape[-1])

    def loss(passage: Passage) -> Tensor:
        student = indexer(passage.states)
        return regard.divergence(passage.attention, student, heads="sum").mean()

    def readings() -> tuple[float, float]:
        with torch.no_grad():
            return float(loss(held_out)), recall(indexer, held_out, k)

    before = readings()
    train(indexer, taught, steps, loss)
    table = Table(title=f"layer {layer}, a passage that was not trained on")
    for name in ("", "KL in nats", f"recall of {k} keys"):
        table.add_column(name, justify="right")
    for name, (apart, share) in (("before", before), ("after", readings())):
        table.add_row(name, f"{apart:.3f}", f"{share:.1%}")
    chance = sum(min(1.0, k / n) for n in range(k + 1, tokens + 1)) / max(tokens - k, 1)
    Console().print(table)
    Console().print(f"Keys drawn by chance: {chance:.1%}.")


if __name__ == "__main__":
    typer.run(main)
