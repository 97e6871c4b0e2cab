"""Which word of the source a word of the target was looked up at, as a heat map.

Row t of cross-attention is the query of the word before, so it is the row that writes word t; maps
name it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import typer
from numpy.typing import ArrayLike
from rich.console import Console
from rich.text import Text
from torch import Tensor

from attention_health import look_everywhere
from regard.colour.scale import Scale
from regard.draw import Axis, heat_map, paper_of, scale_lines
from regard.errors import InputError
from regard.nn import Seq2Seq
from regard.plot import About, format_of, write_picture
from regard.plot.legend import bar_width, draw_bar
from regard.plot.maps import shade
from regard.plot.sheet import Box, opened

__all__ = ["Aligned", "Map", "best_head", "cross_weights", "draw_map", "picture_name", "print_map"]

WEIGHT = Scale("weight", 0.0, 1.0)


class Aligned(NamedTuple):
    """A head of cross-attention, and how well it looks at the words that are translated."""

    layer: int
    head: int
    mass: float  # mean weight on the marked keys
    found: float  # share of marked rows that look hardest at their marked key

    @property
    def label(self) -> str:
        """As recordings name it."""
        return f"cross.L{self.layer}H{self.head}"


class Map(NamedTuple):
    """The weights of one head over one pair of texts."""

    weights: ArrayLike  # (rows, keys)
    rows: Sequence[str]  # what each row writes
    keys: Sequence[str]


def cross_weights(model: Seq2Seq, source: Tensor, target: Tensor, real: Tensor) -> Tensor:
    """(layers, count, heads, target, source): where the decoder looks in the source."""
    looks = look_everywhere(model, lambda: model(source, target, source_mask=real))
    across = [block.get_submodule("cross_attention") for block in model.decoder.blocks]
    found = {id(layer): look for layer, look in looks.items()}
    return torch.stack([found[id(layer)].dense() for layer in across])


def best_head(weights: Tensor, rows: Tensor, keys: Tensor) -> Aligned:
    """The head with the most weight on the marks: row `rows` (count, n), key `keys` (count, n)."""
    at = torch.arange(weights.shape[1])[:, None]
    marked = weights.transpose(1, 2)[:, :, at, rows]  # (layers, heads, count, n, source)
    mass = marked.gather(-1, keys.expand(marked.shape[:-1])[..., None]).flatten(2).mean(-1)
    found = (marked.argmax(-1) == keys).double().flatten(2).mean(-1)
    layer, head = divmod(int(mass.argmax()), mass.shape[1])
    return Aligned(layer, head, mass[layer, head].item(), found[layer, head].item())


def picture_name(path: Path | None) -> Path | None:
    """The same, asked before a long training; BadParameter where no picture can be called so."""
    try:
        if path is not None:
            format_of(path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
    return path


def print_map(shown: Map, console: Console) -> None:
    """The map on a terminal, in colours or in signs."""
    paper = paper_of(console, is_ascii=not console.encoding.startswith("utf"))
    rows, keys = Axis(tokens=shown.rows), Axis(tokens=shown.keys)
    lines = heat_map(WEIGHT.shares(shown.weights), rows, keys, paper)
    for line in [*lines, *scale_lines(WEIGHT, paper)]:
        text = Text.assemble(*line)
        text.rstrip()
        console.print(text)


def draw_map(shown: Map, about: About, what: str, path: Path) -> None:
    """The map as a picture."""
    kind = format_of(path)
    with opened({}, (6.4, 5.6)) as sheet:
        sheet.write_words(about, what, [f"{WEIGHT}; a row is named by what it writes"])
        size = sheet.base
        room = sheet.widest(shown.rows, size) + 0.12, sheet.widest(shown.keys, size) + 0.12
        left, low = (one + 1.5 * size / 72 for one in room)  # the axes' names stand beyond
        free, bar = sheet.free, bar_width(sheet, WEIGHT, "")
        width, height = free.width - left - bar, free.height - low
        box = Box(free.left + left, free.bottom + low, width, height)
        axes = sheet.axes(box)
        axes.imshow(shade(WEIGHT.shares(shown.weights), sheet), aspect="auto", interpolation="none")
        axes.set_xticks(range(len(shown.keys)), shown.keys, rotation=90, fontsize=size)
        axes.set_yticks(range(len(shown.rows)), shown.rows, fontsize=size)
        sheet.name_axes(box, ["looks at"], ["writes"], room)
        draw_bar(sheet, WEIGHT, box, ("weight",), "")
    write_picture(sheet.figure, path, kind)
