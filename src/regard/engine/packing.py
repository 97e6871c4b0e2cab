"""Packed sequences as arguments: what `cu_seqlens` mean and what is accepted.

    query (tokens, Hq, D)   key (tokens, Hkv, D)   value (tokens, Hkv, Dv)

Tokens come first, as FlashAttention's varlen functions have them; the engine reads them turned,
(heads, tokens, dim), without a copy, as one row of tokens under a mask that keeps sequences apart.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard.engine.torch_state import capturing
from regard.errors import DeviceError, DTypeError, InputError, ShapeError
from regard.mask import Mask, Pack, Packed, as_mask
from regard.score import Bias, PackedBias


def pack_of(given: dict[str, Tensor], cu_seqlens_q: Any, cu_seqlens_k: Any) -> Pack:
    """Where the sequences of packed query, key (and value) begin; keys like queries where only
    these are told."""
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor) or tensor.ndim != 3:
            said = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ShapeError(
                f"{name} is {said} beside cu_seqlens_q; packed tensors have three axes: "
                "(tokens, heads, dim)"
            )
    if cu_seqlens_q is None:
        raise InputError("cu_seqlens_k is given without cu_seqlens_q; give both, or both as one")
    query, key = given["query"], given["key"]
    queries, begun = _starts(cu_seqlens_q, "cu_seqlens_q", query, query.shape[0])
    if cu_seqlens_k is None and query.shape[0] != key.shape[0]:
        raise InputError(
            f"{query.shape[0]} queries and {key.shape[0]} keys with cu_seqlens_q alone, which "
            "speaks of both where they are as many; give cu_seqlens_k too"
        )
    if cu_seqlens_k is None or cu_seqlens_k is cu_seqlens_q:
        if query.shape[0] != key.shape[0]:
            raise InputError(
                f"cu_seqlens_k is cu_seqlens_q, but there are {query.shape[0]} queries and "
                f"{key.shape[0]} keys; give the keys' own"
            )
        return Pack(queries, queries)
    keys, other = _starts(cu_seqlens_k, "cu_seqlens_k", query, key.shape[0])
    if keys.shape != queries.shape:
        raise ShapeError(
            f"cu_seqlens_q has {queries.shape[0]} numbers, cu_seqlens_k {keys.shape[0]}; give one "
            "more than there are sequences, for queries and keys alike"
        )
    return Pack(queries, queries if begun and begun == other else keys)


def _starts(given: Any, name: str, query: Tensor, tokens: int) -> tuple[Tensor, list[int]]:
    """(N + 1,) int64: from 0 up to the number of tokens, each sequence's first token; and the same
    as numbers, none where they cannot be read."""
    starts = vector(given, name, query)
    if starts.shape[0] == 0:
        raise ShapeError(f"{name} is empty; give 0 and the end of each sequence")
    numbers = _numbers(starts)
    falls = [n for n in range(1, len(numbers)) if numbers[n] < numbers[n - 1]]
    if numbers and numbers[0] != 0:
        raise InputError(f"{name} begins with {numbers[0]}; the first sequence begins at 0")
    if falls:
        before, after = numbers[falls[0] - 1 : falls[0] + 1]
        raise InputError(
            f"{name} falls from {before} to {after}; give each sequence's first token, in "
            "ascending order (an empty one repeats the number)"
        )
    if numbers and numbers[-1] != tokens:
        raise InputError(
            f"{name} ends with {numbers[-1]}, and there are {tokens} tokens; the last number is "
            "the end of the last sequence"
        )
    return starts.long(), numbers


# of starts on a GPU, with their version: a model calls with the same ones in every layer, and each
# reading waits for the GPU
_READ: Any = WeakIdKeyDictionary()


def _numbers(starts: Tensor) -> list[int]:
    """Their values; none while torch traces or a CUDA graph is captured."""
    if torch.compiler.is_compiling() or capturing(starts.device):
        return []
    if not starts.is_cuda or starts.is_inference():  # which does not tell when it was changed
        return starts.tolist()
    version, numbers = _READ.get(starts, (None, []))
    if version != starts._version:
        numbers = starts.tolist()
        _READ[starts] = starts._version, numbers
    return numbers


def vector(given: Any, name: str, query: Tensor) -> Tensor:
    """A vector of whole numbers beside the query; numbers typed in by hand move there."""
    if not isinstance(given, Tensor):
        try:
            given = torch.tensor(given, device=query.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DTypeError(f"{name} is a {type(given).__name__}; give a torch.Tensor") from error
    if given.dtype not in (torch.int32, torch.int64):
        said = str(given.dtype).removeprefix("torch.")
        raise DTypeError(f"{name} has dtype {said}; give int32 (or int64)")
    if given.ndim != 1:
        raise ShapeError(f"{name} has shape {tuple(given.shape)}; give a vector")
    if given.device != query.device:
        raise DeviceError(f"{name} is on {given.device}, query on {query.device}; move it there")
    return given


def packed_mask(pack: Pack, mask: Mask | Tensor | None) -> Mask:
    """The mask of each sequence, of all of them."""
    keys = None if pack.key_starts is pack.query_starts else pack.key_starts
    return Packed(pack.query_starts, keys, None if mask is None else as_mask(mask))


def packed_bias(pack: Pack, bias: Bias | None) -> Bias | None:
    """The bias of each sequence, of all of them. One that depends on distances alone is the same
    in a pack whose queries and keys begin together."""
    if bias is None or (bias.is_relative and pack.key_starts is pack.query_starts):
        return bias
    return PackedBias(pack.query_starts, pack.key_starts, bias)
