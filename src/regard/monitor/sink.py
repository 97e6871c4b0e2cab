"""The weight of each row's sink: of the first key that the row may see, and of a learned sink.

The first key is the row's own: of a packed batch the first token of its document, behind padding
the first real token, in a window the window's first key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.mask import Extent, Mask, Packed
from regard.mask.spans import spans_of

_STRIP = 1024  # keys that are asked about at a time
_TILE = 64  # rows whose biases are asked for together, where their first keys differ


def sink_mass(attention: Attention, lse: Tensor) -> Tensor:
    """(*batch, H, L): exp(score of the first visible key − lse), and the learned sink's share."""
    call = attention._call
    learned = call.score.sink is not None
    mass: Any = attention.sink_mass().detach().reshape(lse.shape) if learned else 0
    if call.shape.keys == 0:
        return torch.zeros_like(lse) + mass
    first, bias = _first_keys(call)
    scores = call.score.cap(_dot_products(call, first.clamp(min=0)) * call.score.scale)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    weight = torch.where((first < 0) | (lse == -torch.inf), 0, (scores - lse).exp())
    return weight + mass if learned else weight


def _dot_products(call: Call, first: Tensor) -> Tensor:
    """(*batch, H, L): of each query and the key that is its first, by (…, 1 or H, L)."""
    shape, exact = call.shape, call.exact
    query, key = call.query.to(exact), call.key
    if first.numel() == 1:  # one key for all rows
        key = key[..., first.reshape(()), :].unsqueeze(-2).to(exact)
        key = key if shape.group == 1 else key.repeat_interleave(shape.group, dim=-3)
        return (query @ key.mT)[..., 0]
    if first.shape[-2] > 1 and shape.group > 1:  # a mask of its own for each query head
        key = key.repeat_interleave(shape.group, dim=-3)
    key = key.expand(*shape.batch, *key.shape[-3:])
    places = first.expand(*shape.batch, key.shape[-3], shape.queries)
    chosen = key.gather(-2, places[..., None].expand(*places.shape, key.shape[-1])).to(exact)
    if chosen.shape[-3] < shape.query_heads:
        chosen = chosen.repeat_interleave(shape.group, dim=-3)
    return (query * chosen).sum(-1)


def _first_keys(call: Call) -> tuple[Tensor, Tensor | None]:
    """(…, 1 or H, L), or (1, 1) where it is one key for all rows: the first key that each row sees,
    −1 where it sees none; and what is added to its score, (…, H or 1, L)."""
    mask, bias, extent, device = call.mask, call.score.bias, call.shape.extent, call.query.device
    if bias is not None and bias.hides():
        return _searched(call)
    if bias is None and mask is not None and mask.as_pack() is not None:
        rows = torch.arange(extent.queries, device=device)
        sight = cast(Packed, mask).sight(rows)  # computed where its starts are
        if sight is not None:
            return torch.where(sight[1] > sight[0], sight[0].long(), -1)[None], None
    by_value = mask is None or mask.is_flat
    if not by_value and device.type != "cpu":
        return _searched(call)  # without the host waiting for the mask's arrays
    low = (_lowest_once if by_value else _lowest)(mask, extent)
    if low is None:
        return _searched(call)
    first = torch.from_numpy(low).to(device)
    return first, None if bias is None else _biases(call, low)


def _lowest(mask: Mask | None, extent: Extent) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """(…, 1, L) or (1, 1) by the mask's intervals; None where it is more than these."""
    spans, rest = spans_of(mask, extent)
    if rest is not None:
        return None
    if spans is None or not extent.queries:
        return np.zeros((1, 1), np.int64)
    start = np.maximum(spans.low, 0)
    low = np.where(np.minimum(spans.high, extent.keys) > start, start, -1)
    return low[..., None, :] if low.any() else np.zeros((1, 1), np.int64)


_lowest_once = lru_cache(maxsize=8)(_lowest)  # all layers alike ask; of masks without arrays


def _biases(call: Call, low: np.ndarray[Any, np.dtype[np.int64]]) -> Tensor:
    """(…, H or 1, L): what a bias adds at each row's first key."""
    bias, extent, device = call.score.bias, call.shape.extent, call.query.device
    assert bias is not None
    step, parts = max(extent.queries, 1) if low.size == 1 else _TILE, []
    for start in range(0, max(extent.queries, 1), step):
        i = torch.arange(start, min(start + step, extent.queries), device=device)
        here = low if low.size == 1 else low[..., start : start + step]
        keys, at = np.unique(here.clip(min=0), return_inverse=True)
        tile = bias.tile(i, torch.from_numpy(keys).to(device), extent)
        columns = torch.from_numpy(at.reshape(here.shape)).to(device)[..., None]
        columns = columns.expand(*columns.shape[:-2], len(i), 1)
        parts.append(_at(tile, columns, len(i), len(keys)))
    return torch.cat(parts, -1)


def _at(tile: Tensor, columns: Tensor, rows: int, keys: int) -> Tensor:
    """(…, rows): of (…, rows or 1, keys or 1) the columns (…, rows, 1)."""
    lead = np.broadcast_shapes(tile.shape[:-2], columns.shape[:-2])
    tile, columns = tile.expand(*lead, rows, keys), columns.expand(*lead, rows, 1)
    return tile.gather(-1, columns)[..., 0]


def _searched(call: Call) -> tuple[Tensor, Tensor | None]:
    """By asking about every cell, strip by strip: of masks that are no intervals, of biases that
    hide keys, and on a device whose arrays the host would wait for."""
    mask, bias, extent, device = call.mask, call.score.bias, call.shape.extent, call.query.device
    i = torch.arange(extent.queries, device=device)
    first = torch.full((1, extent.queries), -1, device=device)
    added: Any = torch.zeros(1, extent.queries, device=device)
    for start in range(0, extent.keys, _STRIP):
        j = torch.arange(start, min(start + _STRIP, extent.keys), device=device)
        seen: Tensor = torch.ones(1, len(i), len(j), dtype=torch.bool, device=device)
        if mask is not None:
            seen = seen & mask.allows(i, j, extent)
        tile = None if bias is None else bias.tile(i, j, extent)
        if tile is not None:
            seen = seen & (tile > -torch.inf)
        column = seen.to(torch.uint8).argmax(-1, keepdim=True)
        new = (first < 0) & seen.any(-1)
        first = torch.where(new, column[..., 0] + start, first)
        if tile is not None:
            added = torch.where(new, _at(tile, column, len(i), len(j)), added)
    return first, None if bias is None else added
