"""What `attend` and its kin accept: by shape, dtype and device alone, so that it can be traced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import DeviceError, DTypeError, InputError, ShapeError
from regard.shapes import AttentionShape
from regard.summary import Summary, as_summaries

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check_inputs(query: Tensor, key: Tensor, value: Tensor) -> AttentionShape:
    """Tensors of one float dtype on one device, whose shapes fit."""
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
    return AttentionShape.of(query.shape, key.shape, value.shape)


def check_tensors(given: dict[str, Any]) -> None:
    """Tensors whose numbers lie in strides."""
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"{name} is a {type(tensor).__name__}; give a torch.Tensor")
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise DTypeError(f"{name} is a tensor of layout {layout}; give {name}.to_dense()")


def check_dropout(dropout: float) -> float:
    """A probability."""
    if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
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
        if sums is None or sums.offsets or sums.queries is not None:
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
