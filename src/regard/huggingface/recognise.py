"""transformers' mask functions → regard masks.

A mask function there is a predicate on (batch, head, query position, key position), put together
from a few known closures. Each known closure becomes the regard mask that means the same, so that
kernels see intervals; anything else stays a predicate, asked tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from transformers import masking_utils

from regard.huggingface.versions import build_mask
from regard.mask import Causal, Documents, Mask, Padding, Table, Window
from regard.mask.base import Part
from regard.mask.kinds import TileRule

MaskFunction: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Stand:
    """Where queries and keys stand: query i at position i + q_offset, key j at j + kv_offset."""

    batch: int
    queries: int
    keys: int
    q_offset: Any = 0  # a number, or while torch traces a tensor of one
    kv_offset: int = 0
    device: torch.device | str = "cpu"
    vmap: bool = False  # whether a strange function may be unable to broadcast

    @property
    def shift(self) -> int:
        """Query i stands at key i + shift."""
        return int(self.q_offset - self.kv_offset)

    def ask(
        self,
        function: MaskFunction,
        padding: Tensor | None = None,
        added_in: torch.dtype | None = None,
    ) -> Tensor:
        """(batch, 1, queries, keys): what transformers itself makes of the function, as booleans
        or as numbers of a dtype that are added to scores."""
        make = masking_utils.sdpa_mask if added_in is None else masking_utils.eager_mask
        return build_mask(
            make,
            self.queries,
            self.q_offset,
            self.device,
            batch_size=self.batch,
            kv_length=self.keys,
            kv_offset=self.kv_offset,
            mask_function=function,
            attention_mask=padding,
            allow_is_causal_skip=False,
            use_vmap=self.vmap,
            **({} if added_in is None else {"dtype": added_in}),
        )


class Recognised(NamedTuple):
    """What is known of a mask function."""

    mask: Mask | None  # None allows everything
    reach: int  # only keys j < reach may be seen by anybody
    causal: bool = False  # queries and keys are the same tokens, counted on one axis


def recognise(function: MaskFunction, at: Stand) -> Recognised:
    """The mask that means the same as the function."""
    if function is masking_utils.causal_mask_function:
        return _causal(at)
    if function is masking_utils.bidirectional_mask_function:
        return Recognised(None, at.keys)
    if torch.compiler.is_compiling():  # closures cannot be opened there
        return Recognised(Table(at.ask(function)), at.keys)
    factory, held = _origin(function)
    if factory in ("and_masks", "or_masks") and held["mask_functions"]:
        functions = held["mask_functions"]
        if factory == "and_masks" and _makers(functions) == _PACKED:
            functions = (functions[0], _within_sequences(functions[1]))
        parts = [recognise(part, at) for part in functions]
        return _all_of(parts) if factory == "and_masks" else _any_of(parts)
    if factory == "add_offsets_to_mask_function":
        moved = replace(
            at,
            q_offset=at.q_offset + held["q_offset"],
            kv_offset=at.kv_offset + held["kv_offset"],
        )
        return recognise(held["mask_function"], moved)
    return Recognised(_leaf(factory, held, function, at), at.keys)


# ── which closure it is ──────────────────────────────────────────────────────────────────────

# The functions that make mask functions, and what theirs hold on to. One that holds anything else
# comes from a version whose meaning is not known here.
_FACTORIES = {
    "and_masks": {"mask_functions"},
    "or_masks": {"mask_functions"},
    "add_offsets_to_mask_function": {"mask_function", "q_offset", "kv_offset"},
    "sliding_window_overlay": {"sliding_window"},
    "sliding_window_bidirectional_overlay": {"sliding_window"},
    "chunked_overlay": {"chunk_size", "left_padding"},
    "blockwise_overlay": {"block_sequence_ids"},
    "packed_sequence_mask_function": {"packed_sequence_mask"},
    "remap_positions_for_packed_sequence": {"mask_function", "position_ids"},
    "padding_mask_function": {"padding_mask"},
}


def _origin(function: MaskFunction) -> tuple[str, dict[str, Any]]:
    """(who made it, what it holds on to); ("", {}) for a function transformers did not make."""
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__module__", "") != masking_utils.__name__:
        return "", {}
    factory = str(getattr(function, "__qualname__", "")).partition(".")[0]
    cells = getattr(function, "__closure__", None) or ()
    held = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    return (factory, held) if _FACTORIES.get(factory) == set(held) else ("", {})


# ── sequences packed into one row ────────────────────────────────────────────────────────────

# Since transformers 5.23: same sequence, and the mask asked with positions counted inside it.
_PACKED = ["packed_sequence_mask_function", "remap_positions_for_packed_sequence"]

# Masks of distances alone: inside a sequence, where positions rise by one, they mean the same
# whether positions are counted from its start or from the start of the row.
_DISTANCES = {"sliding_window_overlay", "sliding_window_bidirectional_overlay"}


def _makers(functions: Any) -> list[str]:
    return [_origin(function)[0] for function in functions]


def _within_sequences(remapped: MaskFunction) -> MaskFunction:
    """The function that needs no counting inside sequences, where there is one that means the
    same between two tokens of one sequence."""
    held = _origin(remapped)[1]
    inner = held["mask_function"]
    if _is_of_distances(inner):
        return inner
    if _origin(inner)[0] == "and_masks":
        parts = _origin(inner)[1]["mask_functions"]
        again = masking_utils.remap_positions_for_packed_sequence
        return masking_utils.and_masks(
            *(_within_sequences(again(part, held["position_ids"])) for part in parts)
        )
    return remapped


def _is_of_distances(function: MaskFunction) -> bool:
    plain = (masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function)
    return function in plain or _origin(function)[0] in _DISTANCES


# ── what it means ────────────────────────────────────────────────────────────────────────────


def _causal(at: Stand) -> Recognised:
    reach = max(0, min(at.keys, at.shift + at.queries))
    if at.shift >= at.keys - 1:  # the first query stands at the last key or beyond
        return Recognised(None, reach, causal=True)
    return Recognised(_placed(Causal("start"), Causal("end"), at), reach, causal=True)


def _window(left: int | None, right: int | None, at: Stand) -> Mask | None:
    """Keys from `left` before to `right` after one's own position; None where that is all."""
    first, last = at.shift, at.shift + at.queries - 1  # where queries stand among the keys
    left = None if left is None or last - left <= 0 else left
    right = None if right is None or first + right >= at.keys - 1 else right
    if left is None and right is None:
        return None
    return _placed(Window(left, right, "start"), Window(left, right, "end"), at)


def _placed(start: Mask, end: Mask, at: Stand) -> Mask:
    """A mask of positions where queries stand: at the start, at the end, or in between."""
    if at.shift == at.keys - at.queries:
        return end
    if at.shift == 0:
        return start
    down, across = max(at.shift, 0), max(-at.shift, 0)
    return Part(start, down, across, down + at.queries, across + at.keys)


def _leaf(factory: str, held: dict[str, Any], function: MaskFunction, at: Stand) -> Mask | None:
    if factory == "sliding_window_overlay" and held["sliding_window"] > 0:
        return _window(held["sliding_window"] - 1, None, at)
    if factory == "sliding_window_bidirectional_overlay":
        return _window(held["sliding_window"], held["sliding_window"], at)
    if factory == "chunked_overlay":
        left = held["left_padding"]
        q, k = (torch.arange(n, device=left.device)[None] for n in (at.queries, at.keys))
        return _chunks(held["chunk_size"], left, q + at.q_offset, k + at.kv_offset)
    if factory == "blockwise_overlay":
        return _blocks(held["block_sequence_ids"], at)
    if factory == "remap_positions_for_packed_sequence":
        inside, kept = _origin(held["mask_function"])
        if inside == "chunked_overlay":
            places = _cut(held["position_ids"], at)
            return _chunks(kept["chunk_size"], kept["left_padding"], *places)
    if factory == "packed_sequence_mask_function":
        return Documents(*_cut(held["packed_sequence_mask"], at))
    if factory == "padding_mask_function":
        return Padding(_cut(held["padding_mask"].bool(), at)[1])
    return _opaque(function, at)


def _cut(tokens: Tensor, at: Stand) -> tuple[Tensor, Tensor]:
    """(batch, positions) → those of the queries (batch, queries) and of the keys (batch, keys)."""
    queries = tokens[:, at.q_offset : at.q_offset + at.queries]
    return queries, tokens[:, at.kv_offset : at.kv_offset + at.keys]


def _chunks(size: int, left_padding: Tensor, queries: Tensor, keys: Tensor) -> Mask:
    """Pieces of `size` tokens, counted from each entry's first real one, for tokens that stand at
    these positions, (batch or 1, tokens)."""
    first = left_padding[:, None]  # (batch, 1)
    return Documents((queries - first) // size, (keys - first) // size)


def _blocks(ids: Tensor, at: Stand) -> Mask:
    """Tokens that share an id ≥ 0; a negative id shares with nobody.

    Keys without a block get an id each, lest they look like one block that is torn apart.
    """
    queries, keys = _cut(ids, at)
    alone = -2 - torch.arange(at.keys, device=ids.device)
    return Documents(queries.clamp(min=-1), keys.where(keys >= 0, alone.to(keys.dtype)))


def _opaque(function: MaskFunction, at: Stand) -> Mask:
    """One row is asked at once, more of them tile by tile."""
    if at.queries == 1:
        return Padding(at.ask(function)[:, 0, 0])  # (batch, keys)
    return TileRule(_Predicate(function, at))


class _Predicate:
    """A mask function as regard's rules want it: no offsets, any vectors of indices."""

    def __init__(self, function: MaskFunction, at: Stand) -> None:
        self.function = function
        self.at = at

    def __call__(self, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """(*batch, 1, i, j); transformers' masks speak of every head alike."""
        entries, rows, columns = (index.reshape(-1) for index in (batch, i, j))
        rows, columns = rows + self.at.q_offset, columns + self.at.kv_offset

        def there(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Any:
            return self.function(entries[b], h, rows[q], columns[k])

        here = Stand(len(entries), len(rows), len(columns), device=i.device, vmap=self.at.vmap)
        return here.ask(there).reshape(*batch.shape[:-3], 1, len(rows), len(columns))


# ── and, or ──────────────────────────────────────────────────────────────────────────────────


def _all_of(parts: list[Recognised]) -> Recognised:
    mask: Mask | None = None
    for part in parts:
        if part.mask is not None:
            mask = part.mask if mask is None else mask & part.mask
    return Recognised(mask, min(part.reach for part in parts), any(part.causal for part in parts))


def _any_of(parts: list[Recognised]) -> Recognised:
    causal = any(part.causal for part in parts)
    reach = max(part.reach for part in parts)
    mask: Mask | None = None
    for part in parts:
        if part.mask is None:
            return Recognised(None, reach, causal)
        mask = part.mask if mask is None else mask | part.mask
    return Recognised(mask, reach, causal)
