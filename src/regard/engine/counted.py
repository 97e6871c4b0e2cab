"""Rows that statistics count: those of padding are computed all the same.

A padded query that sees keys has an output, which models read, and weights. It is no token, so no
statistic, received mass or map may hold it: these are asked under a mask that hides every key from
such a row.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.engine.problem import Call, RowState
from regard.mask import Mask, Padding
from regard.mask.algebra import Both

__all__ = ["counting_call", "counting_lse", "counting_state"]


def counting_call(call: Call, counted: Tensor) -> Call:
    """The call in which a row that does not count sees no key; counted (B, L)."""
    mask = _hiding(call.mask, counted)
    if mask is None:
        every = torch.full((1,), call.shape.keys, device=counted.device)
        mask = Padding(every, counted) if call.mask is None else call.mask & Padding(every, counted)
    return replace(call, mask=mask)


def counting_lse(lse: Tensor, counted: Tensor) -> Tensor:
    """(B, H, L): −∞ in rows that do not count."""
    return lse.where(counted[:, None], -torch.inf)


def counting_state(state: RowState, counted: Tensor) -> RowState:
    """The same of a row state."""
    log = state.log.where(counted[:, None], 0.0)
    return RowState(counting_lse(state.peak, counted), log)


def _hiding(mask: Mask | None, rows: Tensor) -> Mask | None:
    """The mask with these queries in its own padding; None where it has none to take them."""
    if isinstance(mask, Padding) and mask.queries is None:
        return Padding(mask.keys, rows)
    if isinstance(mask, Both):
        if (left := _hiding(mask.left, rows)) is not None:
            return left & mask.right
        if (right := _hiding(mask.right, rows)) is not None:
            return mask.left & right
    return None
