"""The next token's attention where nobody asks about it: the definition, in three lines.

`attend` checks, chooses and remembers, which costs more than the arithmetic of a single query.
Where nobody listens and nobody edits, nothing is learnt and one query sees every key, the answer is
softmax(q kᵀ / √d) v and is computed as such.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.engine.observers import editors, listeners
from regard.engine.torch_state import inside_context_parallel
from regard.mask import Mask


def is_unasked(*tensors: Tensor) -> bool:
    """Whether the output is all that anybody wants here. Inside torch's context_parallel `attend`
    has something to say."""
    if torch.compiler.is_compiling() or listeners() or editors() or inside_context_parallel():
        return False
    return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))


def sees_everything(mask: Mask | Tensor | None, query: Tensor, key: Tensor) -> bool:
    """Whether there is one query, which sees all the keys, in a precision that `next_token` keeps
    (half precision has its own kernels)."""
    if query.shape[-2] != 1 or query.dtype not in (torch.float32, torch.float64):
        return False
    window = mask.as_window() if isinstance(mask, Mask) else None
    if window is None:
        return mask is None
    return window.align == "end" and (window.left is None or key.shape[-2] <= window.left + 1)


def next_token(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(…, Hq, 1, D) over (…, Hkv, S, D) → (…, Hq, 1, Dv); heads of one group are the rows of one
    product."""
    *batch, heads, _, dim = query.shape
    keys, values = key.flatten(0, -3), value.flatten(0, -3)  # (batch × Hkv, S, …)
    rows = query.reshape(keys.shape[0], heads // key.shape[-3], dim)
    scores = torch.bmm(rows * dim**-0.5, keys.transpose(-1, -2))
    weighted = torch.bmm(torch.softmax(scores, dim=-1), values)
    return weighted.view(*batch, heads, 1, values.shape[-1])
