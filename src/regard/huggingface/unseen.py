"""Rows that see no key: what the implementation of transformers gives them.

By `attend`'s law their output is 0. So it is in sdpa with a boolean mask; a mask that is added to
the scores has the same large number in the whole row, which a softmax makes even.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.engine.observers import editors
from regard.huggingface.reference import Reference
from regard.huggingface.restrict import Restriction


def with_unseen_rows(
    found: Attention, value: Tensor, told: Restriction, reference: Reference
) -> Tensor:
    """(B, Hq, L, Dv): the output, each row as the reference computes it.

    value (B, Hkv, S, Dv): all values, the unwritten slots of a static cache too.
    """
    output = found.output
    if reference == "flash" and told.counted is not None:
        return output.masked_fill(~told.counted[:, None, :, None], 0)
    if told.additive is not None:
        return _by_numbers(output, _unseen(found, told), value, told.additive, reference)
    # a position bias and the mask become numbers to add in every implementation
    adds = reference == "eager" or told.bias is not None
    if not adds or told.complete or told.mask is None or told.mask.as_window() is not None:
        return output  # a window holds one's own position
    even = value.mean(-2, keepdim=True).repeat_interleave(_group(output, value), 1)
    return torch.where(_unseen(found, told).unsqueeze(-1), even, output)


def _unseen(found: Attention, told: Restriction) -> Tensor:
    """(B, Hq, L): the rows to which the model's own mask shows no key. One that `knock_out` has
    left without a key is none of them."""
    rows = found.lse.isneginf()
    if not editors():
        return rows
    return torch.zeros_like(rows) if told.counted is None else rows & ~told.counted[:, None]


def _by_numbers(
    output: Tensor, rows: Tensor, value: Tensor, mask: Tensor, reference: Reference
) -> Tensor:
    """Even over the keys whose number is finite; a row of −∞ is NaN in eager, 0 in sdpa."""
    if not torch.compiler.is_compiling() and not bool(rows.any()):
        return output
    weights = torch.zeros_like(mask).masked_fill(mask.isneginf(), -torch.inf).softmax(-1)
    if reference != "eager":
        weights = weights.nan_to_num(0)
    values = value.repeat_interleave(_group(output, value), 1)
    return torch.where(rows.unsqueeze(-1), (weights @ values).to(output.dtype), output)


def _group(output: Tensor, value: Tensor) -> int:
    return output.shape[1] // value.shape[1]
