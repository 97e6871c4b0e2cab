"""tree(): a few queries that all ranks have, over keys of which each rank has some.

This is decoding from a cache that no rank holds whole. Every rank attends to its own keys; an
all-gather exchanges one Partial per rank (output, lse and statistics of the few queries), whatever
the length of the cache. All ranks merge all Partials in the same order, so that they end up with
the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.engine.api import attend_partial, replay
from regard.engine.call import map_parts, parts_of
from regard.engine.torch_state import in_autocast
from regard.errors import GradientError
from regard.mask import Mask, as_mask
from regard.mask.base import Part
from regard.parallel.problem import QKV, agreement, check_held, check_shards, contents
from regard.parallel.shards import EMPTY, Piece, Shards
from regard.parallel.transport import Peers, all_gather
from regard.score import Bias, PartBias, as_bias
from regard.shapes import AttentionShape
from regard.state import Finished, Partial, merge
from regard.summary import Summary, as_summaries


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
    check       whether the ranks first compare their arguments: a few numbers go round

    There are no gradients here: `ring` has them.
    """
    peers = Peers.of(group)
    rules = {"mask": mask, "scale": scale, "bias": bias, "softcap": softcap}
    with agreement(peers, query, check) as description:
        summaries = as_summaries(summaries)
        check_shards(shards, peers)
        check_held("key", key, shards, peers.rank)
        check_held("value", value, shards, peers.rank)
        _check_gradients(query, key, value, as_bias(bias), sink)
        query, key, value = in_autocast(query, key, value)
        merging = tuple(s for s in summaries if s.about != "keys")
        asked = {**rules, "summaries": merging, "implementation": implementation}
        pieces = shards.local(peers.rank) or [(EMPTY, slice(0, 0))]
        mine = _own(pieces, (query, key, value), shards.tokens, asked)
        if check:
            description |= _description(query, mine, shards, rules, sink, summaries)
    result = merge(*_gathered(peers, mine)).finish(sink)
    answers = dict(result.summaries)
    for summary in summaries:
        if summary.about == "keys":
            answers[summary] = _of_keys(
                summary, pieces, query, key, result.lse, shards.tokens, rules
            )
    return Finished(result.output.to(query.dtype), result.lse, answers, result.rest)


def _own(
    pieces: Sequence[tuple[Piece, slice]], tensors: QKV, total: int, asked: dict[str, Any]
) -> Partial:
    """Over this rank's keys, piece by piece."""
    query, key, value = tensors
    return merge(
        *(
            attend_partial(
                query, key[..., at, :], value[..., at, :], key_start=piece.start,
                total_queries=query.shape[-2], total_keys=total, **asked,
            )
            for piece, at in pieces
        )
    )  # fmt: skip


def _gathered(peers: Peers, mine: Partial) -> list[Partial]:
    """Every rank's Partial, in rank order."""
    if peers.world == 1:
        return [mine]
    return [_built(each, mine) for each in all_gather(peers, _flat(mine), "gathering parts")]


def _flat(part: Partial) -> list[Tensor]:
    tensors = [part.out, part.lse, torch.zeros_like(part.lse) if part.rest is None else part.rest]
    for value in part.summaries.values():
        tensors += parts_of(value)
    return tensors


def _built(tensors: list[Tensor], like: Partial) -> Partial:
    left = iter(tensors)
    out, lse, rest = next(left), next(left), next(left)
    summaries = {
        summary: map_parts(value, lambda _: next(left)) for summary, value in like.summaries.items()
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
    """Of this rank's keys: the lse of all keys is known, so nothing is sent."""
    parts, shape = [], AttentionShape.of(query.shape, key.shape)
    extent, batch, heads = shape.extent, tuple(map(range, shape.batch)), range(shape.query_heads)
    mask, bias = rules["mask"], as_bias(rules["bias"])
    for piece, at in pieces:
        place = (0, piece.start, query.shape[-2], total)
        matrix = replay(
            query, key[..., at, :], lse, scale=rules["scale"], softcap=rules["softcap"],
            mask=None if mask is None else Part(as_mask(mask), *place),
            bias=None if bias is None else PartBias(bias, *place),
        )  # fmt: skip
        local = summary.cut(extent, batch, heads, None, range(*piece))
        parts.append(matrix.summarize(local)[local])
    return torch.cat(parts, -1)


def _description(
    query: Tensor,
    mine: Partial,
    shards: Shards,
    rules: dict[str, Any],
    sink: Tensor | None,
    summaries: tuple[Summary, ...],
) -> dict[str, str]:
    """What has to be the same on all ranks."""
    mask, bias = rules["mask"], as_bias(rules["bias"])
    arrays = [] if mask is None else list(as_mask(mask).arrays())
    arrays += [] if bias is None else list(bias.arrays())
    arrays += [] if sink is None else [sink]
    return {
        "what to do": "tree",
        "queries": contents([query]),
        "shapes": str([(tuple(t.shape), t.dtype) for t in _flat(mine)]),
        "shards": repr(shards),
        "rules": f"{mask!r} {bias!r} {rules['scale']} {rules['softcap']} {summaries!r} "
        f"{contents(arrays)}",
    }


def _check_gradients(query: Any, key: Any, value: Any, bias: Bias | None, sink: Any) -> None:
    given = [("query", query), ("key", key), ("value", value), ("sink", sink)]
    given += [("bias", array) for array in ([] if bias is None else bias.arrays())]
    for name, tensor in given:
        if torch.is_grad_enabled() and getattr(tensor, "requires_grad", False):
            raise GradientError(
                f"{name} wants gradients, which tree() does not have; call it under "
                "torch.no_grad(), or use regard.parallel.ring"
            )
