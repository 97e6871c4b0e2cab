"""A trial as lines of torch that anybody can run on `model`; where the inputs are too many to be
spelt out, on `batch` as well."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from regard.check.batch import GivenBatch
from regard.check.layers import MixingLayer
from regard.check.rules import LARGE, Mode, RunPair
from regard.check.runs import KeepDouble, Runner, arguments, cache_of, takes_names

_SPELT = 400  # numbers of a tensor
_KEEPING = (
    "from typing import Any", "import torch", "from torch import Tensor",
    "from torch.overrides import TorchFunctionMode", "",
)  # fmt: skip


def reproduction(
    runner: Runner, is_by_row: bool, trial: RunPair, keeps_double: bool = False
) -> str:
    """Prints how far rows move that must not, in shares of the largest entry."""
    (first, second), s = trial.runs, trial.sequence
    is_bare = first.batch.was_bare and _is_long(first.batch)
    bare = ['batch = {"input_ids": batch}'] if is_bare else []
    lines = [*_twin(runner), *bare, f"before = {_spelt(first.batch, runner)}"]
    call = f"twin({_stars(runner, first.batch)}batch){runner.pick}"
    if second.sizes:
        lines[0] += ", transformers" if "transformers" in runner.begins else ""
        lines += ["with torch.no_grad():", f"    x = twin({_stars(runner, first.batch)}before)"]
        lines[-1] += runner.pick
        lines += [f"    {line}" for line in _in_parts(runner, second.batch, second.sizes)]
    elif second.factors is not None:
        lines += [*_rows(call), "x = rows(before)", *_scaled(runner, trial), "y = rows(before)"]
    else:
        lines += [f"after = {_spelt(second.batch, runner)}"]
        lines += _assigned(trial) if trial.keeps_shape and _is_long(first.batch) else []
        lines += [*_rows(call), "x, y = rows(before), rows(after)"]
    other = min(s, len(trial.still[1]) - 1)
    here = there = f"{s}, {_slice([row for n, row in trial.rows if n == s])}"
    if not trial.keeps_shape:
        here, there = (f"{n}, {_slice(mask[n].nonzero().flatten().tolist())}"
                       for mask, n in zip(trial.still, (s, other), strict=True))  # fmt: skip
    if not is_by_row:
        here, there = str(s), str(other)
    size = f"x[x.abs() < {LARGE:g}].abs().max()"  # what is larger stands for -inf
    lines.append(f"print(float((x[{here}] - y[{there}]).abs().max() / {size}))")
    if keeps_double:
        lines = [*_KEEPING, *inspect.getsource(KeepDouble).splitlines(), "", *lines]
        lines = [line.replace("with torch.no_grad()", "with torch.no_grad(), KeepDouble()")
                 for line in lines]  # fmt: skip
    return "\n".join(lines)


def layer_reproduction(
    mode: Mode, batch: GivenBatch, layer: MixingLayer, key: int, row: int
) -> str:
    """Prints how far one row of a layer moves with one position of its input."""
    s, call = layer.sequence, f"twin({_stars(mode.runner, batch)}batch)"
    return "\n".join([
        *_twin(mode.runner), f"batch = {_spelt(batch, mode.runner)}",
        f'layer, rows = twin.get_submodule("{layer.name}"), []',
        "first = lambda x: x if isinstance(x, torch.Tensor) else first(x[0])",
        "layer.register_forward_hook(lambda module, args, x: rows.append(first(x)))",
        "def change(module, args, kwargs):",
        f"    first([*args, *kwargs.values()])[{s}, {key}] *= -2",
        "with torch.no_grad():",
        f"    {call}",
        "    layer.register_forward_pre_hook(change, with_kwargs=True)",
        f"    {call}",
        f"print(float((rows[0] - rows[1])[{s}, {row}].abs().max() / rows[0].abs().max()))",
    ])  # fmt: skip


def _twin(runner: Runner) -> list[str]:
    copied = f"copy.deepcopy(model){'.double()' if runner.exact else ''}"
    mode = "train" if runner.training else "eval"
    is_module = hasattr(runner.model, "parameters")
    lines = ["import copy, torch", "", f"twin = {copied}.{mode}()" if is_module else "twin = model"]
    return [*lines, *(f"twin.{name}" for name in runner.switched)]


def _stars(runner: Runner, batch: GivenBatch) -> str:
    return "**" if takes_names(runner.model, batch.given) else ""


def _rows(call: str) -> list[str]:
    lines = ["def rows(batch):", "    torch.manual_seed(0)", "    with torch.no_grad():"]
    return [*lines, f"        return {call}"]


def _in_parts(runner: Runner, text: GivenBatch, sizes: tuple[int, ...]) -> Iterator[str]:
    """The parts of a text on a cache."""
    name = cache_of(runner.model)
    yield f"cache, parts, at = {runner.begins}, [], 0"
    tokens = "before" if not text.key else f'before["{text.key}"]'
    length = sum(sizes)
    yield f"for part in {tokens}[:, :{length}].split({list(sizes)}, 1):"
    if not text.key:
        yield f"    output = twin(part, {name}=cache)"
    else:
        given = [f'**before, "{text.key}": part, "{name}": cache, "use_cache": True']
        if text.positions and not text.shows:
            given.append(f'"{text.positions}": torch.arange(at, at + part.shape[1])[None]')
        if text.mask_name and name != "cache_params":
            made = "zeros" if "padding" in text.mask_name else "ones"
            kind = "bool" if "padding" in text.mask_name else "long"
            shape = f"1, at + part.shape[1], dtype=torch.{kind}"
            given.append(f'"{text.mask_name}": torch.{made}({shape})')
        yield f"    output = twin(**{{{', '.join(given)}}})"
        yield "    at += part.shape[1]"
    if runner.hands != "cache":  # not the one that was given
        yield f"    cache = {runner.hands}"
    yield f"    parts.append(output{runner.pick})"
    yield "y = torch.cat(parts, 1)"


def _scaled(runner: Runner, trial: RunPair) -> Iterator[str]:
    """Other embeddings of the same tokens."""
    factors, real = trial.runs[1].factors, trial.runs[1].batch.real
    assert factors is not None
    yield "def change(module, args, x):"
    yield "    x = x.clone()"
    for s, start, stop in _runs(factors != 1):
        factor, donor = f"{float(factors[s, start]):g}", int(real[s].long().argmax())
        own = bool(real[s, start])
        yield f"    x[{s}, {start}:{stop}] " + (
            f"*= {factor}" if own else f"= {factor} * x[{s}, {donor}]"
        )
    yield "    return x"
    for name in runner.embeds:
        yield f'twin.get_submodule("{name}").register_forward_hook(change)'


def _assigned(trial: RunPair) -> Iterator[str]:
    """Other contents, where the tensor is too large to be spelt out."""
    key = trial.runs[0].batch.key
    entry = "after" if not key else f'after["{key}"]'
    assert trial.changed is not None
    for s, start, stop in _runs(trial.changed):
        yield f"{entry}[{s}, {start}:{stop}] = -{entry}[{s}, {start}:{stop}].roll(1, 0)"


def _is_long(batch: GivenBatch) -> bool:
    return not batch.are_ids or batch.tokens.numel() > _SPELT


def _spelt(batch: GivenBatch, runner: Runner) -> str:
    """What a model is given, as Python."""

    def entry(x: Any, name: str) -> str:
        if isinstance(x, Tensor) and not x.is_floating_point() and x.numel() <= _SPELT:
            device = "" if x.device.type == "cpu" else f', device="{x.device}"'
            return f"torch.tensor({x.tolist()}{device})"
        if isinstance(x, Tensor):
            is_double = runner.exact and x.is_floating_point()
            return f"{name}{'.double()' if is_double else ''}.clone()"
        return repr(x) if isinstance(x, int | float | str | bool | None) else name

    if not batch.key:
        return entry(batch.given, "batch")
    without = {"use_cache": False} if "use_cache" in arguments(runner.model) else {}
    given = {**batch.entries, **without}
    return "{" + ", ".join(f'"{n}": ' + entry(x, f'batch["{n}"]') for n, x in given.items()) + "}"


def _slice(places: list[int]) -> str:
    """Of positions: a slice where they lie side by side."""
    is_one = places == list(range(places[0], places[-1] + 1))
    return f"{places[0]}:{places[-1] + 1}" if is_one else str(places)


def _runs(mask: Tensor) -> Iterator[tuple[int, int, int]]:
    """(sequence, start, stop) of what lies side by side."""
    for s, row in enumerate(mask.tolist()):
        padded = [False, *row, False]
        edges = [n for n in range(len(row) + 1) if padded[n] != padded[n + 1]]
        yield from ((s, a, b) for a, b in zip(edges[::2], edges[1::2], strict=True))
