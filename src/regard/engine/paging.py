"""Keys in a paged cache, read where they lie: what block tables mean and what is accepted.

    key      (blocks, size, Hkv, D), of any strides: the whole cache
    pages    (B, most) int32: the blocks of each sequence, in order; entries beyond its length are
             never looked at
    lengths  (B,) int32: how many keys each sequence has
    query    (B, Lq, Hq, D), or packed (tokens, Hq, D) with cu_seqlens_q: the last queries of each

Sequences become a pack whose n-th key stands in slot n of the cache. Nothing of the cache is copied
for that: eight bytes a key say where it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engine.packing import pack_of, vector
from regard.errors import DTypeError, InputError, ShapeError, UnavailableError
from regard.mask import Pack


class Paged(NamedTuple):
    """A replay's arguments, in the engine's order of axes."""

    query: Tensor  # (Hq, tokens, D)
    key: Tensor  # (blocks, Hkv, size, D)
    slots: Tensor  # (S,) int64: block · size + place in the block
    pack: Pack


def paged(query: Tensor, key: Tensor, pages: Any, lengths: Any, cu_seqlens_q: Any) -> Paged:
    """Queries, and where the keys of their sequences are."""
    if torch.compiler.is_compiling():
        raise UnavailableError(
            "block tables are read on the host, which compiled code cannot do; call replay outside"
        )
    if pages is None or lengths is None:
        missing = "pages" if pages is None else "lengths"
        raise InputError(f"{missing} is missing; a paged cache takes pages= and lengths=, both")
    if key.ndim != 4:
        raise ShapeError(
            f"key has shape {tuple(key.shape)} beside pages; give the cache: (blocks, size, Hkv, D)"
        )
    table, counts = _table(pages, query), vector(lengths, "lengths", query)
    if table.shape[0] != counts.shape[0]:
        raise ShapeError(f"pages has {table.shape[0]} rows, lengths {counts.shape[0]} numbers")
    _check_heads(query, key)
    slots, starts = _slots(table, counts, key.shape[0], key.shape[1])
    query, begun = _queries(query, counts.shape[0], cu_seqlens_q)
    # keys are packed by slot: a view of one number each stands for them
    stands_for = {"query": query, "key": slots.view(-1, 1, 1)}
    pack = pack_of(stands_for, begun, starts)
    return Paged(query.transpose(0, 1), key.permute(0, 2, 1, 3), slots, pack)


def _check_heads(query: Tensor, key: Tensor) -> None:
    """In the order of axes that was given; heads and tokens are easily exchanged."""
    (heads, dim), (key_heads, key_dim) = query.shape[-2:], key.shape[-2:]
    if dim != key_dim or heads % max(key_heads, 1):
        raise ShapeError(
            f"query has shape {tuple(query.shape)}, the cache {tuple(key.shape)}: {heads} query "
            f"heads of {dim} numbers beside {key_heads} key heads of {key_dim}; give query as "
            "(batch, queries, heads, dim) and the cache as (blocks, size, heads, dim), with as "
            "many query heads as key heads or a multiple"
        )


def _queries(query: Tensor, sequences: int, cu_seqlens_q: Any) -> tuple[Tensor, Any]:
    """(tokens, Hq, D), and where sequences begin among them."""
    if cu_seqlens_q is not None:
        return query, cu_seqlens_q
    if query.ndim != 4 or query.shape[0] != sequences:
        raise ShapeError(
            f"query has shape {tuple(query.shape)} beside pages of {sequences} sequences; give "
            f"({sequences}, queries, heads, dim), or (tokens, heads, dim) with cu_seqlens_q"
        )
    each = query.shape[1]
    begun = torch.arange(sequences + 1, device=query.device) * each
    return query.flatten(0, 1), begun


def _table(pages: Any, query: Tensor) -> Tensor:
    if not isinstance(pages, Tensor) or pages.dtype not in (torch.int32, torch.int64):
        said = str(getattr(pages, "dtype", type(pages).__name__)).removeprefix("torch.")
        raise DTypeError(f"pages is {said}; give a tensor of int32 (or int64)")
    if pages.ndim != 2:
        raise ShapeError(f"pages has shape {tuple(pages.shape)}; give (sequences, blocks)")
    return pages.to(query.device)


def _slots(table: Tensor, lengths: Tensor, blocks: int, size: int) -> tuple[Tensor, Tensor]:
    """(S,) the slot of each key, sequence by sequence; (B + 1,) where these begin."""
    most = table.shape[1] * size
    counts = lengths.tolist()
    for n, count in enumerate(counts):
        if not 0 <= count <= most:
            raise InputError(
                f"lengths[{n}] is {count}; {table.shape[1]} pages of {size} keys hold 0 to {most}"
            )
    each = lengths.long()
    starts = torch.nn.functional.pad(each.cumsum(0), (1, 0))
    owner = torch.repeat_interleave(each, output_size=sum(counts))  # (S,): which sequence
    place = torch.arange(owner.shape[0], device=owner.device) - starts[owner]
    block = table.long()[owner, place // max(size, 1)]
    wrong = (block < 0) | (block >= blocks)
    if bool(wrong.any()):
        n = int(wrong.nonzero()[0, 0])
        raise InputError(
            f"pages[{int(owner[n])}, {int(place[n]) // size}] is {int(block[n])}; the cache has "
            f"blocks 0 to {blocks - 1}"
        )
    return block * size + place % max(size, 1), starts


def packed_lse(lse: Tensor, query: Tensor) -> Tensor:
    """(Hq, tokens), out of (B, Hq, Lq) too, as kernels over caches return it."""
    if isinstance(lse, Tensor) and lse.ndim == 3 and query.ndim == 4:
        return lse.transpose(0, 1).flatten(1)
    return lse
