"""A call as it was heard, and how its sequences stand: after one another, in pages, in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.attention import Attention
from regard.mask import Mask, Packed, Padding, Rule
from regard.mask.packed import Pack
from regard.score import Bias


class UnreadableError(Exception):
    """What a function computed cannot be said: why not."""


@dataclass(frozen=True, kw_only=True)
class HeardCall:
    """What a function computed."""

    query: Tensor  # (B, Hq, L, D)
    key: Tensor  # (B, Hkv, S, D)
    value: Tensor  # (B, Hkv, S, Dv)
    output: Tensor  # (B, Hq, L, Dv)
    mask: Mask | Tensor | None = None
    scale: float | None = None
    bias: Bias | Tensor | None = None
    softcap: float | None = None
    sink: Tensor | None = None
    starts: Tensor | None = None  # (n + 1,): n sequences stand one after the other, B = 1,
    within: Mask | None = None  # and inside each this mask


def read_by(reader: Callable[..., HeardCall], *args: Any, **kwargs: Any) -> HeardCall:
    """A call in words; one whose arguments the reader does not know cannot be put into any."""
    try:
        signature(reader).bind(*args, **kwargs)
    except TypeError as why:
        raise UnreadableError(f"its arguments are not those that regard knows: {why}") from None
    return reader(*args, **kwargs)


def at_the_end(lengths: Tensor, queries: int, keys: int, inside: Mask | None) -> Mask | None:
    """Caches (B,) that are filled to different lengths, queries at the end of each."""
    if bool((lengths == keys).all()):
        return inside
    filled = Padding(lengths)
    window = None if inside is None else inside.as_window()
    if window is None or (queries == 1 and window.left is None):
        return filled

    def sees(batch: Any, head: Any, i: Any, j: Any) -> Any:
        ahead = j - (i + lengths.to(i.device)[batch] - queries)
        near = ahead <= (keys if window.right is None else window.right)
        return near if window.left is None else near & (ahead >= -window.left)

    return filled & Rule(sees)


def rows_of(cache: Tensor, pages: Tensor, lengths: Tensor) -> Tensor:
    """(B, most tokens, H, D) out of (pages, size, H, D) by (B, pages of each)."""
    return cache[pages.long()].flatten(1, 2)[:, : int(lengths.max())]


def gathered(cache: Tensor, pages: Tensor, lengths: Tensor) -> Tensor:
    """(tokens, H, D): the sequences of a cache of pages, one after the other."""
    rows = rows_of(cache, pages, lengths)
    real = torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]
    return rows[real]


def of_packed(attention: Attention) -> HeardCall:
    """An `attend` over packed sequences, (Hq, tokens, D), as one batch entry."""
    call, score = attention._call, attention._call.score
    pack, mask = cast(Pack, call.pack), cast(Packed, call.mask)
    return HeardCall(
        query=call.query[None],
        key=call.key[None],
        value=call.value[None],
        output=attention.output.transpose(0, 1)[None],
        mask=mask,
        scale=score.scale,
        bias=score.bias,
        softcap=score.softcap,
        sink=score.sink,
        starts=pack.query_starts if pack.key_starts is pack.query_starts else None,
        within=mask.mask,
    )


def unpacked(call: HeardCall, sequences: int | None, real: Tensor | None) -> HeardCall:
    """The batch (B, H, L, D) that a model was given, of which it took the padding out: `real`
    (B, ≥ L) says where tokens are. As it is where the sequences are no such batch."""
    starts = call.starts
    if starts is None or sequences is None or sequences < 2 or len(starts) != sequences + 1:
        return call
    if call.within is not None and any(True for _ in call.within.arrays()):
        return call  # a mask that speaks of each sequence by itself
    lengths = starts.diff().to(call.query.device)
    if real is None and bool((lengths == lengths[0]).all()):
        real = torch.ones(sequences, int(lengths[0]), dtype=torch.bool)
    if real is None or len(real) != sequences:
        return call
    real = real.to(call.query.device)
    if not torch.equal(real.sum(1), lengths):
        return call

    def laid(tensor: Tensor) -> Tensor:
        room = tensor.new_zeros(*real.shape, tensor.shape[1], tensor.shape[3])
        room[real] = tensor[0].transpose(0, 1)
        return room.transpose(1, 2)

    hidden: Mask = Padding(real, real)
    return replace(
        call,
        query=laid(call.query),
        key=laid(call.key),
        value=laid(call.value),
        output=laid(call.output),
        mask=hidden if call.within is None else hidden & call.within,
        starts=None,
    )
