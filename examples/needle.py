"""A needle in a haystack: which heads fetch a fact from far back, word by word.

A fact that nobody could guess is put into an essay about tides; at the end SmolLM2 is given the
fact's first words and goes on writing. To copy the rest, some head must look at the very token
that comes next. A head's retrieval score is the share of the needle's tokens that it looked at
hardest in the row that wrote them, averaged over depths of the needle (Wu et al. 2024, who call
it a retrieval head from 0.1 on). Then the highest are knocked out, and as many others, and it
writes again.

    python examples/needle.py --tokens 300
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from typer import Option

import regard
from regard.models import load
from regard.recording import Recording
from regard.study import mean_retrieval

ESSAY = Path(__file__).parent / "tides.txt"
ASKED = "The best thing to eat in the harbour is"
ANSWER = " a warm plum cake with brown sugar"
FETCHES = 0.1  # from this score on a head is called a retrieval head


class Prompt(NamedTuple):
    """An essay with a needle in it, and the question."""

    ids: Tensor  # (1, N)
    needle: range  # of the answer


def make_prompt(tokenizer: Any, tokens: int, depth: float) -> Prompt:
    """The essay's first tokens, with the needle behind a share of `depth` of them."""

    def read(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    essay = read(" ".join(ESSAY.read_text(encoding="utf-8").split()))[:tokens]
    before, answer, question = read(f" {ASKED}"), read(ANSWER), read(f"\n\n{ASKED}")
    at = int(depth * len(essay))
    start = at + len(before)
    ids = [*essay[:at], *before, *answer, *read("."), *essay[at:], *question]
    return Prompt(torch.tensor([ids]), range(start, start + len(answer)))


def write(loaded: Any, prompt: Prompt, heads: Sequence[str] = ()) -> str:
    """What the model says without these heads, one token beyond the needle's length: the last one
    it writes, it does not read."""
    with torch.no_grad(), regard.knock_out(loaded.model, heads):
        found = loaded.model.generate(
            prompt.ids,
            max_new_tokens=len(prompt.needle) + 1,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )
    text: str = loaded.tokenizer.decode(found[0, prompt.ids.shape[1] :])
    return text


def watch(loaded: Any, prompt: Prompt) -> tuple[str, Recording]:
    """What the whole model says, and where it looks meanwhile."""
    with regard.record(loaded.model, tokenizer=loaded.tokenizer) as made:
        text = write(loaded, prompt)
    return text, made.recording


def drawn(labels: Sequence[str], count: int, seed: int) -> list[str]:
    """Heads by lot."""
    return [str(one) for one in np.random.default_rng(seed).choice(labels, count, replace=False)]


def table_of(scores: dict[str, float], count: int) -> Table:
    """The heads that fetched most."""
    table = Table("head", "retrieval", box=None)
    for label, score in list(scores.items())[:count]:
        table.add_row(label, f"{score:.2f}", style="bold green" if score >= FETCHES else None)
    return table


def try_without(
    loaded: Any, prompts: Sequence[Prompt], heads: Sequence[str], name: str, console: Console
) -> None:
    """Whether the needle is still found."""
    said = [write(loaded, prompt, heads) for prompt in prompts]
    right = sum(text.startswith(ANSWER) for text in said)
    console.print(f"Without {name}: right {right} of {len(said)}, as in {said[0]!r}")


def main(
    model: Annotated[str, Option(help="A causal language model, by name or path.")] = "smollm2",
    tokens: Annotated[int, Option(min=10, help="Of the haystack.")] = 300,
    depths: Annotated[int, Option(min=1, help="How many places to hide the needle at.")] = 2,
    heads: Annotated[
        int, Option(min=1, help="How many heads to knock out; twice as many are listed.")
    ] = 4,
    seed: Annotated[int, Option(help="Of the heads drawn by lot.")] = 0,
) -> None:
    """Find the heads that fetch a fact from far back, and see what happens without them."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    loaded = load(model)
    places = [(n + 1) / (depths + 1) for n in range(depths)]
    prompts = [make_prompt(loaded.tokenizer, tokens, depth) for depth in places]
    console.print(f"Hidden in {tokens} tokens about tides: {ASKED}{ANSWER}.\n")
    cases = []
    for depth, prompt in zip(places, prompts, strict=True):
        text, recording = watch(loaded, prompt)
        console.print(f"Depth {depth:.2f}: writes {text!r}")
        cases.append((recording, 0, prompt.needle))
    scores = mean_retrieval(cases, generated=len(prompts[0].needle))
    ranked = dict(sorted(scores.items(), key=lambda item: -item[1]))
    rest = [label for label, score in ranked.items() if score < FETCHES]
    console.print(
        f"\n{len(ranked) - len(rest)} of {len(ranked)} heads fetch a tenth of it or more:"
    )
    console.print(table_of(ranked, 2 * heads))
    console.print()
    try_without(loaded, prompts, list(ranked)[:heads], "these", console)
    try_without(loaded, prompts, drawn(rest, heads, seed), "as many of the others", console)


if __name__ == "__main__":
    typer.run(main)
