"""How well attention can learn, measured while it does: how sharply rows look, and what reaches
their queries.

A row is one query of one head. All rows of all attention layers of a model are taken together,
but for those that have no choice (one key to see) and those that nothing is learnt from (padding).

    entropy          mean over the rows, as a share of the largest possible: 1 is an even look
    concentration    mean Σp²; 1 is a look at a single key
    saturated        share of rows whose heaviest weight is above 0.99
    gradient_median  of ‖∂L/∂q‖, where L is the sum of the losses of all tokens of the batch
    gradient_p99     the 99th percentile. A single norm over all rows would be ruled by a few
    passed_median    of ‖∂L/∂q‖ ÷ ‖∂L/∂(row's output)‖: how much of what reaches the row goes on
    dead             share of rows where that is below a thousandth

The ratio is there because losses fall while a model learns, and all gradients with them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from rich.table import Table
from torch import Tensor, nn

from regard import Attention
from regard.nn import MultiHeadAttention
from regard.statistics import Visible

__all__ = [
    "Losses",
    "Reading",
    "Runs",
    "health_table",
    "look_everywhere",
    "measure",
    "read_readings",
    "write_readings",
]

SATURATED = 0.99
DEAD = 1e-3
PROBE_SEED = 12345  # the same batch each time

# The loss (tokens,) of each token of a batch that the dice choose.
Losses: TypeAlias = Callable[[torch.Generator], Tensor]

# By what is learnt, and whether scores are divided by √d_k.
Runs: TypeAlias = Mapping[tuple[str, bool], Sequence["Reading"]]


class Reading(NamedTuple):
    """One measurement; see above."""

    step: int
    loss: float  # mean over the tokens
    entropy: float
    concentration: float
    saturated: float
    gradient_median: float
    gradient_p99: float
    passed_median: float
    dead: float


class _Seen(NamedTuple):
    """One layer during one forward."""

    given: tuple[tuple[Any, ...], dict[str, Any]]  # what it was called with
    query: Tensor  # (…, tokens, heads × d_k), before anything is done to it
    output: Tensor  # (…, tokens, heads × d_v), before w_o


def measure(model: nn.Module, losses: Losses, step: int) -> Reading:
    """All rows of the model over one batch, without dropout; gradients are cleared afterwards."""
    model.eval()
    with _watched(model) as seen:
        found = losses(torch.Generator().manual_seed(PROBE_SEED))
        found.sum().backward()  # type: ignore[no-untyped-call]
    columns = [_rows(layer, one) for layer, one in seen.items()]
    entropy, concentration, peak, gradient, passed = torch.cat(columns, dim=-1)
    model.zero_grad()
    return Reading(
        step,
        found.mean().item(),
        entropy.mean().item(),
        concentration.mean().item(),
        (peak > SATURATED).double().mean().item(),
        gradient.median().item(),
        gradient.quantile(0.99).item(),
        passed.median().item(),
        (passed < DEAD).double().mean().item(),
    )


def look_everywhere(
    model: nn.Module, forward: Callable[[], object]
) -> dict[MultiHeadAttention, Attention]:
    """Where each layer looks while `forward` runs the model."""
    with _watched(model) as seen, torch.no_grad():
        forward()
    return {layer: _look(layer, one) for layer, one in seen.items()}


@contextmanager
def _watched(model: nn.Module) -> Iterator[dict[MultiHeadAttention, _Seen]]:
    """What each attention layer is called with and gives; filled by a forward in the block."""
    seen: dict[MultiHeadAttention, _Seen] = {}
    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, MultiHeadAttention):
                for handle in _listen(layer, seen):
                    stack.callback(handle.remove)
        yield seen


def _listen(layer: MultiHeadAttention, seen: dict[MultiHeadAttention, _Seen]) -> list[Any]:
    parts: dict[str, Any] = {}

    def called(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        parts["given"] = args, options

    def projected(_: nn.Module, __: object, query: Tensor) -> None:
        parts["query"] = _kept(query)

    def mixed(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen[layer] = _Seen(parts["given"], parts["query"], _kept(args[0]))

    return [
        layer.register_forward_pre_hook(called, with_kwargs=True),
        layer.w_q.register_forward_hook(projected, prepend=True),  # before it is made larger
        layer.w_o.register_forward_pre_hook(mixed),
    ]


def _kept(x: Tensor) -> Tensor:
    if x.requires_grad:
        x.retain_grad()
    return x


def _look(layer: MultiHeadAttention, seen: _Seen) -> Attention:
    args, options = seen.given
    with torch.no_grad():
        return layer.look(*args, **options)


def _rows(layer: MultiHeadAttention, seen: _Seen) -> Tensor:
    """(5, rows): entropy, Σp², heaviest weight, ‖∂L/∂q‖ and its ratio, of the rows that count."""
    look = _look(layer, seen)
    reached = _lengths(seen.output, layer.value_dim)
    gradient = _lengths(seen.query, layer.head_dim)
    visible = look.summarize(Visible())[Visible()].expand_as(gradient)
    counts = (visible > 1) & (reached > 0)
    columns = torch.stack(
        [
            look.entropy(normalized=True), look.concentration(), look.peak().weights, gradient,
            gradient / reached,
        ]
    )  # fmt: skip
    return columns[:, counts].double()


def _lengths(x: Tensor, width: int) -> Tensor:
    """(…, heads, tokens): the length of each row's gradient."""
    if x.grad is None:
        raise RuntimeError("no gradient came back to an attention layer")
    by_head = x.grad.view(*x.shape[:-1], -1, width)
    return by_head.norm(dim=-1).transpose(-1, -2)


def health_table(readings: Sequence[Reading]) -> Table:
    """The first reading, the last, and one in the middle."""
    names = ("step", "loss", "entropy", "Σp²", "saturated", "∂L/∂q median", "p99", "dead")
    table = Table(box=None)
    for name in names:
        table.add_column(name, justify="right")
    for n in sorted({0, len(readings) // 2, len(readings) - 1}):
        one = readings[n]
        table.add_row(
            str(one.step), f"{one.loss:.3f}", f"{one.entropy:.2f}", f"{one.concentration:.2f}",
            f"{one.saturated:.1%}", f"{one.gradient_median:.2g}", f"{one.gradient_p99:.2g}",
            f"{one.dead:.1%}",
        )  # fmt: skip
    return table


def write_readings(path: Path, runs: Runs) -> None:
    """A line per reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("task", "scaled", *Reading._fields))
        for (task, scaled), readings in runs.items():
            for one in readings:
                numbers = (f"{number:.6g}" for number in one)
                writer.writerow((task, "yes" if scaled else "no", *numbers))


def read_readings(path: Path) -> Runs:
    """What `write_readings` wrote."""
    runs: dict[tuple[str, bool], list[Reading]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            step, *numbers = (float(line[name]) for name in Reading._fields)
            found = runs.setdefault((line["task"], line["scaled"] == "yes"), [])
            found.append(Reading(int(step), *numbers))
    return runs
