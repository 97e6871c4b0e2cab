"""What `attend` and its kin accept, by shape, dtype and device alone, so that it can be traced; and
the call they make of it."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import torch
from torch import Tensor

from regard.engine.backends.dtensor import placed_like
from regard.engine.call import Call, RowState
from regard.engine.packing import packed_bias, packed_mask
from regard.engine.torch_state import unwatched
from regard.errors import DeviceError, DTypeError, InputError, ShapeError
from regard.mask import Mask, Pack, as_mask
from regard.score import Bias, LightningScores, ScoreRule, as_bias
from regard.shapes import AttentionShape
from regard.summary import Summary, as_summaries

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, slots: Tensor | None = None
) -> AttentionShape:
    """Tensors of one float dtype on one device, whose shapes fit; keys may be in slots of a cache
    (blocks, Hkv, size, D)."""
    given = {"query": query, "key": key, "value": value}
    check_tensors(given)
    for name, tensor in given.items():
        if tensor.dtype not in FLOATS:
            floats = ", ".join(short(dtype) for dtype in FLOATS)
            raise DTypeError(f"{name} has dtype {short(tensor.dtype)}; give one of {floats}")
    if not query.dtype == key.dtype == value.dtype:
        said = ", ".join(f"{name} {short(tensor.dtype)}" for name, tensor in given.items())
        raise DTypeError(f"{said}: all three need one dtype; cast with .to(query.dtype)")
    if not query.device == key.device == value.device:
        said = ", ".join(f"{name} on {tensor.device}" for name, tensor in given.items())
        raise DeviceError(f"{said}: all three must be on one device")
    keys = key.shape if slots is None else (key.shape[1], slots.shape[0], key.shape[3])
    return AttentionShape.of(query.shape, keys, value.shape)


def check_tensors(given: dict[str, Any]) -> None:
    """Tensors whose numbers lie in strides."""
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"{name} is a {type(tensor).__name__}; give a torch.Tensor")
        if tensor.is_nested:
            raise DTypeError(
                f"{name} is a nested tensor; give its sequences one behind the other with "
                "cu_seqlens_q, which of layout jagged are .values() and .offsets(), or "
                ".to_padded_tensor(0) and mask=regard.Padding(lengths)"
            )
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise DTypeError(f"{name} is a tensor of layout {layout}; give {name}.to_dense()")


def check_dropout(dropout: float) -> float:
    """A probability."""
    if not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise InputError(f"dropout={dropout!r}; give a probability from 0 to 1")
    return float(dropout)


def check_summaries(summaries: Any, shape: AttentionShape) -> tuple[Summary, ...]:
    """Summaries that this shape allows."""
    summaries = as_summaries(summaries)
    for summary in summaries:
        summary.check(shape)
    return summaries


def check_in_backward(given: Any) -> tuple[Summary, ...]:
    """Summaries that a backward measures."""
    for summary in (asked := as_summaries(given)):
        sums = summary.source().column_sums()
        other = sums is None or sums.offsets or sums.largest or sums.by is not None
        if other or (sums is not None and sums.queries is not None):
            raise InputError(
                f"in_backward: {summary!r}; the backward measures what keys received from all "
                "queries: give (regard.Received(),) there, and all else to summaries="
            )
    return asked


def broadcast(query: Tensor, key: Tensor, value: Tensor, grouped: bool) -> tuple[Tensor, ...]:
    """torch lets the axes before tokens broadcast, and only those before heads where heads are
    grouped; here they are spread without copying."""
    tensors, own = (query, key, value), 3 if grouped else 2
    if not all(isinstance(t, Tensor) and t.ndim >= own for t in tensors):
        return tensors
    try:
        shapes = [t.shape[:-own] for t in tensors]
        batch = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        said = ", ".join(str(tuple(t.shape)) for t in tensors)
        hint = "" if grouped else "; heads that are groups need enable_gqa=True"
        raise ShapeError(f"the batch and head axes of {said} do not broadcast{hint}") from error
    return tuple(t.expand(*batch, *t.shape[-own:]) for t in tensors)


def short(dtype: torch.dtype) -> str:
    """Its name without `torch.`."""
    return str(dtype).removeprefix("torch.")


# ── a call out of arguments ──────────────────────────────────────────────────────────────────


def call_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None,
    scale: float | None,
    bias: Tensor | Bias | None,
    softcap: float | None,
    sink: Tensor | None,
    dropout: float,
    pack: Pack | None = None,
    slots: Tensor | None = None,
) -> Call:
    """The call that `attend` makes of its arguments, settled: rules hold tensors of the query's
    device, and nothing has a gradient that is none."""
    shape = check_inputs(query, key, value, slots)
    rules = {"mask": mask, "bias": bias, "sink": sink}
    check_tensors({name: rule for name, rule in rules.items() if isinstance(rule, Tensor)})
    if shape.headless:
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    rule = _score_rule(query, shape, scale, bias, softcap, sink, pack)
    mask = mask if pack is None else packed_mask(pack, mask)
    seen = _as_tensors(mask, query, shape)
    call = Call(query, key, value, seen, rule, shape, dropout, pack=pack, slots=slots)
    if slots is not None and (call.gradients or not unwatched(call.tensors())):
        call = call.read()  # autograd follows a tensor of keys, not where they are
    return _settled(call)


def _settled(call: Call) -> Call:
    """Whether gradients exist is settled now, not when a question is asked."""
    if torch.is_grad_enabled() or not any(t.requires_grad for t in call.tensors()):
        return call
    return call.map(lambda tensor: tensor.detach())


def indexer_call(
    query: Tensor, key: Tensor, mask: Mask | Tensor | None, rule: LightningScores
) -> Call:
    """The call of an indexer whose queries (…, 1, L, H·(D + 1)) hold its weights."""
    shape = AttentionShape.of(query.shape, key.shape, dot=False)
    return _settled(Call(query, key, key[..., :0], _as_tensors(mask, query, shape), rule, shape))


def _as_tensors(mask: Mask | Tensor | None, query: Tensor, shape: AttentionShape) -> Mask | None:
    """The mask with its arrays as tensors beside the query, checked against the problem."""
    if mask is None:
        return None
    mask = as_mask(mask)
    mask.check(shape.extent)
    return mask.map(lambda array: _placed(array, query, "mask"))


def _score_rule(
    query: Tensor,
    shape: AttentionShape,
    scale: float | None,
    bias: Any,
    softcap: float | None,
    sink: Any,
    pack: Pack | None,
) -> ScoreRule:
    """Scale, cap, bias and sink as one value, its arrays as float tensors beside the query."""
    exact = torch.promote_types(query.dtype, torch.float32)
    bias = as_bias(bias)
    if bias is not None:
        cast = None if bias.narrow else exact
        bias = bias.map_numbers(lambda array: _beside(array, query, "bias", cast))
        bias = bias if pack is None else packed_bias(pack, bias)
    if sink is not None:
        sink = _beside(sink, query, "sink", exact)
    # while torch traces, the dim may be a symbol; the rule is text and needs its number
    scale = 1 / math.sqrt(index(shape.dim)) if scale is None else scale
    rule = ScoreRule(scale, softcap, bias, sink)
    rule.check(shape.extent)
    return rule


def _beside(array: Any, query: Tensor, name: str, dtype: torch.dtype | None) -> Tensor:
    """A float tensor on the query's device; numbers typed in by hand move there."""
    by_hand = not isinstance(array, Tensor)
    array = _placed(array, query, name)
    if by_hand:
        dtype = dtype or torch.promote_types(query.dtype, torch.float32)
    elif not array.is_floating_point():
        raise DTypeError(f"{name} has dtype {short(array.dtype)}; give floats")
    return array if dtype is None else array.to(dtype)


def _placed(array: Any, query: Tensor, name: str) -> Tensor:
    """A tensor on the query's device; what is no tensor yet moves there, and is copied, because
    changes in place are noticed of tensors alone."""
    if not isinstance(array, Tensor):
        try:
            array = torch.tensor(array, device=query.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DTypeError(f"{name} is a {type(array).__name__}; give a torch.Tensor") from error
    if array.device != query.device:
        raise DeviceError(f"{name} is on {array.device}, query on {query.device}; move it there")
    return placed_like(array, query)


def given_state(lse: Tensor, call: Call) -> RowState:
    """Somebody's lse as a row state."""
    rows = (*call.shape.batch, call.shape.query_heads, call.shape.queries)
    if not isinstance(lse, Tensor) or not lse.is_floating_point():
        raise DTypeError("lse must be a float tensor, one number per row: (…, Hq, L)")
    lse = _placed(lse, call.query, "lse")
    if call.shape.headless and lse.ndim == 1:
        lse = lse.unsqueeze(0)
    if lse.shape == (*rows, 1):
        lse = lse.squeeze(-1)
    if tuple(lse.shape) != rows:
        raise ShapeError(f"lse has shape {tuple(lse.shape)}; give one number per row: {rows}")
    peak = lse.detach().to(call.exact)
    return RowState(peak, torch.zeros_like(peak))
