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
from regard.mask import Padding


def counting_call(call: Call, counted: Tensor) -> Call:
    """The call in which a row that does not count sees no key; counted (B, L)."""
    hiding = Padding(torch.full((1,), call.shape.keys, device=counted.device), counted)
    return replace(call, mask=hiding if call.mask is None else call.mask & hiding)


def counting_lse(lse: Tensor, counted: Tensor) -> Tensor:
    """(B, H, L): −∞ in rows that do not count."""
    return lse.where(counted[:, None], -torch.inf)


def counting_state(state: RowState, counted: Tensor) -> RowState:
    """The same of a row state."""
    log = state.log.where(counted[:, None], 0.0)
    return RowState(counting_lse(state.peak, counted), log)
