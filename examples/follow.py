"""Learning to follow: an embedding and two self-attention layers, trained from random weights.

A sequence tells what follows what, then asks:

    told   d 3  a 9  g 3  k 0
    asked  g a k d
    answer 3 9 0 3

For each letter asked, the model must say the token that followed its previous occurrence.
Letters and digits pair afresh in every sequence, so nothing can be remembered from one sequence
to the next: what is learnt is where to look.

One layer cannot do it. Looking for "g" it finds where g stood, but the answer stands one place
further, and nothing in the vector of that 3 says that g stood before it: a single layer stays at
0.30, which is guessing the digit told most often. Two layers can. The first lets each digit take
up the letter to its left, the second looks for the digit that took up the letter asked. Nobody
tells them so; back-propagation finds it in a few hundred steps.

    python examples/follow.py --seed 0
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typer import Option

import regard
from regard.nn import SelfAttention, TokenEmbedding

LETTERS, DIGITS = "abcdefghijklmnop", "0123456789"
TOKENS = LETTERS + DIGITS
FACTS = 8  # letters of a sequence: each is told with a digit, and asked once
TOLD = 2 * FACTS  # tokens before the first question
CAUSAL = regard.Causal()


class Batch(NamedTuple):
    """Sequences, and how they should be answered."""

    ids: Tensor  # (count, TOLD + FACTS): letter, digit, letter, digit, … then the letters asked
    answers: Tensor  # (count, FACTS): the digit that followed each letter asked
    places: Tensor  # (count, FACTS): where that digit stood


class Model(nn.Module):
    """Token and position → two causal self-attention layers → a score for every token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = TokenEmbedding(len(TOKENS), width)
        self.first = SelfAttention(width)
        self.second = SelfAttention(width)
        self.read = nn.Linear(width, len(TOKENS))

    def forward(self, ids: Tensor, mask: regard.Mask = CAUSAL) -> Tensor:
        """(count, tokens) → (count, tokens, len(TOKENS)); `mask` is the second layer's."""
        x = self._after_first(ids)
        scores: Tensor = self.read(x + self.second(x, mask=mask))
        return scores

    def look(self, ids: Tensor) -> tuple[regard.Attention, regard.Attention]:
        """Where each layer looks: two matrices (count, 1, tokens, tokens)."""
        first = self.first.look(self.embed(ids), mask=CAUSAL)
        return first, self.second.look(self._after_first(ids), mask=CAUSAL)

    def _after_first(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embed(ids)
        return x + self.first(x, mask=CAUSAL)


def make_batch(count: int, generator: torch.Generator) -> Batch:
    """Sequences with random letters and digits, asked in random order."""
    letters = torch.rand(count, len(LETTERS), generator=generator).argsort(-1)[:, :FACTS]
    digits = torch.randint(len(LETTERS), len(TOKENS), (count, FACTS), generator=generator)
    told = torch.stack([letters, digits], dim=-1).flatten(1)  # (count, TOLD)
    asked = torch.rand(count, FACTS, generator=generator).argsort(-1)
    ids = torch.cat([told, letters.gather(1, asked)], dim=1)
    return Batch(ids, digits.gather(1, asked), 2 * asked + 1)


def train(model: Model, steps: int, generator: torch.Generator, status: Console) -> None:
    """One gradient step per fresh batch; a bar on `status` where somebody watches it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    silent = not status.file.isatty()
    with Progress(*columns, console=status, transient=True, disable=silent) as bar:
        task = bar.add_task("", total=steps)
        for _ in range(steps):
            batch = make_batch(64, generator)
            scores = model(batch.ids)[:, TOLD:]
            loss = cross_entropy(scores.flatten(0, 1), batch.answers.flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            bar.update(task, advance=1, description=f"loss {loss.item():.3f}")


@torch.no_grad()
def accuracy(model: Model, batch: Batch, mask: regard.Mask = CAUSAL) -> float:
    """The share of questions answered rightly."""
    found = model(batch.ids, mask)[:, TOLD:].argmax(-1)
    return (found == batch.answers).float().mean().item()


@torch.no_grad()
def mass(model: Model, batch: Batch) -> tuple[float, float]:
    """The mean weight of a digit on its left neighbour, and of a question on its answer."""
    first, second = model.look(batch.ids)
    on_left = first.dense()[:, 0].diagonal(-1, dim1=-2, dim2=-1)[:, :TOLD:2]
    on_answer = second[:, 0, TOLD:].gather(-1, batch.places.unsqueeze(-1))
    return on_left.mean().item(), on_answer.mean().item()


def blindfold(batch: Batch) -> regard.Mask:
    """The causal mask less one cell per question: the place of its answer."""
    count, tokens = batch.ids.shape
    seen = torch.ones(count, 1, tokens, tokens, dtype=torch.bool)
    seen[:, 0, TOLD:].scatter_(-1, batch.places.unsqueeze(-1), False)
    return CAUSAL & seen


@torch.no_grad()
def show(model: Model, batch: Batch, console: Console) -> None:
    """Where both layers look in the first sequence of the batch."""
    first, second = model.look(batch.ids[:1])
    tokens = [TOKENS[n] for n in batch.ids[0].tolist()]
    digits, questions = range(1, TOLD, 2), range(TOLD, len(tokens))
    shades = " ░▒▓█" if console.encoding.startswith("utf") else " .:*#"
    console.print("Layer 1: where each digit looks; [ ] marks its left neighbour")
    _print_map(first[0, 0], tokens, digits, [d - 1 for d in digits], shades, console)
    console.print("Layer 2: where each question looks; [ ] marks its answer")
    _print_map(second[0, 0], tokens, questions, batch.places[0].tolist(), shades, console)
    edges = " ".join(f"'{shade}' from {n / len(shades):.1f}" for n, shade in enumerate(shades))
    console.print(f"Weight: {edges}\n")


def _print_map(
    weights: Tensor,
    tokens: Sequence[str],
    rows: Sequence[int],
    marks: Sequence[int],
    shades: str,
    console: Console,
) -> None:
    """A line per row, three characters per key; each row's marked key stands in brackets."""
    console.print("     " + "  ".join(tokens))
    for row, mark in zip(rows, marks, strict=True):
        line = Text(f"  {tokens[row]} ")
        for key, weight in enumerate(weights[row].tolist()):
            shade = shades[min(int(weight * len(shades)), len(shades) - 1)]
            line += Text(f"[{shade}]", "bold green") if key == mark else Text(f" {shade} ")
        line.rstrip()
        console.print(line)
    console.print()


def main(
    seed: Annotated[int, Option(help="Of weights and data.")] = 0,
    steps: Annotated[int, Option(min=1, help="Of training, 64 sequences each.")] = 250,
    width: Annotated[int, Option(min=1, help="Of a token's vector.")] = 64,
) -> None:
    """Train two self-attention layers to follow, and show what they learnt."""
    console, status = Console(highlight=False, markup=False, soft_wrap=True), Console(stderr=True)
    torch.manual_seed(seed)  # the weights
    generator = torch.Generator().manual_seed(seed)  # the data
    model, unseen = Model(width), make_batch(1000, generator)
    before, began = accuracy(model, unseen), time.perf_counter()
    train(model, steps, generator, status)
    seconds, after = time.perf_counter() - began, accuracy(model, unseen)
    console.print(f"Accuracy on {len(unseen.ids)} unseen sequences: {before:.3f} before training,")
    console.print(f"{after:.3f} after {steps} steps in {seconds:.1f} s\n")
    show(model, unseen, console)
    on_left, on_answer = mass(model, unseen)
    console.print(f"Mean weight on the marks: {on_left:.3f} in layer 1, {on_answer:.3f} in layer 2")
    hidden = accuracy(model, unseen, blindfold(unseen))
    console.print(f"Accuracy when layer 2 may not look at its marks: {hidden:.3f}")
    if after > 0.99:
        console.print("Learnt: each digit takes up the letter to its left; each question looks for")
        console.print("the digit that took up its letter, and reads the answer there.")
    else:
        console.print("Not learnt yet: give it more --steps.")


if __name__ == "__main__":
    typer.run(main)
