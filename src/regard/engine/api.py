"""attend(): what it means and what it accepts. Everything is checked here, before any kernel."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.engine.choose import choose
from regard.engine.matrix import Attention
from regard.engine.problem import Call
from regard.errors import DeviceError, DTypeError, InputError
from regard.mask import Mask, as_mask
from regard.score import Bias, ScoreRule, as_bias
from regard.shapes import AttentionShape
from regard.summary import Summary

__all__ = ["attend"]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
    summaries: tuple[Summary, ...] = (),
    implementation: str | None = None,
) -> Attention:
    """Softmax attention whose result answers questions about where it looked.

    query (…, Hq, L, D), key (…, Hkv, S, D), value (…, Hkv, S, Dv); Hq a multiple of Hkv.

    mask            a regard mask, or booleans broadcastable to (…, Hq, L, S), True = may attend
    scale           multiplies q·k; 1/√D where not given
    bias            added to scaled and capped scores; −inf counts as masked
    softcap         cap·tanh(score/cap)
    sink            (Hq,): one more key per head whose value is zero
    dropout         on the weights that make the output; statistics never see it
    summaries       what to measure during the forward, such as regard.Entropy()
    implementation  a name to insist on; without it the fastest that can serve the call

    Order: scale → soft cap → bias → mask → sink → softmax.
    """
    shape = _check_inputs(query, key, value)
    query, key, value = (t.unsqueeze(0) if shape.headless else t for t in (query, key, value))
    call = Call(
        query,
        key,
        value,
        mask=_as_tensors(None if mask is None else as_mask(mask), query, shape),
        score=_score_rule(query, shape, scale, bias, softcap, sink),
        shape=shape,
        dropout=_check_dropout(dropout),
    )
    summaries = tuple(summaries)
    for summary in summaries:
        if not isinstance(summary, Summary):
            raise InputError(f"summaries: {summary!r} is not a summary; give e.g. regard.Entropy()")
        summary.check(shape)
    chosen = choose(call.problem(summaries), implementation)
    return Attention(call, chosen.attend(call, summaries), chosen)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor) -> AttentionShape:
    """Tensors of one float dtype on one device, whose shapes fit."""
    given = {"query": query, "key": key, "value": value}
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"{name} is a {type(tensor).__name__}; give a torch.Tensor")
        if tensor.dtype not in FLOATS:
            floats = ", ".join(_short(dtype) for dtype in FLOATS)
            raise DTypeError(f"{name} has dtype {_short(tensor.dtype)}; give one of {floats}")
    if len({tensor.dtype for tensor in given.values()}) > 1:
        said = ", ".join(f"{name} {_short(tensor.dtype)}" for name, tensor in given.items())
        raise DTypeError(f"{said}: all three need one dtype; cast with .to(query.dtype)")
    if len({tensor.device for tensor in given.values()}) > 1:
        said = ", ".join(f"{name} on {tensor.device}" for name, tensor in given.items())
        raise DeviceError(f"{said}: all three must be on one device")
    return AttentionShape.of(query.shape, key.shape, value.shape)


def _as_tensors(mask: Mask | None, query: Tensor, shape: AttentionShape) -> Mask | None:
    """The mask with its arrays as tensors beside the query, checked against the problem."""
    if mask is None:
        return None
    mask.check(shape.extent)
    return mask.map(lambda array: torch.as_tensor(array, device=query.device))


def _score_rule(
    query: Tensor,
    shape: AttentionShape,
    scale: float | None,
    bias: Any,
    softcap: float | None,
    sink: Tensor | None,
) -> ScoreRule:
    """Scale, cap, bias and sink as one value, its arrays as float tensors beside the query."""
    if sink is not None and not isinstance(sink, Tensor):
        sink = torch.as_tensor(sink)
    if sink is not None and not sink.is_floating_point():
        raise DTypeError(f"sink has dtype {_short(sink.dtype)}; give floats")
    scale = 1 / math.sqrt(shape.dim) if scale is None else scale
    rule = ScoreRule(scale, softcap, as_bias(bias), sink)
    rule.check(shape.extent)
    exact = torch.promote_types(query.dtype, torch.float32)

    def beside(array: Any) -> Tensor:
        tensor = torch.as_tensor(array)
        if isinstance(array, Tensor) and array.device != query.device:
            raise DeviceError(
                f"bias or sink is on {array.device}, query on {query.device}; move it there"
            )
        # numbers typed in by hand take the query's precision; tensors keep their own
        return tensor if isinstance(array, Tensor) else tensor.to(query.device, exact)

    return rule.map(beside)


def _check_dropout(dropout: float) -> float:
    if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise InputError(f"dropout={dropout!r}; give a probability from 0 to 1")
    return float(dropout)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
