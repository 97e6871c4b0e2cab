"""How every attention over ranks begins: words are checked here, then compared with all ranks'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.declare import encode
from regard.engine.observers import editors
from regard.engine.torch_state import in_autocast
from regard.errors import InputError, ShapeError, UnavailableError
from regard.parallel.agree import agree, contents
from regard.parallel.group import Peers
from regard.parallel.shards import Shards
from regard.parallel.whole import Whole
from regard.summary import Summary, as_summaries

__all__ = ["Opened", "check_held", "check_world", "open_problem"]


@dataclass(frozen=True, eq=False)
class Opened:
    """A problem that all ranks mean, and what this one holds of it."""

    peers: Peers
    shards: Shards
    whole: Whole
    tensors: tuple[Tensor, Tensor, Tensor]  # query, key, value
    summaries: tuple[Summary, ...]
    check: bool  # whether later questions are compared too


def open_problem(
    way: str,
    tensors: tuple[Tensor, Tensor, Tensor],
    shards: Shards,
    group: Any,
    mask: Any,
    score: tuple[float | None, float | None, Any, Any],
    summaries: Any,
    implementation: str | None,
    check: bool,
) -> Opened:
    """The problem as `way` (ring, ulysses) was asked for it. `score` is scale, softcap, bias and
    sink. Whatever is wrong on one rank raises on all of them, unless `check` is off."""
    peers = Peers.of(group)
    device = getattr(tensors[0], "device", torch.device("cpu"))
    try:
        opened = _checked(peers, tensors, shards, mask, score, summaries, implementation, check)
    except Exception as wrong:
        if check:
            agree(peers, {}, device, wrong)
        raise
    if check:
        agree(peers, _said(way, opened), device)
    return opened


def _checked(
    peers: Peers,
    tensors: tuple[Tensor, Tensor, Tensor],
    shards: Shards,
    mask: Any,
    score: tuple[float | None, float | None, Any, Any],
    summaries: Any,
    implementation: str | None,
    check: bool,
) -> Opened:
    check_world(shards, peers)
    for name, tensor in zip(("query", "key", "value"), tensors, strict=True):
        check_held(name, tensor, shards, peers.rank)
    summaries = as_summaries(summaries)
    query, key, value = in_autocast(*tensors)
    whole = Whole.of(query, key, value, shards.tokens, mask, score, summaries, implementation)
    return Opened(peers, shards, whole, (query, key, value), summaries, check)


def check_world(shards: Any, peers: Peers) -> None:
    """Raise unless these are shards for the ranks of the group, and attention is left as it is."""
    if editors():
        raise UnavailableError(
            "attention is being changed (regard.knock_out), which speaks of all tokens and heads "
            "of one rank; over ranks it is not offered"
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


def check_held(name: str, tensor: Any, shards: Shards, rank: int) -> None:
    """Raise unless this is a tensor of the tokens that a rank holds."""
    if not isinstance(tensor, Tensor) or tensor.ndim < 3:
        given = getattr(tensor, "shape", type(tensor).__name__)
        raise ShapeError(f"{name} is {given}; give a tensor (…, heads, tokens, dim)")
    mine = shards.lengths[rank]
    if tensor.shape[-2] != mine:
        raise ShapeError(
            f"{name} {tuple(tensor.shape)} has {tensor.shape[-2]} tokens, the shard of rank "
            f"{rank} has {mine}; take it with shards.take(whole, {rank})"
        )


def _said(way: str, opened: Opened) -> dict[str, str]:
    """What has to be the same on all ranks."""
    whole, tensors = opened.whole, opened.tensors
    score = whole.score
    sizes = [(*t.shape[:-2], t.shape[-1], t.dtype) for t in tensors]
    mask = [] if whole.mask is None else whole.mask.arrays()
    learns = [t.requires_grad for t in (*tensors, *score.arrays())]
    return {
        "what to do": way,
        "shapes and dtypes": f"{sizes} (without tokens)",
        "shards": repr(opened.shards),
        "mask": f"{whole.mask!r} {contents(mask)}",
        "score rule": f"{encode(score)} {contents(score.arrays())}",
        "summaries": repr(opened.summaries),
        "who needs gradients": str(learns if torch.is_grad_enabled() else None),
        "implementation": str(whole.implementation),
    }
