"""Long recordings for measuring: statistics and maps of every head, q and k of one layer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.declare import encode
from regard.mask import Causal
from regard.recording.measures import KINDS, TOTALS
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

_Array = npt.NDArray[Any]

_TOP, _DIM, _PIECE = 8, 64, 4096
_KINDS = ("previous", "sink", "duplicate", "self", "even")


def write_large(
    store: Any,
    tokens: int,
    layers: int = 12,
    heads: int = 12,
    *,
    exact_layer: int | None = 0,
    row_bin: int = 1,
) -> None:
    """A causal model on one text, with heads of a few kinds; made, not computed."""
    dice = np.random.default_rng(0)
    ids = dice.zipf(1.3, tokens).clip(max=20_000).astype(np.int32)
    store.note({"contents": CONTENTS, "model": json.dumps({"name": "synthetic"})})
    _write_tokens(store, ids)
    for layer in range(layers):
        _write_layer(store, layer, heads, ids, layer == exact_layer, row_bin, dice)
    note = Prompt(tokens, title="a long text", finished=True)
    store.note({f"{PROMPT_NOTE}0": note.to_json()})


def _write_tokens(store: Any, ids: _Array) -> None:
    for start in range(0, ids.size, _PIECE):
        part = ids[start : start + _PIECE]
        text = json.dumps([f" w{n}" if n > 1 else "." for n in part.tolist()]).encode()
        store.add(tensor_name(0, "tokens", "ids", start), part)
        store.add(tensor_name(0, "tokens", "text", start), np.frombuffer(text, np.uint8))
        store.add(tensor_name(0, "tokens", "flags", start), (part == 1).astype(np.uint8))


def _write_layer(
    store: Any, layer: int, heads: int, ids: _Array, exact: bool, row_bin: int, dice: Any
) -> None:
    n = ids.size
    segment = Segment((0, n), (0, n), encode(Causal()), encode(ScoreRule(_DIM**-0.5)))
    place = Place(
        name="model", stack="", layer=layer, kind="self", heads=tuple(range(heads)),
        total_heads=heads, key_heads=heads, dim=_DIM, value_dim=_DIM, rows=(0, n), queries=n,
        keys=n, segments=(segment,), exact=exact, why_not="" if exact else "it did not fit",
        row_bin=row_bin, top_every=row_bin, pool_cell=_cell(n),
    )  # fmt: skip
    store.note({f"{PLACE_NOTE}0/L{layer}": place.to_json()})
    made = [_head(_KINDS[(layer + h) % len(_KINDS)], ids, dice) for h in range(heads)]
    for name in made[0]:
        whole = np.stack([one[name] for one in made])
        if name in ("received", "offsets", "pooled"):
            store.add(tensor_name(0, f"L{layer}", name), whole)
            continue
        if name == "totals":
            facts = {"names": json.dumps(TOTALS)}
            store.add(tensor_name(0, f"L{layer}", name), whole, facts)
            continue
        _write_rows(store, layer, name, whole, row_bin)
    store.add(tensor_name(0, f"L{layer}", "offset_edges"), np.arange(n + 1, dtype=np.int32))
    if exact:
        for what in ("q", "k"):
            words = dice.standard_normal((heads, n, _DIM), np.float32)
            _write_rows(store, layer, what, words, 1)


def _write_rows(store: Any, layer: int, name: str, whole: _Array, row_bin: int) -> None:
    """A bin holds its first row here, as often as it has rows: it reads as fast as their sum."""
    times = row_bin if name in KINDS and KINDS[name].is_sum else 1
    for start in range(0, whole.shape[1], _PIECE):
        part = whole[:, start : start + _PIECE][:, ::row_bin] * whole.dtype.type(times)
        store.add(tensor_name(0, f"L{layer}", name, start), np.ascontiguousarray(part))


def _head(kind: str, ids: _Array, dice: Any) -> dict[str, _Array]:
    """What is stored of one head: eight keys hold all of its mass."""
    n = ids.size
    rows = np.arange(n)
    keys = (dice.random((n, _TOP)) * (rows + 1)[:, None]).astype(np.int32)
    first = {"previous": rows - 1, "self": rows, "duplicate": _last_copy(ids)}
    heavy = 1 / _TOP if kind == "even" else 0.8
    keys[:, 0] = np.maximum(first.get(kind, np.zeros(n)), 0) if kind != "even" else keys[:, 0]
    weights = np.full((n, _TOP), (1 - heavy) / (_TOP - 1), np.float32)
    weights[:, 0] = heavy
    same = (ids[keys] == ids[:, None]) & (keys < rows[:, None])
    after = (ids[np.maximum(keys - 1, 0)] == ids[:, None]) & (keys < rows[:, None]) & (keys > 0)
    numbers = {
        "entropy": -(weights * np.log(weights)).sum(-1),
        "max_score": dice.random(n) * 20,
        "peak": weights[:, 0],
        "concentration": (weights**2).sum(-1),
        "first": (weights * (keys == 0)).sum(-1),
        "duplicate": (weights * same).sum(-1),
        "prefix": (weights * after).sum(-1),
        "output_norm": dice.random(n) + 0.5,
    }
    far = np.bincount((rows[:, None] - keys).reshape(-1), weights.reshape(-1), n)
    got = np.bincount(keys.reshape(-1), weights.reshape(-1), n)
    sums = numbers | {
        "rows": np.ones(n),
        "normalized_entropy": numbers["entropy"] / np.log(np.maximum(rows + 1, 2)),
        "normalized_rows": rows > 0,
        "sharp": weights[:, 0] > 0.99,
    }
    totals = [sums[name].max() if name == "max_score" else sums[name].sum() for name in TOTALS]
    return {name: one.astype(np.float32) for name, one in numbers.items()} | {
        "top_weights": weights, "top_keys": keys, "received": got.astype(np.float32),
        "offsets": far.astype(np.float32), "totals": np.array(totals, np.float64),
        "pooled": _pooled(keys, weights),
    }  # fmt: skip


def _cell(tokens: int) -> int:
    """Tokens a cell of the map: at most 512 cells a side."""
    return max(16, -(-tokens // 512))


def _pooled(keys: _Array, weights: _Array) -> _Array:
    """(cells, cells): the mass in each."""
    n = len(keys)
    cell = _cell(n)
    starts = np.arange(0, n, cell)
    slots = (np.arange(n)[:, None] // cell) * starts.size + keys // cell
    sums = np.bincount(slots.reshape(-1), weights.reshape(-1), starts.size**2)
    return sums.reshape(starts.size, -1).astype(np.float32)


def _last_copy(ids: _Array) -> _Array:
    """The row's last earlier copy; key 0 where there is none."""
    order = np.argsort(ids, kind="stable")
    found = np.zeros(ids.size, np.int64)
    again = ids[order[1:]] == ids[order[:-1]]
    found[order[1:][again]] = order[:-1][again]
    return found
