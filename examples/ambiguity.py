"""One word, two senses: where a model begins to tell them apart, and by which words.

The sentences below all say "bank": six banks of a river, six that keep money, in pairs that have
the word at the same place. MiniLM begins with one and the same vector for both of a pair; each
layer lets the words around it change the vector. For every layer, all twelve are compared:

    nearest   how many of them have a bank of their own sense for nearest neighbour
    within    mean cosine between banks of one sense
    across    mean cosine between banks of two senses

Vectors of a layer point into a narrow cone, so each layer's mean over all tokens of all sentences
is taken off first. What moved a bank is ‖p v w_o‖ of each token, summed over heads as vectors.

    python examples/ambiguity.py
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from typer import Option

from regard.intervene import Residual, observe_residual
from regard.models import load
from regard.study import output_attribution
from regard.study.contextual import Change, Senses, centred, contextual_change, told_apart

WORD = "bank"
RIVER, MONEY = "river", "money"
SENTENCES = {
    "The bank was steep, and the water ran fast below it.": RIVER,
    "The bank raised the interest on its loans again.": MONEY,
    "No bank of the stream was free of reeds.": RIVER,
    "No bank would lend the company another dollar.": MONEY,
    "We sat on the bank and watched the boats go by.": RIVER,
    "She went to the bank to open a savings account.": MONEY,
    "Children fished from the bank until the water rose.": RIVER,
    "The clerk at the bank counted the notes twice.": MONEY,
    "The river had risen over its bank after the rain.": RIVER,
    "He wanted to borrow from the bank to pay his rent.": MONEY,
    "A heron stood still on the far bank of the lake.": RIVER,
    "They opened an account at their old bank last spring.": MONEY,
}


class Read(NamedTuple):
    """A sentence inside the model."""

    tokens: list[str]
    place: int  # of the word
    inside: Residual


def read(loaded: Any, sentence: str) -> Read:
    """Run the model over one sentence."""
    ids = loaded.tokenizer(sentence)["input_ids"]
    tokens = loaded.tokenizer.convert_ids_to_tokens(ids)
    place = tokens.index(WORD)
    return Read(tokens, place, observe_residual(loaded.model, ids, rows=[place]))


def compare(sentences: list[Read], senses: list[str]) -> Senses:
    """The word's vectors in every hidden state, centred around all tokens of all sentences."""
    every = np.concatenate([one.inside.hidden for one in sentences], axis=1)
    words = np.stack([one.inside.hidden[:, one.place] for one in sentences], axis=1)
    return told_apart(centred(words, around=every), senses)


def changes(sentences: list[Read]) -> tuple[Change, NDArray[Any]]:
    """What each layer did to the word: all tokens of all sentences, and which are the word."""
    inside = [one.inside for one in sentences]
    hidden, attention, mlp = (
        np.concatenate([getattr(one, name) for one in inside], axis=1)
        for name in ("hidden", "attention", "mlp")
    )
    starts = np.cumsum([0, *(len(one.tokens) for one in sentences[:-1])])
    return contextual_change(hidden, attention, mlp), starts + [one.place for one in sentences]


def movers(one: Read, layer: int, count: int) -> list[str]:
    """The other words that moved the word most in a layer."""
    lengths = output_attribution(*one.inside.parts(layer, one.place))
    order = [one.tokens[n] for n in np.argsort(-lengths) if n != one.place]
    return list(dict.fromkeys(token for token in order if token.isalpha()))[:count]


def table_of(found: Senses, change: Change, words: NDArray[Any]) -> Table:
    """A line per hidden state."""
    table = Table("after", "nearest", "within", "across", "step", "by attention", box=None)
    total = len(words)
    for number, near in enumerate(found.nearest):
        row = [f"layer {number - 1}" if number else "embedding", f"{near * total:.0f} of {total}"]
        row += [f"{found.within[number]:.2f}", f"{found.across[number]:.2f}"]
        if number:
            made = (change.step, change.attention)
            row += [f"{one[number - 1, words].mean():.2f}" for one in made]
        parts = found.separates is not None and number == found.separates
        table.add_row(*row, style="bold green" if parts else None)
    return table


def main(
    model: Annotated[str, Option(help="A bert-like encoder, by name or path.")] = "minilm",
    words: Annotated[int, Option(min=1, help="How many movers to show.")] = 3,
) -> None:
    """Where an encoder begins to tell two senses of a word apart."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    loaded, senses = load(model), list(SENTENCES.values())
    sentences = [read(loaded, sentence) for sentence in SENTENCES]
    found = compare(sentences, senses)
    console.print(f"{len(senses)} sentences, each with a “{WORD}”; vectors centred per layer\n")
    console.print(table_of(found, *changes(sentences)))
    console.print()
    if found.separates is None:
        console.print("The two senses are not told apart to the end.")
        return
    layer = max(found.separates - 1, 0)
    console.print(f"Told apart for good after layer {layer}. What moved each “{WORD}” most there:")
    for one, sense in zip(sentences, senses, strict=True):
        console.print(f"  {sense}  {', '.join(movers(one, layer, words))}")


if __name__ == "__main__":
    typer.run(main)
