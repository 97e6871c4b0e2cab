"""How much of a cache a model needs: perplexity against the keys that stay in every head.

SmolLM2 reads the first part of a text. Then each key head of each layer keeps only as many keys as
a budget allows, chosen in different ways, and the rest of the text is foretold from what is left.
The prompt is read once: its attention gives all the scores, and every contender starts from the
same keys and values.

    full       all keys stay
    window     the first 4 keys and the last ones (attention sinks and a sliding window)
    snapkv     the keys that the last 64 queries looked at, pooled over 5 neighbours
    observed   the keys with the largest mean weight over all queries that could see them
    random     the first 4 and last 64 keys, and others by lot

    python examples/eviction.py
    python examples/eviction.py mine.txt --tokens 8000 --csv eviction.csv --plot eviction.png
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Annotated, Any, NamedTuple, cast

import torch
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch.nn.functional import cross_entropy
from typer import Argument, Option

from regard import kv
from regard.errors import InputError
from regard.nn import Cache, EvictingCache, KeyValueCache, StackCache, load

SINKS, RECENT = 4, 64
CONTENDERS = ("window", "snapkv", "observed", "random")


class ScoringCache(KeyValueCache):
    """Keys and values of a prompt, and the scores of its keys by every contender."""

    def keep_after(self, key: Tensor, value: Tensor, attention: Any) -> None:
        """Scores (batch, Hkv, S) from the layer's attention."""
        self.keep(key, value)
        plain = kv.observed(attention)
        dice = torch.Generator().manual_seed(0)
        place = torch.arange(key.shape[-2], dtype=plain.dtype)
        self.scores = {
            "window": place.expand(plain.shape), "snapkv": kv.snapkv(attention),
            "observed": plain, "random": torch.rand(plain.shape, generator=dice),
        }  # fmt: skip

    def evicted(self, by: str, budget: int) -> Cache:
        """A cache that one contender leaves."""
        assert self.key is not None and self.value is not None
        asked = kv.Eviction(lambda _: self.scores[by], budget, SINKS, RECENT)
        made = EvictingCache(asked)
        made.keep_after(self.key, self.value, cast(Any, None))
        return made


class Row(NamedTuple):
    """One contender at one budget."""

    by: str
    budget: int  # keys that stay in each key head, of those of the prompt
    prompt: int  # tokens
    foretold: int  # tokens
    perplexity: float


def read_text(files: Sequence[Path], tokenizer: Any, tokens: int) -> Tensor:
    """(1, tokens): the files, or the chapter on special method names of Python's own help."""
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in files)
    ids = tokenizer(text or topics["specialnames"], add_special_tokens=False)["input_ids"]
    if len(ids) < tokens:
        raise InputError(f"the text has {len(ids)} tokens, --tokens asks for {tokens}; give more")
    return torch.tensor([ids[:tokens]])


def perplexity(model: Any, cache: StackCache, first: Tensor, rest: Tensor) -> float:
    """exp of the mean loss on the rest (1, n): of its first token by the prompt's last logits
    (1, vocabulary), of the others from the cache."""
    logits = torch.cat([first[:, None], model(rest, cache=cache)[:, :-1]], 1)
    return math.exp(float(cross_entropy(logits[0].float(), rest[0])))


def stack(caches: Sequence[Cache]) -> StackCache:
    """One cache for each layer, as they are."""
    rest = iter(caches)
    return StackCache(len(caches), lambda: next(rest))


def measure(
    model: Any, ids: Tensor, foretold: int, budgets: Sequence[int], advance: Callable[[], None]
) -> list[Row]:
    """Every contender at every budget; `advance` is called after each of them."""
    prompt, rest = ids[:, :-foretold], ids[:, -foretold:]
    layers = [ScoringCache() for _ in model.decoder.blocks]
    with torch.no_grad():
        first = model(prompt, cache=stack(layers), last_only=True)[:, -1]
        advance()

        def row(by: str, budget: int, caches: Sequence[Cache]) -> Row:
            found = perplexity(model, stack(caches), first, rest)
            advance()
            return Row(by, budget, prompt.shape[1], foretold, found)

        rows = [
            row(by, budget, [layer.evicted(by, budget) for layer in layers])
            for budget in budgets
            for by in CONTENDERS
        ]
        whole: list[Cache] = []
        for layer in layers:
            whole.append(KeyValueCache())
            whole[-1].keep(cast(Tensor, layer.key), cast(Tensor, layer.value))
        return [row("full", prompt.shape[1], whole), *rows]


def table_of(rows: Sequence[Row]) -> Table:
    """Budgets down, contenders across."""
    table = Table("keys kept", *CONTENDERS, box=None)
    found = {(row.by, row.budget): f"{row.perplexity:.2f}" for row in rows}
    for budget in sorted({row.budget for row in rows if row.by != "full"}):
        table.add_row(f"{budget}", *[found[by, budget] for by in CONTENDERS])
    return table


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """One line a row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows([*row[:-1], f"{row.perplexity:.4f}"] for row in rows)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Perplexity against the budget."""
    from regard.plot import About, format_of, write_picture
    from regard.plot.sheet import Box, opened

    full = next(row for row in rows if row.by == "full")
    budgets = sorted({row.budget for row in rows if row.by != "full"})
    with opened({}, (6.4, 4.0)) as sheet:
        title = f"SmolLM2, {full.prompt:,} tokens read, {full.foretold} foretold"
        sheet.write_words(About("perplexity by budget", title=title), "keys kept in each head", [])
        free = sheet.free
        axes = sheet.axes(Box(free.left + 0.55, free.bottom + 0.42, free.width - 0.7,
                              free.height - 0.6))  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.axhline(full.perplexity, color=sheet.theme.ink, linewidth=1, linestyle="--",
                     label="full cache")  # fmt: skip
        for colour, by in zip(sheet.theme.lines, CONTENDERS, strict=True):
            line = [row.perplexity for row in rows if row.by == by]
            axes.plot(budgets, line, color=colour, linewidth=1.8, marker="o", markersize=3,
                      label=by)  # fmt: skip
        axes.set_xticks(budgets, [f"{n}" for n in budgets])
        axes.grid(color=sheet.theme.rule, linewidth=0.4, alpha=0.6)
        axes.set_xlabel("keys kept", color=sheet.theme.dim, fontsize=sheet.base - 1)
        axes.set_ylabel("perplexity", color=sheet.theme.dim, fontsize=sheet.base - 1)
        axes.legend(fontsize=sheet.base - 1, frameon=False, labelcolor=sheet.theme.ink)
    write_picture(sheet.figure, path, format_of(path))


def main(
    files: Annotated[
        list[Path] | None, Argument(help="Text files; by default a chapter of Python's own help.")
    ] = None,
    model: Annotated[str, Option(help="A Llama that regard.nn.load reads.")] = "smollm2",
    tokens: Annotated[int, Option(min=200, help="Of the whole text.")] = 4000,
    foretold: Annotated[int, Option(min=1, help="Of them, those foretold from the cache.")] = 500,
    budgets: Annotated[
        str, Option(help="Keys that stay in each head.")
    ] = "96,128,256,512,1024,2048",
    into: Annotated[Path | None, Option("--csv", help="Write the rows here.")] = None,
    plot: Annotated[Path | None, Option(help="Draw the picture here.")] = None,
) -> None:
    """Measure what a cache loses with its keys."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    loaded = load(model)
    ids = read_text(files or (), loaded.tokenizer, tokens)
    chosen = [int(budget) for budget in budgets.split(",")]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=2 + len(chosen) * len(CONTENDERS))
        rows = measure(loaded.model, ids, foretold, chosen, lambda: progress.advance(task))
    full = rows[0]
    console.print(
        f"{full.prompt} tokens read, {full.foretold} foretold; perplexity with all keys: "
        f"{full.perplexity:.2f}\n"
    )
    console.print(table_of(rows))
    if into is not None:
        write_csv(rows, into)
    if plot is not None:
        draw(rows, plot)


if __name__ == "__main__":
    typer.run(main)
