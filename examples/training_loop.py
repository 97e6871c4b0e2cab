"""What the training examples share: steps with a bar, and a checkpoint that survives a kill.

A checkpoint holds all that the next step depends on: parameters, the optimiser's moments, the dice
of data and of dropout, the step, and what was measured so far. It is written under another name
and renamed when whole. So a process that is killed loses at most the steps since the last one,
and started again with the same options it comes to the same numbers, to the last bit.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from torch import nn

from attention_health import Losses, Reading, measure
from regard import Monitor
from regard.nn import MultiHeadAttention

__all__ = ["LOG", "Plan", "Recipe", "log_name", "remove_scale", "train"]

LOG = "A .regard or .csv for what every head did at every step."
WARM_UP = 50  # steps until the learning rate is at its highest
Recipe: TypeAlias = Mapping[str, bool | int | float | str]


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and where it is kept."""

    steps: int
    every: int = 50  # steps between two measurements, and between two checkpoints
    rate: float = 3e-3  # the highest learning rate; it rises at first, then falls to nothing
    seed: int = 0  # of data and dropout
    checkpoint: Path | None = None
    log: Path | None = None  # what every head did: a .regard file, or a .csv
    recipe: Recipe = field(default_factory=dict)  # options that a checkpoint must agree with


@dataclass
class _Run:
    """All that the next step depends on."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    dice: torch.Generator
    step: int
    readings: list[Reading]


def remove_scale(model: nn.Module) -> None:
    """Attention without ÷√d_k, everywhere in the model: queries are made √d_k times as large, so
    that the division that follows gives the plain product of query and key."""
    for layer in model.modules():
        if isinstance(layer, MultiHeadAttention):
            factor = math.sqrt(layer.head_dim)
            layer.w_q.register_forward_hook(lambda _m, _x, query, by=factor: query * by)


def log_name(path: Path | None) -> Path | None:
    """The same; BadParameter where a monitor would write no such file."""
    if path is not None and path.suffix not in (".regard", ".csv"):
        raise typer.BadParameter(f"{path}: give a name that ends in .regard or .csv")
    return path


def train(model: nn.Module, losses: Losses, plan: Plan, status: Console) -> list[Reading]:
    """Train, from the checkpoint on where there is one; what was measured before the first step,
    every so many steps, and after the last."""
    torch.manual_seed(plan.seed)  # dropout
    dice = torch.Generator().manual_seed(plan.seed)  # data
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    run = _Run(model, optimizer, dice, 0, [])
    if plan.checkpoint is not None and plan.checkpoint.exists():
        _resume(run, plan.checkpoint, plan.recipe)
        status.print(f"{plan.checkpoint.name}: going on after step {run.step} of {plan.steps}")
    else:
        run.readings.append(measure(model, losses, 0))
    monitor = _monitor(run, plan, status)
    with _bar(plan.steps, run.step, status) as (bar, line):
        while run.step < plan.steps:
            with monitor or nullcontext():  # not while measuring, which runs the model too
                for loss in _interval(run, losses, plan, monitor):
                    bar.update(line, advance=1, description=f"loss {loss:.3f}")
            run.readings.append(measure(model, losses, run.step))
            if plan.checkpoint is not None:
                _save(run, plan.checkpoint, plan.recipe)
    model.eval()
    return run.readings


def _monitor(run: _Run, plan: Plan, status: Console) -> Monitor | None:
    """Hears every step, from the one on that a checkpoint was kept at."""
    if plan.log is None:
        return None
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    say = lambda alarm: status.print(str(alarm), highlight=False)  # noqa: E731
    return Monitor(run.model, log=plan.log, start=run.step, on_alarm=say)


def _interval(run: _Run, losses: Losses, plan: Plan, monitor: Monitor | None) -> Iterator[float]:
    """The steps up to the next checkpoint; the loss of each."""
    end = min(run.step - run.step % plan.every + plan.every, plan.steps)
    while run.step < end:
        yield _take_step(run, losses, plan, monitor)


def _take_step(run: _Run, losses: Losses, plan: Plan, monitor: Monitor | None) -> float:
    run.model.train()
    for group in run.optimizer.param_groups:
        group["lr"] = plan.rate * _share(run.step, plan.steps)
    loss = losses(run.dice).mean()
    run.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if monitor is not None:
        monitor.step(loss=loss)
    nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.optimizer.step()
    run.step += 1
    return loss.item()


def _share(step: int, steps: int) -> float:
    """Of the highest learning rate: a short rise, then half a cosine down."""
    return min((step + 1) / WARM_UP, 1.0) * (1 + math.cos(math.pi * step / steps)) / 2


def _save(run: _Run, path: Path, recipe: Recipe) -> None:
    held = {
        "step": run.step,
        "recipe": dict(recipe),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "data_dice": run.dice.get_state(),
        "dropout_dice": torch.get_rng_state(),
        "readings": [tuple(reading) for reading in run.readings],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as stream:
        torch.save(held, stream)
        stream.flush()
        os.fsync(stream.fileno())  # whole on the disk before it gets its name
    unfinished.replace(path)


def _resume(run: _Run, path: Path, recipe: Recipe) -> None:
    held = _read(path)
    given = dict(recipe)
    other = [
        f"{name}={held['recipe'].get(name)!r}, not {given.get(name)!r}"
        for name in {**held["recipe"], **given}
        if held["recipe"].get(name) != given.get(name)
    ]
    if other:
        raise typer.BadParameter(
            f"{path} was made with {', '.join(other)}; give the same options, or another file"
        )
    run.model.load_state_dict(held["model"])
    run.optimizer.load_state_dict(held["optimizer"])
    run.dice.set_state(held["data_dice"])
    torch.set_rng_state(held["dropout_dice"])
    run.step, run.readings = held["step"], [Reading(*numbers) for numbers in held["readings"]]


def _read(path: Path) -> dict[str, Any]:
    try:
        held = torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise typer.BadParameter(f"{path} is no checkpoint ({error})") from error
    if not isinstance(held, dict) or "recipe" not in held:
        raise typer.BadParameter(f"{path} is no checkpoint of this example; give another name")
    return held


@contextmanager
def _bar(steps: int, done: int, status: Console) -> Iterator[tuple[Progress, TaskID]]:
    """A bar where somebody watches it."""
    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    )  # fmt: skip
    silent = not status.file.isatty()
    with Progress(*columns, console=status, transient=True, disable=silent) as bar:
        yield bar, bar.add_task("", total=steps, completed=done)
