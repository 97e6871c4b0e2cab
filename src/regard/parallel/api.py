"""ring(): one attention over a sequence whose tokens live on several ranks."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.mask import Mask
from regard.parallel.attention import RingAttention
from regard.parallel.opening import open_problem
from regard.parallel.shards import Shards
from regard.score import Bias
from regard.summary import Summary

__all__ = ["ring"]


def ring(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    shards: Shards,
    group: Any = None,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    summaries: tuple[Summary, ...] = (),
    implementation: str | None = None,
    check: bool = True,
) -> RingAttention:
    """Attention over all ranks' tokens; keys and values travel, queries stay.

    query (…, Hq, n, D), key (…, Hkv, n, D), value (…, Hkv, n, Dv): this rank's tokens, in the
    order of its pieces. A collective: every rank of the group calls it with the same rules.

    shards          which tokens each rank holds: Shards.even, .contiguous or .zigzag (balances
                    causal masks)
    group           a ProcessGroup, a DeviceMesh of one axis, or None for all ranks
    mask, bias      of the WHOLE sequence, as one rank would give them to `regard.attend`
    summaries       what to measure on the way. Those that merge over keys cost no further trip;
                    Received, Pooled and Offsets send the keys round once more
    implementation  of every block; without it the fastest that can serve the block
    check           whether the ranks first compare what they mean, here and before every later
                    question: a few numbers go round

    While a block is computed, the next keys and values are on their way. Blocks that the mask
    hides are left out. Gradients of a bias and of the sink are sums over all ranks: do not add
    them up again.
    """
    tensors, score = (query, key, value), (scale, softcap, bias, sink)
    opened = open_problem(
        "ring", tensors, shards, group, mask, score, summaries, implementation, check
    )
    return RingAttention(opened)
