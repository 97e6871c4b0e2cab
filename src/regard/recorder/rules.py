"""Masks and score rules as a recording writes them: for one batch entry, in numpy, without what
the padding said (padded tokens are left out of the recording altogether)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.declare import encode, is_portable
from regard.errors import InputError
from regard.mask import Extent, Mask, Table
from regard.recording.schema import UNKNOWN
from regard.score import BiasTable, ScoreRule

_MOST_TABLE = 64 * 2**20  # bytes of one mask or bias table that a recording takes in


@dataclass(frozen=True)
class Rules:
    """A mask and a score rule as text and arrays; `why_not` where they cannot be written down."""

    mask: str
    score: str
    arrays: tuple[NDArray[Any], ...]
    why_not: str = ""


def as_heads(
    mask: Mask | None, score: ScoreRule, extent: Extent, entries: list[tuple[int, ...]]
) -> tuple[Mask | None, ScoreRule]:
    """The rules of several batch entries that stand beside each other as heads."""
    import torch

    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    alone = replace(extent, batch=())
    one = (extent.heads, extent.queries, extent.keys)

    def together(tile: Callable[[tuple[int, ...]], Any]) -> Tensor:
        return torch.cat([tile(entry).expand(one) for entry in entries])

    if mask is not None and (any(True for _ in mask.arrays()) or not is_portable(mask)):
        held = mask.map(lambda array: torch.as_tensor(array).cpu())
        mask = Table(together(lambda entry: held.select(entry).allows(i, j, alone)))
    bias, sink = score.bias, score.sink
    if bias is not None:
        held_bias = bias.map(lambda array: torch.as_tensor(array).cpu())
        bias = BiasTable(together(lambda entry: held_bias.select(entry).tile(i, j, alone)))
    if sink is not None:
        sink = torch.as_tensor(sink).repeat(len(entries))
    return mask, replace(score, bias=bias, sink=sink)


def rules_for(mask: Mask | None, score: ScoreRule, extent: Extent) -> Rules:
    """What one batch entry's rows were computed by."""
    mask = None if mask is None else mask.map(_numpy)
    score = score.map(_numpy)
    why_not = ""
    if mask is not None and not is_portable(mask):
        mask, why_not = _spelt_out(mask, extent)
    if score.bias is not None and not is_portable(score.bias):
        why_not = f"its bias, a {type(score.bias).__name__}, has no tag that a file could name"
    elif score.bias is not None:
        size = sum(array.nbytes for array in score.bias.arrays())
        if size > _MOST_TABLE:
            why_not = f"its bias is a table of {size / 1e6:.0f} MB, too large to keep"
    if why_not:
        return Rules(UNKNOWN, encode(ScoreRule(score.scale, score.softcap)), (), why_not)
    held = [] if mask is None else list(mask.arrays())
    return Rules(encode(mask), encode(score), (*held, *score.arrays()))


def _numpy(array: Any) -> NDArray[Any]:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    plain = array.detach().cpu()
    return (plain.float() if plain.is_floating_point() and plain.itemsize == 2 else plain).numpy()


def _spelt_out(mask: Mask, extent: Extent) -> tuple[Mask | None, str]:
    """A function cannot be written down, but what it allows can, where that is small."""
    if math.prod(extent.full[-2:]) > _MOST_TABLE:
        return None, "its mask is a function, and too large as a table"
    import torch

    i, j = torch.arange(extent.queries), torch.arange(extent.keys)
    seen = mask.map(torch.as_tensor).allows(i, j, extent)
    table = np.broadcast_to(seen.numpy(), np.broadcast_shapes(seen.shape, extent.full[-2:]))
    if table.ndim > 3:
        raise InputError("a mask of one batch entry speaks of several")
    return Table(np.ascontiguousarray(table)), ""


def follows(mask: Mask | None, queries: int) -> bool:
    """Whether rows under this mask can be joined with the rows before them: it looks backwards
    from each row's own position and holds no array."""
    if mask is None:
        return queries == 1
    windows = [one.as_window() for one in mask.conditions()]
    return all(w is not None and w.align == "end" and w.right == 0 for w in windows)
