"""The documents of a padded batch, measured and written together.

A short document is little work, and a batch holds many: steps that are taken for each document in
each layer cost more than the model's forward. So the numbers of all documents lie in one array per
statistic, document after document, and one frame of the file holds a layer of them all.

Shapes: E documents, H recorded heads, K key heads; n rows and m keys of each document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.declare import is_portable
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import unheard
from regard.hear.inputs import shared_mask
from regard.recorder.background_writer import bring, send
from regard.recorder.call_slice import CallPlan, CallSlice
from regard.recorder.layer_writer import Rules, SliceNumbers
from regard.recorder.measure import Measured, measured
from regard.recorder.plan import Plan
from regard.recorder.reduce import (
    first_weights,
    prompt_rules,
    rules_of,
    totals,
    words_of,
)
from regard.recording.format.write import Series
from regard.recording.schema import tensor_name
from regard.shapes import AttentionShape

_Array = NDArray[Any]
_Shapes: TypeAlias = list[tuple[int, ...]]
_JOINED = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class BatchLayout:
    """Where each document's numbers lie in the tensors of a call, (E, heads, …), and what shapes
    they have in a recording. The same for every layer of a forward."""

    def __init__(
        self, slices: Sequence[CallSlice], shape: AttentionShape, cell: int, device: torch.device
    ) -> None:
        self.rows, self.keys = [len(s.rows) for s in slices], [len(s.keys) for s in slices]
        self.heads, self.key_heads = len(slices[0].heads), shape.key_heads
        self._own = np.array(slices[0].heads)  # of `_total`
        self._total, self._shape, self._cell, self._device = shape.query_heads, shape, cell, device
        self.row_starts = _starts(self.rows, self.heads)

    @cached_property
    def per_row(self) -> Tensor:
        """(Σ H·n,) of (E, H, L): document, head, row."""
        return self._sent(self._places(self.rows, self._shape.queries, self._own, self._total))

    @cached_property
    def per_key(self) -> Tensor:
        """(Σ H·m,) of (E, H, S)."""
        return self._sent(self._places(self.keys, self._shape.keys, self._own, self._total))

    @cached_property
    def per_own_key(self) -> Tensor:
        """(Σ K·m,) of (E, K, S)."""
        every = np.arange(self.key_heads)
        return self._sent(self._places(self.keys, self._shape.keys, every, self.key_heads))

    @cached_property
    def per_distance(self) -> Tensor:
        """(Σ H·(n + m − 1),) of (E, H, L + S − 1): by growing distance, from 1 − m to n − 1. In the
        call, entry e has distance L − 1 − e."""
        length, last = self._shape.queries + self._shape.keys - 1, self._shape.queries - 1
        spans = [last - np.arange(1 - m, n) for n, m in zip(self.rows, self.keys, strict=True)]
        return self._sent(_spread(spans, length, self._own, self._total))

    @cached_property
    def per_cell(self) -> Tensor:
        """(Σ H·R·C,) of (E, H, ⌈L/cell⌉, ⌈S/cell⌉)."""
        tall, wide = (-(-n // self._cell) for n in (self._shape.queries, self._shape.keys))
        spans = [
            (np.arange(r)[:, None] * wide + np.arange(c)).ravel() for _, r, c in self.pooled_shapes
        ]
        return self._sent(_spread(spans, tall * wide, self._own, self._total))

    @cached_property
    def edges(self) -> _Array:
        """(Σ n + m,): of the distances, document after document."""
        pairs = zip(self.rows, self.keys, strict=True)
        return np.concatenate([np.arange(1 - m, n + 1, dtype=np.int32) for n, m in pairs])

    @cached_property
    def pooled_shapes(self) -> _Shapes:
        """(H, R, C) of each."""
        sides = [[-(-n // self._cell) for n in counts] for counts in (self.rows, self.keys)]
        return [(self.heads, r, c) for r, c in zip(*sides, strict=True)]

    def shapes(self, what: str, inner: tuple[int, ...] = ()) -> _Shapes:
        """Of a tensor of each document, as CONTENTS.md has them."""
        if what == "pooled":
            return self.pooled_shapes
        if what in ("k", "value_norm"):
            return [(self.key_heads, m, *inner) for m in self.keys]
        if what == "received":
            return [(self.heads, m) for m in self.keys]
        if what == "totals":
            return [(self.heads, *inner)] * len(self.rows)
        if what.startswith("offset"):
            counts = [n + m for n, m in zip(self.rows, self.keys, strict=True)]
            edges = what == "offset_edges"
            return [(count,) if edges else (self.heads, count - 1) for count in counts]
        return [(self.heads, n, *inner) for n in self.rows]

    def _places(self, counts: list[int], length: int, heads: _Array, total: int) -> _Array:
        return _spread([np.arange(count) for count in counts], length, heads, total)

    def _sent(self, index: _Array) -> Tensor:
        return send(torch.from_numpy(index), self._device)


def _spread(spans: Sequence[_Array], length: int, heads: _Array, total: int) -> _Array:
    """Places of (E, total, length), flattened: of document e those in spans[e], for each head."""
    parts = [((e * total + heads)[:, None] * length + span).ravel() for e, span in enumerate(spans)]
    return np.concatenate(parts)


def _starts(counts: Sequence[int], heads: int) -> _Array:
    """(E·H,): where each document's heads begin among Σ H·n rows."""
    return np.cumsum([0, *np.repeat(counts, heads)[:-1]])


@dataclass(frozen=True, kw_only=True)
class BatchNumbers:
    """One layer of all documents. Arrays are flat in documents, heads and rows (keys, …)."""

    layout: BatchLayout
    arrays: dict[str, _Array]  # by what, as a recording names it
    stacked: tuple[tuple[str, ...], _Array]  # names, and (names, Σ H·n): one number a row
    totals: tuple[tuple[str, ...], _Array]  # names, and (E, H, names)
    kinds: dict[str, str | None]  # the format's names of the dtypes of q and k
    rules: list[Rules]

    def series(self, prompts: Sequence[int], label: str) -> list[Series]:
        """Everything, under its names in a recording."""

        def named(what: str) -> list[str]:
            start = None if what in _WITHOUT_START else 0
            return [tensor_name(number, label, what, start) for number in prompts]

        layout, (names, rows) = self.layout, self.stacked
        many = [
            Series(
                [name for what in names for name in named(what)],
                layout.shapes("rows") * len(names),
                rows,
            ),
            Series(named("offset_edges"), layout.shapes("offset_edges"), layout.edges),
            Series(
                named("totals"), layout.shapes("totals", (len(self.totals[0]),)), self.totals[1]
            ),
        ]
        return many + [
            Series(named(what), layout.shapes(what, array.shape[1:]), array, self.kinds.get(what))
            for what, array in self.arrays.items()
        ]

    def facts(self) -> dict[str, str]:
        """What is said of the totals."""
        return {"names": json.dumps(self.totals[0])}

    def page(self, number: int) -> SliceNumbers:
        """One document's numbers, as if it had been measured alone."""
        layout, (names, rows) = self.layout, self.stacked

        def part(what: str, array: _Array) -> _Array:
            inner = array.shape[1:]
            shapes = layout.shapes(what, inner)
            width = int(np.prod(inner, dtype=int))
            first = sum(int(np.prod(one)) for one in shapes[:number]) // width
            count = int(np.prod(shapes[number])) // width
            return array[first : first + count].reshape(shapes[number])

        own = {what: part(what, array) for what, array in self.arrays.items()}
        n = layout.rows[number]
        return SliceNumbers(
            count=n,
            row_start=0,
            key_start=0,
            bins={name: part("rows", one) for name, one in zip(names, rows, strict=True)}
            | {name: own[name] for name in ("top_weights", "top_keys")},
            rows={},
            totals=dict(zip(self.totals[0], self.totals[1][number].T, strict=True)),
            received=own["received"],
            offsets=own["offsets"][:, ::-1],  # a call has them by growing key
            offset_shift=n - 1,
            pooled=own["pooled"],
            value_norm=own["value_norm"],
            words={name: (own[name], kind) for name, kind in self.kinds.items()},
            rules=self.rules[number],
        )


_WITHOUT_START = ("received", "offsets", "offset_edges", "pooled", "totals")


def batched(
    attention: Attention, output: Tensor, value: Tensor, decided: CallPlan, known: dict[Any, Any]
) -> Callable[[], BatchNumbers]:
    """The numbers of all documents of a call, once they are on the host. `known` is kept while the
    tokens stay the same."""
    call, plan, slices = attention._call, decided.plan, decided.slices
    device = call.query.device
    where = (BatchLayout, call.shape, plan.pool_cell, slices[0].heads, device)
    sizes = tuple((len(part.rows), len(part.keys)) for part in slices)
    if (where, sizes) not in known:
        known[where, sizes] = BatchLayout(slices, call.shape, plan.pool_cell, device)
    layout: BatchLayout = known[where, sizes]
    with unheard(), torch.no_grad():
        numbers = measured(attention, decided.measures, output, value)
        kept = numbers.rows | {"first": first_weights(attention, numbers, slices)}
        rows = kept | {
            "normalized": numbers.normalized,
            "visible": numbers.visible.expand_as(numbers.normalized).float(),
        }
        stacked = torch.stack(list(rows.values())).flatten(1).index_select(1, layout.per_row)
        coming = bring({"rows": stacked} | _picked(call, numbers, layout, slices[0].exact))
    rules = _rules(call, slices, (where, sizes), known)
    kinds = {"q": words_of(call.query)[1], "k": words_of(call.key)[1]} if slices[0].exact else {}

    def arrived() -> BatchNumbers:  # holds no tensor of a GPU
        arrays = coming()
        stack = arrays.pop("rows")
        return BatchNumbers(
            layout=layout,
            arrays=arrays,
            stacked=(tuple(numbers_named), stack[: len(numbers_named)]),
            totals=_totals(dict(zip(rows_named, stack, strict=True)), layout, plan),
            kinds=kinds,
            rules=rules,
        )

    rows_named, numbers_named = list(rows), list(kept)
    return arrived


def _picked(call: Call, numbers: Measured, layout: BatchLayout, exact: bool) -> dict[str, Tensor]:
    """What a recording keeps besides one number a row, document after document."""
    wanted = {
        "top_weights": (numbers.top_weights, layout.per_row),
        "top_keys": (numbers.top_keys, layout.per_row),
        "received": (numbers.received, layout.per_key),
        "offsets": (numbers.offsets, layout.per_distance),
        "pooled": (numbers.pooled, layout.per_cell),
        "value_norm": (numbers.value_norm, layout.per_own_key),
    }
    if exact:
        wanted["q"] = words_of(call.query)[0], layout.per_row
        wanted["k"] = words_of(call.key)[0], layout.per_own_key
    inner = {"top_weights": 1, "top_keys": 1, "q": 1, "k": 1}  # axes behind what is picked from
    found = {}
    for what, (tensor, index) in wanted.items():
        assert tensor is not None
        kept = tensor.shape[tensor.ndim - inner.get(what, 0) :]
        found[what] = tensor.reshape(-1, *kept).index_select(0, index)
    return found


def _totals(
    rows: dict[str, _Array], layout: BatchLayout, plan: Plan
) -> tuple[tuple[str, ...], _Array]:
    """Names, and (E, H, names): each document's rows, joined as the plan says."""

    def over(numbers: Tensor, join: str) -> Tensor:
        wide = numbers.numpy().astype(np.float64)
        return torch.from_numpy(_JOINED[join].reduceat(wide, layout.row_starts, axis=1))

    given = {name: torch.from_numpy(array) for name, array in rows.items()}
    normalized, visible = given.pop("normalized"), given.pop("visible")
    names, sums = totals(given, normalized, visible, plan, over)
    return names, sums.numpy().reshape(len(layout.rows), layout.heads, -1)


def _rules(
    call: Call, slices: Sequence[CallSlice], where: Any, known: dict[Any, Any]
) -> list[Rules]:
    """Of each document; found once where padding is all that tells them apart."""
    rows, keys = [part.rows for part in slices], [part.keys for part in slices]
    mask, is_shared = shared_mask(call.mask, call.shape.extent, rows, keys)
    bias = call.score.bias
    is_function = bias is not None and not is_portable(bias)
    if not is_shared or is_function or any(True for _ in call.score.arrays()):
        return [prompt_rules(call, part, 0) for part in slices]
    key = (Rules, mask, call.score.scale, call.score.softcap, slices[0].kind, where)
    if key not in known:
        known[key] = [rules_of(mask, call.score, call, part, 0) for part in slices]
    found: list[Rules] = known[key]
    return found
