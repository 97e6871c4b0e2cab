"""A summary by choice of sentences, found in two ways: by meaning, and by attention.

MiniLM reads a text paragraph by paragraph.

    by meaning     a sentence's vector is the mean of its tokens' contextual vectors; sentences are
                   taken that lie near the mean of the whole text and not near those taken already
    by attention   a sentence counts by the attention its words receive, per word: the mean over
                   all heads of all layers. Punctuation, where attention goes to rest, is left out

What is looked at most need not be what is typical: attention picks short sentences that name the
topic, the vectors pick full ones that say something of it. The overlap says how far they agree.

    python examples/summarise.py examples/tides.txt --sentences 4
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text
from typer import Argument, Option

import regard
from regard.models import load

ESSAY = Path(__file__).parent / "tides.txt"
END = re.compile(r"(?<=[.!?])\s+")
MOST = 510  # tokens of a paragraph that the encoder takes, its two special ones aside

Array = NDArray[Any]


class Sentence(NamedTuple):
    """A sentence as the encoder saw it."""

    text: str
    vector: Array  # (D,)
    received: float  # attention per word, 1 being an even share


def split(text: str) -> list[list[str]]:
    """Paragraphs of sentences; a line without an end, such as a title, is none."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return [END.split(part) for part in paragraphs if re.search(r"[.!?]$", part)]


def read_paragraph(loaded: Any, sentences: list[str]) -> list[Sentence]:
    """Run the encoder over a paragraph, recorded, and take it apart by sentence."""
    tokenizer, model = loaded.tokenizer, loaded.model
    pieces = [tokenizer(one, add_special_tokens=False)["input_ids"] for one in sentences]
    ids = [n for piece in pieces for n in piece][:MOST]
    whole = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
    with torch.no_grad(), regard.record(model) as made:
        vectors = model(torch.tensor([whole])).last_hidden_state[0].numpy()
    heads = list(made.recording)
    mass = np.mean([head.received() for head in heads], axis=0)  # 1 is an even share
    words = np.array(
        [token.strip("#").isalnum() for token in tokenizer.convert_ids_to_tokens(whole)]
    )
    found, start = [], 1
    for sentence, piece in zip(sentences, pieces, strict=True):
        own = np.arange(start, min(start + len(piece), len(whole) - 1))
        start += len(piece)
        if words[own].any():
            received = mass[own[words[own]]].mean()
            found.append(Sentence(sentence, vectors[own].mean(0), float(received)))
    return found


def by_meaning(sentences: list[Sentence], count: int, variety: float) -> list[int]:
    """One after the other, the sentence nearest to the whole text and farthest from those taken."""
    vectors = np.stack([one.vector for one in sentences])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    middle = unit.mean(0) / np.linalg.norm(unit.mean(0))
    typical, taken = unit @ middle, list[int]()
    while len(taken) < min(count, len(sentences)):
        said = (unit @ unit[taken].T).max(1) if taken else np.zeros(len(unit))
        worth = (1 - variety) * typical - variety * said
        worth[taken] = -np.inf
        taken.append(int(worth.argmax()))
    return sorted(taken)


def by_attention(sentences: list[Sentence], count: int) -> list[int]:
    """The sentences whose words are looked at most."""
    received = np.array([one.received for one in sentences])
    return sorted(int(n) for n in np.argsort(-received)[:count])


def show(title: str, chosen: list[int], others: list[int], all_: list[Sentence]) -> Text:
    """A summary; sentences that both found are marked."""
    text = Text(f"{title}\n", "bold")
    for n in chosen:
        both = n in others
        text.append(f"{'*' if both else ' '} {n + 1:3}  ", "green" if both else "")
        text.append(f"{all_[n].text}\n", "green" if both else "")
    return text


def main(
    file: Annotated[
        Path, Argument(exists=True, dir_okay=False, help="Paragraphs apart by blank lines.")
    ] = ESSAY,
    sentences: Annotated[int, Option(min=1, help="How many to choose.")] = 5,
    variety: Annotated[float, Option(min=0, max=1, help="0: typical, even if alike.")] = 0.3,
    paragraphs: Annotated[int, Option(min=1, help="How many to read.")] = 1000,
    model: Annotated[str, Option(help="A bert-like encoder, by name or path.")] = "minilm",
) -> None:
    """Summarise a text by choosing sentences, by meaning and by attention."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    parts = split(file.read_text(encoding="utf-8"))[:paragraphs]
    if not parts:
        raise typer.BadParameter(f"{file} has no sentence in it")
    loaded = load(model)
    read = [sentence for part in parts for sentence in read_paragraph(loaded, part)]
    meant = by_meaning(read, sentences, variety)
    seen = by_attention(read, sentences)
    console.print(f"{len(read)} sentences in {len(parts)} paragraphs\n")
    console.print(show("By meaning", meant, seen, read))
    console.print(show("By attention", seen, meant, read))
    both, chance = len({*meant} & {*seen}), len(meant) ** 2 / len(read)
    console.print(f"Overlap: {both} of {len(meant)}, marked with *; chance would give {chance:.1f}")


if __name__ == "__main__":
    typer.run(main)
