"""What running a file showed: one value that travels from the child process as npz and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.learn.programs.recipe import Array


@dataclass
class Call:
    """One call: what it was given, and what came back or was raised."""

    group: str  # plain, rectangular, mask, causal, whole
    inputs: dict[str, Array]  # x, or q, k and v
    outs: list[Array] = field(default_factory=list)
    error: str = ""
    line: int = 0  # of the student's file, where it was raised
    keep: Array | None = None  # (N, N) or with a batch in front
    form: str = ""  # of the mask


@dataclass
class Observation:
    """The file's entry, its weights, its calls, and what else was noticed."""

    entry: str = ""
    signature: str = ""
    kind: str = ""  # function, module, class
    problem: str = ""  # why nothing could be called
    failed: bool = False  # the problem is the code's, not one of finding what to call
    heads: int = 1
    splits: bool = False  # heads are split inside
    owned: bool = False  # the weights are the object's own
    named: bool = True  # their names say which is which
    free: bool = False  # raw parameters: either orientation
    causal: bool = False  # the source says so
    dropout: bool = False  # the source has one
    differs: bool = False  # two equal calls gave different outputs
    leaks: bool = False  # entries of a batch influence one another
    tokens_first: bool = False  # it was given (tokens, batch, width); the calls here are turned
    square: Observation | None = None  # the same code, all widths equal, where it may expect that
    overflows: bool = False
    changed: list[str] = field(default_factory=list)  # inputs changed in place
    convention: str = ""  # of the mask, where the source says it
    weights: dict[str, Array] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    trace: list[tuple[int, str, Array]] = field(default_factory=list)  # line, name, value


def save(seen: Observation, out: Path) -> None:
    """Write it as OUT.npz and OUT.json."""
    arrays: dict[str, Array] = {f"w/{name}": value for name, value in seen.weights.items()}
    document: dict[str, Any] = {
        name: value
        for name, value in vars(seen).items()
        if name not in ("weights", "calls", "trace", "square")
    }
    document["calls"] = [_packed(call, at, arrays) for at, call in enumerate(seen.calls)]
    document["trace"] = [(line, name) for line, name, _ in seen.trace]
    arrays |= {f"t/{at}": value for at, (_, _, value) in enumerate(seen.trace)}
    np.savez(out.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    if seen.square:
        save(seen.square, _square(out))
    out.with_suffix(".json").write_text(json.dumps(document))


def _packed(call: Call, at: int, arrays: dict[str, Array]) -> dict[str, Any]:
    for name, value in call.inputs.items():
        arrays[f"i/{at}/{name}"] = value
    for number, value in enumerate(call.outs):
        arrays[f"o/{at}/{number}"] = value
    if call.keep is not None:
        arrays[f"m/{at}"] = call.keep
    row = asdict(Call(call.group, {}, [], call.error, call.line, None, call.form))
    return row | {"inputs": list(call.inputs), "outs": len(call.outs)}


def load(out: Path) -> Observation:
    """Read what `save` wrote."""
    document = json.loads(out.with_suffix(".json").read_text())
    with np.load(out.with_suffix(".npz"), allow_pickle=False) as arrays:
        calls = [_unpacked(row, at, arrays) for at, row in enumerate(document.pop("calls"))]
        trace = [(ln, name, arrays[f"t/{i}"]) for i, (ln, name) in enumerate(document.pop("trace"))]
        weights = {name[2:]: arrays[name] for name in arrays.files if name.startswith("w/")}
    square = load(_square(out)) if _square(out).with_suffix(".json").exists() else None
    return Observation(**document, weights=weights, calls=calls, trace=trace, square=square)


def _square(out: Path) -> Path:
    return out.with_name(f"{out.name}-square")


def _unpacked(row: dict[str, Any], at: int, arrays: Any) -> Call:
    inputs = {name: arrays[f"i/{at}/{name}"] for name in row["inputs"]}
    outs = [arrays[f"o/{at}/{number}"] for number in range(row["outs"])]
    keep = arrays[f"m/{at}"] if f"m/{at}" in arrays.files else None
    return Call(row["group"], inputs, outs, row["error"], row["line"], keep, row["form"])
