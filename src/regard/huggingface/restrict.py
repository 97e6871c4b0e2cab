"""Who may see whom, from everything transformers passes: a mask, a bias, how many keys count."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError, ShapeError, UnavailableError
from regard.huggingface.descriptor import MaskDescriptor
from regard.mask import Causal, Documents, Mask, Table, Window


class CallSize(NamedTuple):
    """The sizes of one call."""

    batch: int
    queries: int
    keys: int


class Restriction(NamedTuple):
    """What `attend` is told."""

    mask: Mask | None
    bias: Tensor | None
    reach: int  # keys beyond are seen by no query
    counted: Tensor | None = None  # (B, L): queries that are no padding; None: all, or not known
    additive: Tensor | None = None  # (B, heads, L, S): the mask as it was given, to be added
    complete: bool = False  # every query is known to see a key

    @property
    def is_plain(self) -> bool:
        """Every row counts and sees a key, so that all implementations agree on the output. A
        window holds one's own position."""
        if self.counted is not None or self.additive is not None:
            return False
        return self.complete or self.mask is None or self.mask.as_window() is not None


def restriction(
    given: MaskDescriptor | Tensor | None,
    size: CallSize,
    causal: bool,
    window: int | None = None,
    position_bias: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    indices: Tensor | None = None,
    positions: Tensor | None = None,
    adds: bool = False,
) -> Restriction:
    """The mask, the bias and the packing of one call as one.

    A mask says all there is to say about causality, windows and packing by `positions` (batch,
    tokens); these three count without one, as where DeepSpeed trades tokens for heads. Eager
    adds whatever tensor it is given to the scores, booleans too: True is 1.
    """
    if adds and isinstance(given, Tensor) and given.dtype == torch.bool:
        given = given.float()
    if given is not None:
        found = _given(given, size)
    else:
        found = _without(size, causal, window)
        apart = _restarted(positions, size, causal)
        found = found if apart is None else found._replace(mask=_meet(found.mask, apart))
    if cu_seq_lens_q is not None:
        packed = _packed(cu_seq_lens_q, cu_seq_lens_k, size, causal)
        found = found._replace(mask=_meet(found.mask, packed))
    if indices is not None:
        table = _selected(indices, size.keys)[..., : found.reach]
        found = found._replace(mask=_meet(found.mask, Table(table)))
    if position_bias is not None:
        bias = position_bias[..., : found.reach]
        found = found._replace(bias=bias if found.bias is None else bias + found.bias)
    return found


def described(mask: MaskDescriptor, size: CallSize) -> Restriction:
    """What our own mask says, found once for all layers that it is handed to."""
    if torch.compiler.is_compiling():  # where sizes are symbols
        return _described(mask, size)
    found: Restriction | None = mask.told.get(size)
    if found is None:
        found = mask.told[size] = _described(mask, size)
    return found


def _described(mask: MaskDescriptor, size: CallSize) -> Restriction:
    if _is_spread(mask, size):
        return _given(mask.dense, size)
    if _is_compressed(mask, size):
        return Restriction(mask.mask, None, size.keys, complete=mask.complete)
    _check_size(mask, size)
    return Restriction(mask.mask, None, mask.reach, mask.counted, complete=mask.complete)


def _given(mask: MaskDescriptor | Tensor, size: CallSize) -> Restriction:
    """Our own mask, or a tensor (B, heads, L, S) somebody made: booleans or additive numbers."""
    if isinstance(mask, MaskDescriptor):
        return described(mask, size)
    if not isinstance(mask, Tensor):
        raise DTypeError(
            f"attention_mask is a {type(mask).__name__}; give a tensor (batch, tokens), or one "
            "of booleans or floats (batch, heads, queries, keys)"
        )
    if mask.ndim != 4:
        raise ShapeError(
            f"attention_mask has shape {tuple(mask.shape)}; the layer has {size.queries} queries "
            f"and {size.keys} keys and takes (batch, heads, queries, keys)"
        )
    if mask.dtype == torch.bool:
        return Restriction(Table(mask), None, size.keys)
    if not mask.is_floating_point():
        raise DTypeError(
            f"attention_mask (batch, heads, queries, keys) has dtype {mask.dtype}; give booleans, "
            "True = may attend, or floats that are added to the scores"
        )
    return Restriction(None, _additive(mask), size.keys, additive=mask)


def _is_spread(mask: MaskDescriptor, size: CallSize) -> bool:
    """Whether one row stands for all queries, or one column for all keys, as torch repeats them."""
    pairs = ((mask.shape[2], size.queries), (mask.shape[3], size.keys))
    return any(n == 1 != many for n, many in pairs) and all(n in (1, many) for n, many in pairs)


def _is_compressed(mask: MaskDescriptor, size: CallSize) -> bool:
    """Whether one token goes on from a cache with other keys than the first layer's, for which
    masks are made, and sees them all: a press may leave each layer another number of keys."""
    other = size.queries == mask.shape[2] == 1 and size.keys != mask.shape[3] == mask.reach
    if not other or mask.counted is not None:
        return False
    window = None if mask.mask is None else mask.mask.as_window()
    return mask.mask is None or (
        window is not None and window.left is None and window.align == "end"
    )


def _check_size(mask: MaskDescriptor, size: CallSize) -> None:
    """A mask of positions would fit any size, wrongly."""
    if tuple(mask.shape[2:]) != (size.queries, size.keys):
        raise UnavailableError(
            f"the mask speaks of {mask.shape[2]} queries and {mask.shape[3]} keys, the layer has "
            f"{size.queries} and {size.keys}: this model adds tokens after its mask was made, "
            "which attn_implementation='regard' does not follow; 'eager' does"
        )


def _additive(mask: Tensor) -> Tensor:
    """Numbers to add to scores, −∞ where they forbid.

    transformers writes the most negative number of the dtype for "may not attend", and sums of
    masks lie near it. Half of it is further than any score reaches, in every dtype.
    """
    return mask.masked_fill(mask <= torch.finfo(mask.dtype).min / 2, -torch.inf)


def _without(size: CallSize, causal: bool, window: int | None) -> Restriction:
    """No mask: keys beyond the queries are slots of an empty static cache in causal attention.
    A window of 0 is how some configurations say that there is none."""
    left = window - 1 if window else None
    if not causal:
        mask = None if left is None or left >= size.keys - 1 else Window(left, left)
        return Restriction(mask, None, size.keys)
    if size.queries == 1:
        mask = None if left is None or left >= size.keys - 1 else Window(left, None)
        return Restriction(mask, None, size.keys)
    reach = min(size.queries, size.keys)
    start = Causal("start")
    mask_ = start if left is None or left >= reach - 1 else start & Window(left, 0, "start")
    return Restriction(mask_, None, reach)


def _packed(q: Tensor, k: Tensor | None, size: CallSize, causal: bool) -> Mask:
    """Sequences one after the other, by where each begins: (0, 3, 7) is one of 3 and one of 4."""
    if causal and size.queries != size.keys:
        raise InputError(
            f"cu_seq_lens_q packs sequences, with {size.queries} queries and {size.keys} keys; "
            "packed causal attention takes as many of each: leave out the cache"
        )
    queries = _ids(q, size.batch, size.queries)
    return Documents(queries, queries if k is None else _ids(k, size.batch, size.keys))


def _restarted(positions: Tensor | None, size: CallSize, causal: bool) -> Mask | None:
    """Sequences one after the other, by where their positions start again; None for one sequence.

    By transformers' own two rules: its masks part causal sequences at any step that is not 1, its
    flash attention all others at position 0. Positions of another shape are not of these tokens.
    """
    if positions is None or size.queries != size.keys or size.queries < 2:
        return None
    if tuple(positions.shape) not in ((1, size.keys), (size.batch, size.keys)):
        return None
    begins = positions.diff(dim=-1) != 1 if causal else positions[:, 1:] == 0
    if not torch.compiler.is_compiling() and not bool(begins.any()):
        return None
    return Documents(torch.nn.functional.pad(begins.cumsum(-1), (1, 0)))


def _ids(starts: Tensor, batch: int, tokens: int) -> Tensor:
    """(batch, tokens): the sequence each token belongs to, counted over the flattened batch."""
    places = torch.arange(batch * tokens, device=starts.device)
    return torch.bucketize(places, starts[1:].to(places.dtype), right=True).view(batch, tokens)


def _selected(indices: Tensor, keys: int) -> Tensor:
    """Sparse attention's choice, the keys (batch, queries, some) each query may see, as booleans
    (batch, 1, queries, keys)."""
    table = torch.zeros(*indices.shape[:-1], keys, dtype=torch.bool, device=indices.device)
    return table.scatter_(-1, indices.long(), True).unsqueeze(1)


def _meet(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other
