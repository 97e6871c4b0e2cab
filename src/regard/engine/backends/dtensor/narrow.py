"""A call as one rank sees it: its entries, its heads, its queries, and the rules about them.

Masks and score rules speak of the whole problem. Arrays in them are cut along batch and heads;
queries keep their places in the whole by `Part`, which every implementation understands.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.engine.backends.dtensor.layout import Layout
from regard.engine.call import Call
from regard.shapes import AttentionShape
from regard.summary import Summary


def narrow_call(call: Call, at: Layout) -> Call:
    """This rank's share of a call over DTensors, over plain tensors."""
    query = at.local(call.query, at.rows())
    key, value = (_serving(at.local(t, at.keys()), at) for t in (call.key, call.value))
    # rules are cut after they are whole everywhere, so that gradients find their way back
    mine = (call.shape.extent, at.batch, at.heads)
    score = call.score.map(lambda array: at.local(array, at.everywhere())).cut(*mine)
    mask = call.mask
    if mask is not None:
        mask = mask.map(lambda array: at.local(array, at.everywhere())).cut(*mine)
    shape = AttentionShape.of(query.shape, key.shape, value.shape)
    found = Call(query, key, value, mask, score, shape, place=call.place)
    return _placed(found, call, at) if at.splits_queries else found


def narrow_summary(summary: Summary, at: Layout) -> Summary:
    """The summary, with what it holds about tokens cut to this rank's."""
    return summary.cut(at.shape.extent, at.batch, at.heads, at.queries)


def _serving(keys: Tensor, at: Layout) -> Tensor:
    """Of all key heads those that this rank's query heads look at, in their order. Where they
    would serve unequal groups, one copy for each query head."""
    if at.splits_keys:
        return keys
    served = [head // at.shape.group for head in at.heads]
    each = dict.fromkeys(served)
    if len({served.count(head) for head in each}) == 1:
        served = list(each)
    return keys[..., torch.tensor(served, device=keys.device), :, :]


def _placed(local: Call, call: Call, at: Layout) -> Call:
    """The local call with its queries at their places in the whole."""
    place = (at.queries.start, 0, call.shape.queries, call.shape.keys)
    mask, bias = local.mask, local.score.bias
    score = replace(local.score, bias=None if bias is None else bias.seen_from(*place))
    mask = None if mask is None else mask.seen_from(*place)
    return replace(local, mask=mask, score=score, place=call.place_of_first + at.queries.start)
