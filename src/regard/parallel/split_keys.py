"""tree(): a few queries that all ranks have, over keys of which each rank has some.

This is decoding from a cache that no rank holds whole. Every rank attends to its own keys; what
travels is one Partial per rank (output, lse and statistics of the few queries), whatever the
length of the cache. All ranks merge all Partials in the same order, so that they end up with the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.engine.api import attend_partial, replay
from regard.engine.torch_state import in_autocast
from regard.errors import GradientError
from regard.mask import Mask, as_mask
from regard.mask.base import Part
from regard.parallel.agree import agree, contents
from regard.parallel.failure import named
from regard.parallel.group import Peers
from regard.parallel.message import pack, unpack
from regard.parallel.opening import check_held, check_world
from regard.parallel.shards import Piece, Shards
from regard.score import Bias, PartBias, as_bias
from regard.shapes import AttentionShape
from regard.state import Finished, Partial, TopScores, merge
from regard.summary import Summary, as_summaries

__all__ = ["tree"]


def tree(
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
) -> Finished:
    """Attention of the same queries on every rank over the keys of all ranks.

    query (…, Hq, L, D), the same on every rank; key (…, Hkv, n, D) and value (…, Hkv, n, Dv) of
    this rank. A collective: every rank of the group calls it with the same rules.

    shards      which KEYS each rank holds, such as Shards.contiguous of the lengths of the caches
    mask, bias  of the whole problem, L queries by shards.tokens keys
    summaries   those that merge over keys come back the same on every rank, keys by their number
                in the whole; Received comes back for this rank's own keys
    check       whether the ranks first compare what they mean, in one gather of a few numbers

    There are no gradients here: `ring` has them.
    """
    peers = Peers.of(group)
    rules = {"mask": mask, "scale": scale, "bias": bias, "softcap": softcap}
    device = getattr(query, "device", torch.device("cpu"))
    try:
        summaries = as_summaries(summaries)
        _check((query, key, value), shards, peers)
        _check_gradients(query, key, value, as_bias(bias), sink)
        query, key, value = in_autocast(query, key, value)
        told = tuple(s for s in summaries if s.about != "keys")
        asked = {**rules, "summaries": told, "implementation": implementation}
        mine = _own(shards.local(peers.rank), (query, key, value), shards.tokens, asked)
    except Exception as wrong:
        if check:
            agree(peers, {}, device, wrong)
        raise
    if check:
        agree(peers, _said(query, mine, shards, (rules, sink, summaries)), device)
    found = merge(*_from_everybody(peers, mine)).finish(sink)
    answers = dict(found.summaries)
    for summary in summaries:
        if summary.about == "keys":
            answers[summary] = _of_keys(summary, shards.local(peers.rank), query, key, found.lse,
                                         shards.tokens, rules)  # fmt: skip
    return Finished(found.output.to(query.dtype), found.lse, answers, found.rest)


def _own(
    pieces: Sequence[tuple[Piece, slice]],
    tensors: tuple[Tensor, Tensor, Tensor],
    total: int,
    asked: dict[str, Any],
) -> Partial:
    """Over this rank's keys, piece by piece."""
    query, key, value = tensors
    places = list(pieces) or [(Piece(0, 0), slice(0, 0))]
    return merge(
        *(
            attend_partial(
                query, key[..., at, :], value[..., at, :], key_start=piece.start,
                total_queries=query.shape[-2], total_keys=total, **asked,
            )
            for piece, at in places
        )
    )  # fmt: skip


def _from_everybody(peers: Peers, mine: Partial) -> list[Partial]:
    """Every rank's Partial, in rank order."""
    if peers.world == 1:
        return [mine]
    parts = _flat(mine)
    message = pack(parts)
    taken = [torch.empty_like(message) for _ in range(peers.world)]
    with named(peers, None, "gathering parts"):
        dist.all_gather(taken, message, group=peers.group)
    kinds, shapes = [t.dtype for t in parts], [t.shape for t in parts]
    return [_built(unpack(each, kinds, shapes), mine) for each in taken]


def _flat(part: Partial) -> list[Tensor]:
    found = [part.out, part.lse, torch.zeros_like(part.lse) if part.rest is None else part.rest]
    for value in part.summaries.values():
        found += list(value) if isinstance(value, TopScores) else [value]
    return found


def _built(tensors: list[Tensor], like: Partial) -> Partial:
    left = iter(tensors)
    out, lse, rest = next(left), next(left), next(left)
    summaries = {
        summary: TopScores(next(left), next(left)) if isinstance(value, TopScores) else next(left)
        for summary, value in like.summaries.items()
    }
    return Partial(out, lse, summaries, rest)


def _of_keys(
    summary: Summary,
    pieces: Sequence[tuple[Piece, slice]],
    query: Tensor,
    key: Tensor,
    lse: Tensor,
    total: int,
    rules: dict[str, Any],
) -> Tensor:
    """Of this rank's keys: with the lse of all keys known, nobody else need be asked."""
    found, shape = [], AttentionShape.of(query.shape, key.shape)
    extent, batch, heads = shape.extent, tuple(map(range, shape.batch)), range(shape.query_heads)
    for piece, at in pieces or [(Piece(0, 0), slice(0, 0))]:
        place = (0, piece.start, query.shape[-2], total)
        mask, bias = rules["mask"], as_bias(rules["bias"])
        part = replay(
            query, key[..., at, :], lse, scale=rules["scale"], softcap=rules["softcap"],
            mask=None if mask is None else Part(as_mask(mask), *place),
            bias=None if bias is None else PartBias(bias, *place),
        )  # fmt: skip
        mine = summary.cut(extent, batch, heads, None, range(*piece))
        found.append(part.summarize(mine)[mine])
    return torch.cat(found, -1)


# ── what is accepted ─────────────────────────────────────────────────────────────────────────


def _said(query: Tensor, mine: Partial, shards: Shards, rules: tuple[Any, ...]) -> dict[str, str]:
    given, sink, summaries = rules
    arrays = [] if given["mask"] is None else list(as_mask(given["mask"]).arrays())
    bias = as_bias(given["bias"])
    arrays += [] if bias is None else list(bias.arrays())
    arrays += [] if sink is None else [sink]
    return {
        "what to do": "tree",
        "queries": contents([query]),
        "shapes": str([(tuple(t.shape), t.dtype) for t in _flat(mine)]),
        "shards": repr(shards),
        "rules": f"{given['mask']!r} {bias!r} {given['scale']} {given['softcap']} {summaries!r} "
        f"{contents(arrays)}",
    }


def _check(tensors: tuple[Any, Any, Any], shards: Shards, peers: Peers) -> None:
    check_world(shards, peers)
    _, key, value = tensors  # every rank has all queries
    check_held("key", key, shards, peers.rank)
    check_held("value", value, shards, peers.rank)


def _check_gradients(query: Any, key: Any, value: Any, bias: Bias | None, sink: Any) -> None:
    given = [("query", query), ("key", key), ("value", value), ("sink", sink)]
    given += [("bias", array) for array in ([] if bias is None else bias.arrays())]
    for name, tensor in given:
        if torch.is_grad_enabled() and getattr(tensor, "requires_grad", False):
            raise GradientError(
                f"{name} wants gradients, which tree() does not have; call it under "
                "torch.no_grad(), or use regard.parallel.ring"
            )
