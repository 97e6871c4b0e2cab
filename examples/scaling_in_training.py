"""With and without ÷√d_k: what becomes of attention from before the first step of training on.

The learners of translate.py and language_model.py are trained twice each, from the same weights on
the same data: as usual, and without the division. What attention_health.py measures goes into a
CSV and a picture. d_k is that of real models; at a small d_k there is little to divide by.

    python examples/scaling_in_training.py --csv scaling.csv --plot scaling.png
    python examples/scaling_in_training.py --csv scaling.csv --plot scaling.png --redraw
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import torch
import typer
from rich.console import Console
from torch import nn
from typer import Option

import language_model
import translate
from alignment import picture_name
from attention_health import (
    Losses,
    Reading,
    Runs,
    health_table,
    read_readings,
    write_readings,
)
from regard.plot import About, format_of, write_picture
from regard.plot.sheet import Box, Sheet, opened
from training_loop import Plan, remove_scale, train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TASKS = {"translate": "number words, English → German", "language_model": "characters of an essay"}
NOTE = (
    "A row is one query of one head; all rows of all attention layers. Gradient of the summed loss "
    "at the row's query, median (thick) and 99th percentile (thin). Dead: less than a thousandth "
    "of the gradient at the row's output comes through to its query. One seed."
)


class Panel(NamedTuple):
    """One number over the steps."""

    title: str
    field: str
    also: str = ""  # drawn thin
    is_log: bool = False  # where it runs over several powers of ten


PANELS = (
    Panel("loss per token", "loss", is_log=True),
    Panel("entropy, share of the largest", "entropy"),
    Panel("rows with a weight > 0.99", "saturated"),
    Panel("gradient at the query", "gradient_median", "gradient_p99", is_log=True),
    Panel("dead rows", "dead"),
)


def make_learner(task: str, width: int, d_k: int, seed: int) -> tuple[nn.Module, Losses]:
    """A model with fresh weights, and what it learns from."""
    if task == "translate":
        course = translate.Course("de", numbers=4000, held_out=1, seed=seed)
        torch.manual_seed(seed)
        translator = course.make_model(width, d_k)
        return translator, partial(course.losses, translator)
    corpus = language_model.read([language_model.ESSAY])
    torch.manual_seed(seed)
    writer = corpus.make_model(width, d_k)
    return writer, partial(corpus.losses, writer)


def run_all(plan: Plan, width: int, d_k: int, console: Console, status: Console) -> Runs:
    """Both tasks, both ways; each tells how it went."""
    runs: dict[tuple[str, bool], Sequence[Reading]] = {}
    for task, what in TASKS.items():
        for scaled in (True, False):
            model, losses = make_learner(task, width, d_k, plan.seed)
            if not scaled:
                remove_scale(model)
            runs[task, scaled] = train(model, losses, plan, status)
            console.print(f"{what}, {'divided by √d_k' if scaled else 'not divided'}")
            console.print(health_table(runs[task, scaled]))
            console.print()
    return runs


def draw(runs: Runs, d_k: int, path: Path) -> None:
    """A line of panels for each task."""
    kind = format_of(path)
    tasks = list(dict.fromkeys(task for task, _ in runs))
    with opened({}, (13.0, 1.6 + 2.2 * len(tasks))) as sheet:
        about = About("attention in training", title="; ".join(TASKS[task] for task in tasks))
        sheet.write_words(about, f"with and without ÷√d_k, d_k = {d_k}", [NOTE])
        for line, task in enumerate(tasks):
            for column, panel in enumerate(PANELS):
                axes = sheet.axes(_box(sheet, line, len(tasks), column))
                _draw_panel(axes, panel, runs, task, sheet)
                if column == 0:
                    axes.set_ylabel(
                        task.replace("_", " "), color=sheet.theme.ink, fontsize=sheet.base
                    )
                    axes.legend(fontsize=sheet.base - 1, frameon=False, labelcolor=sheet.theme.ink)
    write_picture(sheet.figure, path, kind)


def _box(sheet: Sheet, line: int, lines: int, column: int) -> Box:
    free = sheet.free
    wide, high = free.width / len(PANELS), free.height / lines
    left, bottom = free.left + column * wide, free.bottom + (lines - 1 - line) * high
    return Box(left + 0.55, bottom + 0.4, wide - 0.65, high - 0.65)


def _draw_panel(axes: Axes, panel: Panel, runs: Runs, task: str, sheet: Sheet) -> None:
    axes.set_title(panel.title, color=sheet.theme.ink, fontsize=sheet.base)
    names = {True: "divided", False: "not divided"}
    drawn: list[float] = []
    for colour, (scaled, name) in zip(sheet.theme.lines, names.items(), strict=False):
        readings = runs.get((task, scaled), ())
        steps = [one.step for one in readings]
        for field, width in ((panel.field, 1.8), (panel.also, 0.8)):
            if field:
                values = [getattr(one, field) for one in readings]
                label = name if width > 1 else None
                axes.plot(steps, values, color=colour, linewidth=width, label=label)
                drawn += values
    if panel.is_log and max(drawn) > 20 * min(drawn):
        _scale_by_tens(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(color=sheet.theme.rule, linewidth=0.4, alpha=0.6)
    axes.set_xlabel("step", color=sheet.theme.dim, fontsize=sheet.base - 1, labelpad=1)


def _scale_by_tens(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def main(
    csv: Annotated[Path, Option(help="What was measured.")],
    plot: Annotated[
        Path | None, Option(callback=picture_name, help="A .png or .svg of it.")
    ] = None,
    redraw: Annotated[bool, Option("--redraw", help="Draw the CSV that is there.")] = False,
    steps: Annotated[int, Option(min=1, help="Of each of the four trainings.")] = 300,
    every: Annotated[int, Option(min=1, help="Steps between readings.")] = 10,
    width: Annotated[int, Option(min=2, help="Of a token's vector.")] = 64,
    d_k: Annotated[int, Option("--d-k", min=2, help="Width of queries and keys, a head.")] = 128,
    seed: Annotated[int, Option(help="Of weights and data.")] = 0,
) -> None:
    """Train with and without ÷√d_k, and show what it does to attention."""
    console, status = Console(highlight=False, markup=False), Console(stderr=True)
    if not redraw:
        write_readings(csv, run_all(Plan(steps, every, seed=seed), width, d_k, console, status))
    if plot is not None:
        draw(read_readings(csv), d_k, plot)


if __name__ == "__main__":
    typer.run(main)
