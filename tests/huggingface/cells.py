"""Masks cell by cell, for comparison with what transformers builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import create_causal_mask, sdpa_mask

from regard.huggingface import MaskDescriptor
from regard.huggingface.versions import TAKES_LENGTHS, build_mask
from regard.mask import Extent, Mask
from regard.mask.spans import spans_of


def cells(mask: Mask | None, batch: int, queries: int, keys: int) -> Tensor:
    """(batch, queries, keys): the mask's own word on every cell."""
    full = (batch, 1, queries, keys)
    if mask is None:
        return torch.ones(batch, queries, keys, dtype=torch.bool)
    seen = mask.allows(torch.arange(queries), torch.arange(keys), Extent(queries, keys, (batch,)))
    return seen.expand(full)[:, 0]


def descriptor_cells(found: MaskDescriptor | None, batch: int, queries: int, keys: int) -> Tensor:
    """The same of a descriptor: keys beyond its reach are seen by nobody."""
    if found is None:
        return cells(None, batch, queries, keys)
    assert tuple(found.shape) == (batch, 1, queries, keys)
    seen = torch.zeros(batch, queries, keys, dtype=torch.bool)
    seen[..., : found.reach] = cells(found.mask, batch, queries, found.reach)
    return seen


def theirs(**asked: Any) -> Tensor:
    """(batch, queries, keys): what transformers builds of the same arguments."""
    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return build_mask(sdpa_mask, **({"q_offset": 0, "device": "cpu"} | asked | skips))[:, 0]


def causal_mask(
    config: Any,
    states: Tensor,
    padding: Tensor | None = None,
    make: Callable[..., Any] = create_causal_mask,
    **more: Any,
) -> Any:
    """The causal mask of a model without a cache, as its forward asks for it."""
    if not TAKES_LENGTHS:  # transformers up to 5.3
        more["cache_position"] = torch.arange(states.shape[1])
    return make(config, states, attention_mask=padding, past_key_values=None, **more)


def is_intervals(mask: Mask | None, batch: int, queries: int, keys: int) -> bool:
    """Whether kernels get two numbers a row and nothing else."""
    return mask is None or spans_of(mask, Extent(queries, keys, (batch,)))[1] is None
