"""Learning to translate: number words from English to German or French, by cross-attention.

An encoder reads `two hundred and thirty-four`, a decoder writes `zweihundertvierunddreißig`. German
says the unit before the ten, so whoever writes it must look to and fro: at `-four` for `vier`, and
back at `thirty` for `dreißig`. Nobody tells the model so. Texts are cut into the words that numbers
are made of; the spellings are those of num2words (pip install num2words).

    python examples/translate.py
    python examples/translate.py --language fr --plot alignment.png
    python examples/translate.py --checkpoint run.pt     killed, and called again, it goes on
    python examples/translate.py --no-scale              without ÷√d_k
    python examples/translate.py --log run.regard        then: regard view run.regard
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer
from num2words import num2words
from rich.console import Console
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from typer import Option

import regard
from alignment import Aligned, Map, best_head, cross_weights, draw_map, picture_name, print_map
from attention_health import health_table, write_readings
from regard.intervene import Edge
from regard.nn import Seq2Seq, Seq2SeqConfig
from regard.plot import About
from training_loop import LOG, Plan, log_name, remove_scale, train

LARGEST = 999_999
BATCH = 128
PAD, START, END = 0, 1, 2
ASKED = 100  # numbers for the test with a blindfold
LONGEST = 24  # pieces of a number, more than any has
ORDER = {"de": (-1, -3), "fr": (-2, -1)}  # of ten and unit in a number such as 34, from its end


class Language(StrEnum):
    """What is translated into."""

    GERMAN = "de"
    FRENCH = "fr"


class Batch(NamedTuple):
    """Numbers in both languages, padded on the right."""

    source: Tensor  # (count, pieces)
    target: Tensor  # (count, pieces): START, then what is written

    @property
    def wanted(self) -> Tensor:
        """(count, pieces): what each piece of the target is followed by; PAD at the end."""
        return torch.cat([self.target[:, 1:], self.target.new_zeros(len(self.target), 1)], dim=1)


class Speech:
    """A language: numbers as pieces, pieces as ids."""

    def __init__(self, code: str) -> None:
        self.code = code
        # a word with the space, comma or hyphen before it; German has none between words
        self.piece = _german_words() if code == "de" else re.compile(r"\W*\w+")
        known = dict.fromkeys(piece for number in _every_word() for piece in self.split(number))
        self.pieces = ["", "<start>", "<end>", *known]
        self.ids = {piece: n for n, piece in enumerate(self.pieces)}

    def split(self, number: int) -> list[str]:
        """The pieces; joined they are the text."""
        found: list[str] = self.piece.findall(num2words(number, lang=self.code))
        return found

    def encode(self, number: int) -> Tensor:
        """(pieces + 1,): the last is END."""
        return torch.tensor([*(self.ids[piece] for piece in self.split(number)), END])

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to END."""
        return "".join(self.pieces[n] for n in ids[: _place(ids, END)] if n > END)


class Course:
    """Pairs to learn from, pairs held out, and the model that learns."""

    def __init__(self, language: str, numbers: int, held_out: int, seed: int) -> None:
        self.english, self.foreign = Speech("en"), Speech(language)
        drawn = _draw(numbers + held_out, torch.Generator().manual_seed(seed))
        self.held_out, self.learnt_from = drawn[:held_out], drawn[held_out:]
        self.batch = self.make_batch(self.learnt_from)

    def make_batch(self, numbers: Sequence[int]) -> Batch:
        """These numbers in both languages."""
        source = [self.english.encode(n) for n in numbers]
        start = torch.tensor([START])
        target = [torch.cat([start, self.foreign.encode(n)]) for n in numbers]
        return Batch(*(pad_sequence(one, batch_first=True) for one in (source, target)))

    def make_model(self, width: int, d_k: int, layers: int = 2) -> Seq2Seq:
        """An encoder-decoder of this vocabulary."""
        return Seq2Seq(
            Seq2SeqConfig(
                dim=width, heads=4, head_dim=d_k, layers=layers, longest=LONGEST, hidden=2 * width,
                vocabulary=len(self.foreign.pieces), source_vocabulary=len(self.english.pieces),
            )
        )  # fmt: skip

    def losses(self, model: Seq2Seq, dice: torch.Generator) -> Tensor:
        """The loss of every piece of a batch."""
        chosen = torch.randint(len(self.learnt_from), (BATCH,), generator=dice)
        batch = Batch(*(one[chosen] for one in self.batch))
        logits = model(batch.source, batch.target, source_mask=batch.source != PAD)
        wanted = batch.wanted
        return cross_entropy(logits[wanted != PAD], wanted[wanted != PAD], reduction="none")

    def translate(self, model: Seq2Seq, numbers: Sequence[int]) -> list[str]:
        """What the model says, piece by piece, each time the likeliest."""
        source = self.make_batch(numbers).source
        said = model.generate(
            source, start=START, stop=END, tokens=LONGEST, source_mask=source != PAD
        )
        return [self.foreign.decode(row) for row in said.tolist()]

    def mistakes(self, model: Seq2Seq, numbers: Sequence[int]) -> list[tuple[int, str]]:
        """The numbers that are not said exactly as they should be, and how they are said."""
        said = [
            text
            for first in range(0, len(numbers), BATCH)
            for text in self.translate(model, numbers[first : first + BATCH])
        ]
        wanted = ("".join(self.foreign.split(n)) for n in numbers)
        triples = zip(numbers, said, wanted, strict=True)
        return [(n, text) for n, text, right in triples if text != right]


def shows_order(number: int, language: str) -> bool:
    """Whether it ends with a ten and a unit, each a piece of its own in both languages."""
    ten, unit = number % 100, number % 10
    return ten > 20 and unit > 0 if language == "de" else 20 < ten < 70 and unit > 1


def marks(batch: Batch, language: str) -> tuple[Tensor, Tensor]:
    """(count, 2) each: the rows that write ten and unit, and the keys where they are read."""
    words = (batch.wanted > END).sum(1, keepdim=True)
    read = (batch.source > END).sum(1, keepdim=True)
    return words + torch.tensor(ORDER[language]), read + torch.tensor([-2, -1])


def find_head(course: Course, model: Seq2Seq) -> Aligned:
    """The head that looks at what is translated, by the numbers that were learnt from."""
    chosen = [n for n in course.learnt_from if shows_order(n, course.foreign.code)][:500]
    batch = course.make_batch(chosen)
    weights = cross_weights(model, batch.source, batch.target, batch.source != PAD)
    return best_head(weights, *marks(batch, course.foreign.code))


def make_map(course: Course, model: Seq2Seq, number: int, head: Aligned) -> Map:
    """Where that head looks while the number is written as it should be."""
    batch = course.make_batch([number])
    weights = cross_weights(model, batch.source, batch.target, batch.source != PAD)
    written, read = (
        [*(piece.strip(" ,-") for piece in speech.split(number)), "<end>"]
        for speech in (course.foreign, course.english)
    )
    return Map(weights[head.layer, 0, head.head, : len(written)].numpy(), written, read)


@torch.no_grad()
def blindfolded(course: Course, model: Seq2Seq, numbers: Sequence[int]) -> tuple[float, float]:
    """The shares of tens and of units that are still written when no head may look at them in the
    very row that writes them; all other rows see everything."""
    right = [0, 0]
    for number in numbers:
        batch = course.make_batch([number])
        rows, keys = marks(batch, course.foreign.code)
        for n, (row, key) in enumerate(zip(rows[0].tolist(), keys[0].tolist(), strict=True)):
            with regard.knock_out(model, edges=[Edge(queries=row, keys=key, heads="cross")]):
                said = model(*batch)[0, row].argmax()
            right[n] += int(said == batch.wanted[0, row])
    return right[0] / len(numbers), right[1] / len(numbers)


def _every_word() -> list[int]:
    """Few numbers in which every piece of the others is said."""
    small = [*range(1, 100), *range(100, 1000, 100)]
    joined = [100 + n for n in range(1, 100)]
    return [*small, *joined, *(1000 + n for n in small), *(1000 * n for n in small + joined)]


def _german_words() -> re.Pattern[str]:
    """German numbers are one long word, made of these; the longest that fits is taken."""
    small = [num2words(n, lang="de") for n in (*range(1, 21), *range(30, 100, 10))]
    words = [*small, "ein", "und", "hundert", "tausend"]
    return re.compile("|".join(sorted(words, key=len, reverse=True)))


def _draw(count: int, dice: torch.Generator) -> list[int]:
    """Different numbers in any order, short ones as likely as long ones."""
    found: set[int] = set()
    while len(found) < count:
        share = torch.rand((), generator=dice, dtype=torch.float64).item()
        found.add(int((LARGEST + 1) ** share))
    order = torch.randperm(count, generator=dice)  # the short ones all came early
    return torch.tensor(sorted(found))[order].tolist()


def _place(ids: Sequence[int], wanted: int) -> int:
    return ids.index(wanted) if wanted in ids else len(ids)


def report(course: Course, model: Seq2Seq, number: int | None, plot: Path | None) -> None:
    """What was learnt, and where it is looked up."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    wrong = course.mistakes(model, course.held_out)
    right = 1 - len(wrong) / len(course.held_out)
    console.print(f"Exact match on {len(course.held_out)} held-out numbers: {right:.1%}")
    for missed, answer in wrong[:3]:
        console.print(f"  {missed}: {answer or 'nothing'}")
    code = course.foreign.code
    fitting = (n for n in course.held_out if shows_order(n, code) and 100 < n < 1000)
    number = next(fitting, 234) if number is None else number
    head = find_head(course, model)
    shown = make_map(course, model, number, head)
    text, (said,) = "".join(course.english.split(number)), course.translate(model, [number])
    console.print(f"\n{number}: {text} → {said}")
    console.print(f"Where {head.label} looks for each word it writes:\n")
    print_map(shown, console)
    console.print(f"\nRows that write a ten or a unit look hardest at it in {head.found:.1%},")
    console.print(f"with a mean weight of {head.mass:.2f}. A weight is not yet a reason. Where no")
    console.print("head may look there in that very row, still right are")
    asked = [n for n in course.learnt_from if shows_order(n, code)][:ASKED]
    ten, unit = blindfolded(course, model, asked)
    console.print(f"  {ten:.0%} of the tens and {unit:.0%} of the units of {len(asked)} numbers")
    if plot is not None:
        about = About(f"English → {Language(code).name.title()}", [f"{number}: {text}"])
        draw_map(shown, about, head.label, plot)


def main(
    language: Annotated[Language, Option(help="What is translated into.")] = Language.GERMAN,
    steps: Annotated[int, Option(min=1, help=f"Of training, {BATCH} numbers each.")] = 600,
    numbers: Annotated[int, Option(min=100, max=100_000, help="To learn from.")] = 6000,
    held_out: Annotated[int, Option(min=1, max=100_000, help="For the test.")] = 1000,
    width: Annotated[int, Option(min=2, help="Of a word's vector.")] = 64,
    d_k: Annotated[int, Option("--d-k", min=1, help="Width of queries and keys, a head.")] = 16,
    scale: Annotated[bool, Option(help="Divide scores by √d_k.")] = True,
    seed: Annotated[int, Option(help="Of weights and data.")] = 0,
    every: Annotated[int, Option(min=1, help="Steps between checkpoints, and readings.")] = 50,
    checkpoint: Annotated[Path | None, Option(help="Kept there; gone on with.")] = None,
    measure: Annotated[Path | None, Option(help="A CSV for what was measured.")] = None,
    log: Annotated[Path | None, Option(callback=log_name, help=LOG)] = None,
    say: Annotated[int | None, Option(min=1, max=LARGEST, help="The number to show.")] = None,
    plot: Annotated[
        Path | None, Option(callback=picture_name, help="A .png or .svg of the alignment.")
    ] = None,
) -> None:
    """Train an encoder-decoder on number words, and show where it looks."""
    console, status = Console(highlight=False, markup=False), Console(stderr=True)
    course = Course(language.value, numbers, held_out, seed)
    torch.manual_seed(seed)
    model = course.make_model(width, d_k)
    if not scale:
        remove_scale(model)
    recipe = {
        "language": language.value, "steps": steps, "numbers": numbers, "held_out": held_out,
        "width": width, "d_k": d_k, "scale": scale, "seed": seed, "every": every,
    }  # fmt: skip
    plan = Plan(steps, every, seed=seed, checkpoint=checkpoint, log=log, recipe=recipe)
    began = time.perf_counter()
    readings = train(model, partial(course.losses, model), plan, status)
    console.print(f"Trained to step {steps} in {time.perf_counter() - began:.0f} s\n")
    console.print(health_table(readings))
    console.print()
    if measure is not None:
        write_readings(measure, {("translate", scale): readings})
    report(course, model, say, plot)


if __name__ == "__main__":
    typer.run(main)
