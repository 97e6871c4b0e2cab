"""ring(): one attention over a sequence whose tokens live on several ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.engine.api import _autocast
from regard.engine.edit import editors
from regard.errors import InputError, RegardError, ShapeError, UnavailableError
from regard.mask import Mask
from regard.parallel.agree import agree, contents
from regard.parallel.attention import RingAttention
from regard.parallel.group import Peers
from regard.parallel.shards import Shards
from regard.parallel.whole import Whole
from regard.score import Bias, describe
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
    check           whether the ranks first compare what they mean: a few numbers go round

    While a block is computed, the next keys and values are on their way. Blocks that the mask
    hides are left out. Gradients of a bias and of the sink are sums over all ranks: do not add
    them up again.
    """
    peers = Peers.of(group)
    error = None
    device: torch.device = getattr(query, "device", torch.device("cpu"))
    said: dict[str, str] = dict.fromkeys(_SUBJECTS, "")
    try:
        device = _check(query, key, value, shards, peers)
        summaries = _check_summaries(summaries)
        query, key, value = _autocast(query, key, value)
        rule = scale, softcap, bias, sink
        whole = Whole.of(query, key, value, shards.tokens, mask, rule, summaries, implementation)
        said = _said(query, key, value, shards, whole, summaries)
    except RegardError as wrong:
        error = wrong
        if not check:
            raise
    if check:
        agree(peers, said, device, error)
    return RingAttention((peers, shards, whole), (query, key, value), tuple(summaries))


def _check_summaries(summaries: Any) -> tuple[Summary, ...]:
    several = isinstance(summaries, Iterable) and not isinstance(summaries, str)
    summaries = tuple(summaries) if several else (summaries,)
    for summary in summaries:
        if not isinstance(summary, Summary):
            raise InputError(f"summaries: {summary!r} is not a summary; give e.g. regard.Entropy()")
    return summaries


_SUBJECTS = (
    "shapes and dtypes", "shards", "mask", "score rule", "summaries", "who needs gradients",
    "implementation",
)  # fmt: skip


def _said(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    shards: Shards,
    whole: Whole,
    summaries: tuple[Summary, ...],
) -> dict[str, str]:
    """What has to be the same on all ranks."""
    score, tensors = whole.score, (query, key, value)
    sizes = [(*t.shape[:-2], t.shape[-1], t.dtype) for t in tensors]
    mask = [] if whole.mask is None else whole.mask.arrays()
    learns = [t.requires_grad for t in (*tensors, *score.arrays())]
    words = (
        f"{sizes} (without tokens)",
        repr(shards),
        f"{whole.mask!r} {contents(mask)}",
        f"{describe(score)} {contents(score.arrays())}",
        repr(summaries),
        str(learns if torch.is_grad_enabled() else None),
        str(whole.implementation),
    )
    return dict(zip(_SUBJECTS, words, strict=True))


def _check(query: Tensor, key: Tensor, value: Tensor, shards: Shards, peers: Peers) -> torch.device:
    """Shards, ranks and tensors fit together; the device they are on."""
    if editors():
        raise UnavailableError(
            "attention is being changed (regard.knock_out), which speaks of all tokens of one "
            "rank; over ranks it is not offered"
        )
    if not isinstance(shards, Shards):
        raise InputError(
            f"shards is a {type(shards).__name__}; give e.g. regard.parallel.Shards.even(tokens, "
            f"{peers.world})"
        )
    if shards.world != peers.world:
        raise InputError(
            f"shards are of {shards.world} ranks, the group has {peers.world}; make shards of "
            f"{peers.world}"
        )
    mine = shards.lengths[peers.rank]
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or tensor.ndim < 3:
            given = getattr(tensor, "shape", type(tensor).__name__)
            raise ShapeError(f"{name} is {given}; give a tensor (…, heads, tokens, dim)")
        if tensor.shape[-2] != mine:
            raise ShapeError(
                f"{name} {tuple(tensor.shape)} has {tensor.shape[-2]} tokens, the shard of rank "
                f"{peers.rank} has {mine}; take it with shards.take(whole, {peers.rank})"
            )
    return query.device
