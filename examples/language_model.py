"""Learning to write: a small model of characters, trained on texts, here an essay about tides.

Every character sees those before it and says which comes next. The last tenth of the text is held
out; how well it is foretold is told in bits a character. A model that knew nothing would need
log₂ of the alphabet, and one that has read eight thousand characters of a single author will not
get far: what to look at is how words and endings come into being in the samples.

    python examples/language_model.py
    python examples/language_model.py mine.txt another.txt --steps 2000
    python examples/language_model.py --checkpoint run.pt     killed, and called again, it goes on
    python examples/language_model.py --no-scale              without ÷√d_k
    python examples/language_model.py --log run.regard        then: regard view run.regard
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor
from torch.nn.functional import cross_entropy
from typer import Argument, Option

from attention_health import health_table, write_readings
from regard.nn import LanguageModel, LanguageModelConfig
from training_loop import LOG, Plan, Recipe, log_name, remove_scale, train

ESSAY = Path(__file__).with_name("tides.txt")
BATCH = 32
WINDOW = 64  # characters of a training text, and how far back a character sees
HEADS = 4
DROPOUT = 0.2
SAMPLE = 200  # characters


class Corpus:
    """A text as numbers, its last tenth held out."""

    def __init__(self, text: str) -> None:
        self.letters = sorted(set(text))
        self.ids = {letter: n for n, letter in enumerate(self.letters)}
        ids = self.encode(text)
        kept = len(ids) - len(ids) // 10
        self.learnt_from, self.held_out = ids[:kept], ids[kept:]

    def encode(self, text: str) -> Tensor:
        """(characters,)"""
        return torch.tensor([self.ids[letter] for letter in text])

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return "".join(self.letters[n] for n in ids)

    def make_model(self, width: int, d_k: int, layers: int = 2) -> LanguageModel:
        """A model of these letters."""
        return LanguageModel(
            LanguageModelConfig(
                vocabulary=len(self.letters), dim=width, heads=HEADS, head_dim=d_k, layers=layers,
                hidden=2 * width, longest=WINDOW, window=WINDOW, dropout=DROPOUT,
            )
        )  # fmt: skip

    def losses(self, model: LanguageModel, dice: torch.Generator) -> Tensor:
        """The loss of every character of a batch of windows."""
        starts = torch.randint(len(self.learnt_from) - WINDOW, (BATCH, 1), generator=dice)
        return _losses(model, self.learnt_from[starts + torch.arange(WINDOW + 1)])

    @torch.no_grad()
    def bits(self, model: LanguageModel, ids: Tensor) -> float:
        """Bits a character, in windows one after the other."""
        count = (len(ids) - 1) // WINDOW
        windows = torch.stack([ids[n * WINDOW : (n + 1) * WINDOW + 1] for n in range(count)])
        return _losses(model, windows).mean().item() / math.log(2)


def _losses(model: LanguageModel, windows: Tensor) -> Tensor:
    """windows (count, characters + 1) → the loss of each character but the first."""
    logits = model(windows[:, :-1])
    return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none")


def read(paths: Sequence[Path]) -> Corpus:
    """All texts one after the other; BadParameter where there is too little to hold out."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    if len(text) < 20 * WINDOW:
        raise typer.BadParameter(f"{len(text)} characters are too few; give {20 * WINDOW} or more")
    return Corpus(text)


def sample(corpus: Corpus, model: LanguageModel, dice: torch.Generator) -> str:
    """The model goes on from any letter of the text; the likelier a letter, the sooner drawn."""
    first = corpus.learnt_from[torch.randint(len(corpus.learnt_from), (1,), generator=dice)]
    written = model.generate(first, tokens=SAMPLE, temperature=0.8, generator=dice)
    return corpus.decode(written.tolist())


def main(
    files: Annotated[
        list[Path] | None, Argument(exists=True, dir_okay=False, help="Texts.")
    ] = None,
    steps: Annotated[int, Option(min=1, help=f"Of training, {BATCH} × {WINDOW} letters.")] = 300,
    width: Annotated[int, Option(min=2, help="Of a letter's vector.")] = 96,
    d_k: Annotated[int, Option("--d-k", min=2, help="Width of queries and keys, a head.")] = 24,
    scale: Annotated[bool, Option(help="Divide scores by √d_k.")] = True,
    seed: Annotated[int, Option(help="Of weights, data and samples.")] = 0,
    every: Annotated[int, Option(min=1, help="Steps between checkpoints, and readings.")] = 50,
    checkpoint: Annotated[Path | None, Option(help="Kept there; gone on with.")] = None,
    measure: Annotated[Path | None, Option(help="A CSV for what was measured.")] = None,
    log: Annotated[Path | None, Option(callback=log_name, help=LOG)] = None,
    samples: Annotated[int, Option(min=0, help="How many to print.")] = 3,
) -> None:
    """Train a character model on texts, and let it write."""
    console, status = Console(highlight=False, markup=False), Console(stderr=True)
    corpus = read(files or [ESSAY])
    torch.manual_seed(seed)
    model = corpus.make_model(width, d_k)
    if not scale:
        remove_scale(model)
    recipe: Recipe = {
        "text": len(corpus.learnt_from), "letters": "".join(corpus.letters), "steps": steps,
        "width": width, "d_k": d_k, "scale": scale, "seed": seed, "every": every,
    }  # fmt: skip
    plan = Plan(steps, every, seed=seed, checkpoint=checkpoint, log=log, recipe=recipe)
    began = time.perf_counter()
    readings = train(model, partial(corpus.losses, model), plan, status)
    console.print(f"Trained to step {steps} in {time.perf_counter() - began:.0f} s\n")
    console.print(health_table(readings))
    if measure is not None:
        write_readings(measure, {("language_model", scale): readings})
    learnt, held_out = (corpus.bits(model, ids) for ids in (corpus.learnt_from, corpus.held_out))
    console.print(f"\nBits a character: {learnt:.2f} where it learnt, {held_out:.2f} held out,")
    console.print(f"{math.log2(len(corpus.letters)):.2f} for one who knows the letters only")
    dice = torch.Generator().manual_seed(seed)
    for n in range(samples):
        console.print(f"\n{n + 1}. {sample(corpus, model, dice)}")


if __name__ == "__main__":
    typer.run(main)
