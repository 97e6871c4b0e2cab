"""Recordings written by the page CONTENTS.md from random q, k, v, and the dense truth about them.

The truth is the definition (`regard/attention.py`), segment by segment, put together into one
(H, L, S) matrix; it is independent of everything under test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.attention import Steps
from regard.declare import encode
from regard.engine.backends.dense import attend_densely
from regard.mask import Mask
from regard.recording import Memory, Writer
from regard.recording.measures import ROW_NUMBERS
from regard.recording.schema import (
    CONTENTS,
    PLACE_NOTE,
    PROMPT_NOTE,
    Place,
    Prompt,
    Segment,
    tensor_name,
)
from regard.score import ScoreRule
from regard.shapes import AttentionShape
from regard.testing.budget import Yardstick


@dataclass(frozen=True, eq=False)
class Chunk:
    """One segment: rows against keys under a mask and a score rule of their own."""

    rows: tuple[int, int]
    keys: tuple[int, int]
    mask: Mask | None = None
    score: ScoreRule = field(default_factory=lambda: ScoreRule(0.25))


class DenseTruth(Yardstick):
    """The dense matrix of all heads in float64, and as eager loses it in float32."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, chunks: Sequence[Chunk]) -> None:
        wide = query.dtype if query.dtype == torch.float64 else torch.float32
        self.q, self.k, self.v, self.chunks = query.to(wide), key.to(wide), value.to(wide), chunks
        self.call = cast(Any, SimpleNamespace(query=self.q))
        self.shape = AttentionShape.of(query.shape, key.shape, value.shape)

    @cached_property
    def eager(self) -> Steps:
        if self.q.dtype != torch.float64:
            return self._steps(self.q.dtype)
        nudged = self.q * (1 + torch.finfo(torch.float64).eps)
        return DenseTruth(nudged, self.k, self.v, self.chunks)._steps(torch.float64)

    def _steps(self, precision: torch.dtype) -> Steps:
        heads, rows, keys = self.q.shape[0], self.q.shape[1], self.k.shape[1]
        cells = (heads, rows, keys)
        full = {
            "scaled": torch.zeros(cells, dtype=precision),
            "visible": torch.zeros(cells, dtype=torch.bool),
            "masked": torch.full(cells, -torch.inf, dtype=precision),
            "weights": torch.zeros(cells, dtype=precision),
            "lse": torch.full(cells[:2], -torch.inf, dtype=precision),
            "sink": torch.zeros(cells[:2], dtype=precision),
            "output": torch.zeros(*cells[:2], self.v.shape[-1], dtype=precision),
        }
        by_cell = ("scaled", "visible", "masked", "weights")  # not by shape: S may equal Dv
        for one in self.chunks:
            i, j = slice(*one.rows), slice(*one.keys)
            q, k, v = self.q[:, i], self.k[:, j], self.v[:, j]
            steps = attend_densely(q, k, v, one.mask, one.score, precision)
            for name, whole in full.items():
                part = getattr(steps, name)
                (whole[:, i, j] if name in by_cell else whole[:, i])[...] = part
        unused = torch.empty(0)
        names = ("queries", "keys", "values", "scores", "capped", "biased")
        return Steps(**dict.fromkeys(names, unused), **full, position=0)

    def weights(self) -> np.ndarray:
        """(H, L, S) float64."""
        return self.exact.weights.numpy()


@dataclass(frozen=True, eq=False)
class WrittenPlace:
    """What was written, and the truth about it."""

    place: Place
    truth: DenseTruth


def numpy_rule(given: Any) -> Any:
    """A mask or score rule with numpy arrays inside, as a recorder writes them."""
    return None if given is None else given.map(lambda array: np.asarray(array))


def write_recording(store: Any = None, **options: Any) -> tuple[Any, WrittenPlace]:
    """A recording of one place, in memory, or in a store or at a path if given; what holds it."""
    if isinstance(store, Path):
        with Writer(store) as writer:
            return store, write_recording(writer, **options)[1]
    store = Memory() if store is None else store
    store.note({"contents": CONTENTS, "model": json.dumps({"name": "synthetic"})})
    made = write_prompt(store, **options)
    return store, made


def write_prompt(
    store: Any,
    chunks: Sequence[Chunk],
    *,
    prompt: int = 0,
    heads: int = 4,
    key_heads: int = 2,
    dim: int = 16,
    dtype: torch.dtype = torch.float32,
    spread: float = 1.0,
    seed: int = 0,
    pieces: int = 70,
    statistics: bool = True,
    lse: bool = True,
    exact: bool = True,
    recorded: Sequence[int] | None = None,
    rows: tuple[int, int] | None = None,
    tokens: bool = True,
    note: bool = True,
    query: Tensor | None = None,
    key: Tensor | None = None,
    **fields: Any,
) -> WrittenPlace:
    """One prompt with one place; its rows are those of the chunks, its keys as many as needed."""
    queries = max(one.rows[1] for one in chunks)
    keys = max(one.keys[1] for one in chunks)
    dice = torch.Generator().manual_seed(seed)

    def draw(heads: int, count: int) -> Tensor:
        made = torch.randn(heads, count, dim, generator=dice, dtype=torch.float64)
        return made.to(dtype)

    q = draw(heads, queries) * spread if query is None else query
    k = draw(key_heads, keys) if key is None else key
    v = draw(key_heads, keys)
    truth = DenseTruth(q, k, v, chunks)
    place = _place(chunks, truth, recorded, rows, exact, fields)
    _write_rules(store, prompt, place, chunks)
    place = _named(prompt, place, chunks)
    if exact:
        _write_pieces(store, prompt, place, "q", q[list(place.heads)], place.rows, pieces)
        _write_pieces(store, prompt, place, "k", k, (0, keys), pieces)
    if lse or statistics:
        numbers = _row_numbers(truth, place)
        for name in ROW_NUMBERS if statistics else ("lse",):
            if name in numbers and (name != "lse" or lse):
                wide = np.float64 if name == "lse" and dtype == torch.float64 else np.float32
                numbers[name] = numbers[name].astype(wide)
                size = 1 if name == "lse" else place.row_bin
                how = np.max if name == "max_score" else np.sum
                _write_bins(store, prompt, place, name, numbers[name], size, how, pieces)
    if statistics:
        _write_sums(store, prompt, place, truth)
    if tokens:
        _write_tokens(store, prompt, max(queries, keys), pieces)
    store.note({f"{PLACE_NOTE}{prompt}/{place.label}": place.to_json()})
    if note:
        streams = ("tokens",) if tokens else ()
        said = Prompt(max(queries, keys), streams=streams, title="a text", finished=True)
        store.note({f"{PROMPT_NOTE}{prompt}": said.to_json()})
    return WrittenPlace(place, truth)


def _place(
    chunks: Sequence[Chunk], truth: DenseTruth, recorded: Any, rows: Any, exact: bool, fields: Any
) -> Place:
    heads = truth.q.shape[0]
    segments = tuple(
        Segment(one.rows, one.keys, encode(numpy_rule(one.mask)), encode(one.score))
        for one in chunks
    )
    first = min(one.rows[0] for one in chunks)
    facts = {
        "name": "model.layers.0.attention", "stack": "", "layer": 0, "kind": "self",
        "heads": tuple(range(heads)) if recorded is None else tuple(recorded),
        "total_heads": heads, "key_heads": truth.k.shape[0], "dim": truth.q.shape[2],
        "value_dim": truth.v.shape[2], "rows": rows or (first, truth.q.shape[1]),
        "queries": truth.q.shape[1], "keys": truth.k.shape[1], "segments": segments,
        "exact": exact, "why_not": "" if exact else "it did not fit the budget of 1 kB",
        "pool_cell": 16,
    }  # fmt: skip
    return Place(**(facts | fields))


def _arrays(chunk: Chunk) -> list[np.ndarray]:
    held = [] if chunk.mask is None else list(chunk.mask.arrays())
    return [np.asarray(array) for array in (*held, *chunk.score.arrays())]


def _write_rules(store: Any, prompt: int, place: Place, chunks: Sequence[Chunk]) -> None:
    for n, one in enumerate(chunks):
        for m, array in enumerate(_arrays(one)):
            store.add(tensor_name(prompt, place.label, f"rule_{100 * n + m}"), array)


def _named(prompt: int, place: Place, chunks: Sequence[Chunk]) -> Place:
    """The place with its segments' arrays by name."""
    value = json.loads(place.to_json())
    for n, one in enumerate(chunks):
        names = [f"rule_{100 * n + m}" for m in range(len(_arrays(one)))]
        value["segments"][n]["arrays"] = [tensor_name(prompt, place.label, x) for x in names]
    return Place.from_json(json.dumps(value))


def _write_pieces(
    store: Any,
    prompt: int,
    place: Place,
    what: str,
    tensor: Tensor,
    span: tuple[int, int],
    size: int,
) -> None:
    for start in range(*span, size):
        part = tensor[:, start : min(start + size, span[1])].contiguous()
        name = tensor_name(prompt, place.label, what, start)
        if part.dtype == torch.bfloat16:
            store.add(name, part.view(torch.uint16).numpy(), dtype="BF16")
        else:
            store.add(name, part.numpy())


def _write_bins(
    store: Any, prompt: int, place: Place, what: str, numbers: Any, size: int, how: Any, pieces: int
) -> None:
    """(H, rows) in pieces of whole bins."""
    step = -(-pieces // size) * size
    for start in range(0, numbers.shape[1], step):
        part = numbers[:, start : start + step]
        bins = [
            how(part[:, at : at + size], axis=1, keepdims=True)
            for at in range(0, part.shape[1], size)
        ]
        name = tensor_name(prompt, place.label, what, start + place.rows[0])
        store.add(name, np.concatenate(bins, axis=1))


def _ids(count: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 12, count)


def _write_tokens(store: Any, prompt: int, count: int, pieces: int) -> None:
    ids = _ids(count)
    for start in range(0, count, pieces):
        part = ids[start : start + pieces]
        text = json.dumps([f" w{n}" if n else "." for n in part.tolist()]).encode()
        for what, array in (
            ("ids", part.astype(np.int32)),
            ("text", np.frombuffer(text, np.uint8)),
            ("flags", (part == 0).astype(np.uint8)),
        ):
            store.add(tensor_name(prompt, "tokens", what, start), array)


def _row_numbers(truth: DenseTruth, place: Place) -> dict[str, np.ndarray]:
    """(H, rows) of the recorded heads and rows."""
    rows, heads = slice(*place.rows), list(place.heads)
    p = truth.weights()[heads][:, rows]
    sink = truth.exact.sink.numpy()[heads][:, rows]
    scaled = np.where(truth.exact.visible.numpy(), truth.exact.scaled.numpy(), -np.inf)
    ids, own = _ids(max(p.shape[2], rows.stop)), np.arange(rows.start, rows.stop)
    j = np.arange(p.shape[2])
    earlier = j < own[:, None]
    copies = earlier & (ids[own][:, None] == ids[j])
    after = earlier & (j > 0) & (ids[own][:, None] == ids[np.maximum(j - 1, 0)])
    shares = np.concatenate([p, sink[..., None]], -1)
    return {
        "lse": truth.exact.lse.numpy()[heads][:, rows],
        "entropy": -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1),
        "max_score": scaled[heads][:, rows].max(-1, initial=-np.inf),
        "peak": p.max(-1, initial=0),
        "concentration": (p**2).sum(-1),
        "first": p[..., 0],
        "duplicate": (p * copies).sum(-1),
        "prefix": (p * after).sum(-1),
        "output_norm": np.linalg.norm(truth.exact.output.numpy()[heads][:, rows], axis=-1),
    }


def _write_sums(store: Any, prompt: int, place: Place, truth: DenseTruth) -> None:
    rows, heads = slice(*place.rows), list(place.heads)
    p = truth.weights()[heads].copy()
    p[:, : rows.start] = p[:, rows.stop :] = 0

    def add(what: str, array: np.ndarray, **facts: str) -> None:
        store.add(tensor_name(prompt, place.label, what), array, facts)

    received = np.add.reduceat(p.sum(1), np.arange(0, p.shape[2], place.key_bin), axis=1)
    add("received", received.astype(np.float32))
    queries, keys = p.shape[1:]
    distances = np.arange(1 - keys, queries)
    mass = np.stack([np.trace(p, -d, 1, 2) for d in distances.tolist()], 1)
    add("offsets", mass.astype(np.float32))
    add("offset_edges", np.append(distances, queries).astype(np.int32))
    cell = place.pool_cell
    down, across = np.arange(0, queries, cell), np.arange(0, keys, cell)
    sums = np.add.reduceat(np.add.reduceat(p, down, axis=1), across, axis=2)
    add("pooled", sums.astype(np.float32))
    top = np.argsort(-truth.exact.masked.numpy()[heads][:, rows], axis=-1, kind="stable")
    top = top[:, :: place.top_every, :8]
    weights = np.take_along_axis(p[:, rows][:, :: place.top_every], top, -1)
    visible = truth.exact.visible.numpy()[heads][:, rows][:, :: place.top_every]
    seen = np.take_along_axis(visible, top, -1)
    start = place.rows[0]
    for what, array in (
        ("top_weights", weights.astype(np.float32)),
        ("top_keys", np.where(seen, top, -1).astype(np.int32)),
    ):
        store.add(tensor_name(prompt, place.label, what, start), array)
    _write_totals(add, place, truth)


def _write_totals(add: Any, place: Place, truth: DenseTruth) -> None:
    numbers = _row_numbers(truth, place)
    visible = truth.exact.visible.numpy()[list(place.heads)][:, slice(*place.rows)].sum(-1)
    log = np.log(np.maximum(visible, 2))
    sums = {
        "rows": visible > 0,
        "normalized_entropy": np.where(visible > 1, numbers["entropy"] / log, 0),
        "normalized_rows": visible > 1,
        "sharp": numbers["peak"] > 0.99,
        **{name: numbers[name] for name in numbers if name not in ("lse", "max_score")},
    }
    columns = {name: one.sum(-1).astype(np.float64) for name, one in sums.items()}
    columns["max_score"] = numbers["max_score"].max(-1)
    add("totals", np.stack(list(columns.values()), 1), names=json.dumps(list(columns)))
