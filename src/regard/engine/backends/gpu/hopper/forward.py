"""Launching the kernel; it writes what ../forward.py writes."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.engine.backends.gpu.bind import Bound
from regard.engine.backends.gpu.forward import Asked, Found, Watcher, new_found
from regard.engine.backends.gpu.hopper.kernel import attention
from regard.engine.backends.gpu.hopper.sweeps import DIMS, DTYPES
from regard.engine.backends.gpu.hopper.walk import ranges_of
from regard.engine.backends.gpu.launch import EXACT, across, blocks, run
from regard.engine.call import RowState

_ROWS, _KEYS, _STAGES = 128, 128, 2  # for every head dim, dtype, length and batch

# of the second consumer and of the producer; the first consumer gets what is left of 168 each
_REGISTERS = (240, 24)


def fits(bound: Bound, output: bool, watcher: Watcher | None = None) -> bool:
    """Whether the kernel serves a call, now that its tensors are seen."""
    dim = bound.query.shape[-1]
    tensors = (bound.query, bound.key, *([bound.value] if output else []))
    return (
        bound.fast and bound.plain and bound.query.dtype in DTYPES and dim in DIMS
        and (not output or bound.value.shape[-1] == dim)
        and (watcher is None or watcher.tall % _ROWS == 0)  # maxima come in whole blocks of rows
        and all(_fetched(t) for t in tensors)
    )  # fmt: skip


def _fetched(tensor: Tensor) -> bool:
    """Whether the copy engine can walk all four axes: it takes no empty tensor, and no axis that
    stands still, unless it is of size 1."""
    return across(tensor) and all(
        stride > 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )


def _apart(tensor: Tensor) -> list[int]:
    """Strides of batch, head and token; those of axes of size 1 may be anything, so something
    that the copy engine takes."""
    token = tensor.stride(-2)
    sizes, strides = tensor.shape[:-1], tensor.stride()[:-1]
    return [stride if size > 1 else token for size, stride in zip(sizes, strides, strict=True)]


def forward(
    bound: Bound,
    output: bool,
    names: set[str],
    given: RowState | None,
    watcher: Watcher | None = None,
) -> Found:
    """`names` among entropy, raw, logit, squares, away, visible."""
    rows, found = bound.rule.queries, new_found(bound, output, names)
    tall, maxima = rows, None
    if watcher is not None:
        tall = watcher.tall
        maxima = bound.new(blocks(bound.rule.keys, 64), tall)
    ranges = ranges_of(bound.rule, (_ROWS, _KEYS))
    programs = _multiprocessors(bound.query.device)
    for start in range(0, rows, tall):
        told, constants = arguments(bound, found, given, maxima, ranges, start, tall)
        items = blocks(min(tall, rows - start), _ROWS) * bound.units
        run(attention, (min(programs, items),), *told, **constants)
        if watcher is not None and maxima is not None:
            watcher.see(maxima, start, found.state if given is None else given)
    return found


@cache
def _multiprocessors(device: torch.device) -> int:
    """One program each."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def arguments(
    bound: Bound,
    found: Found,
    given: RowState | None,
    maxima: Tensor | None,
    ranges: Tensor | None,
    start: int,
    tall: int,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Of one launch, for rows from `start` on, at most `tall` of them: what the kernel is told, in
    its order, and what it is compiled for."""
    rule, query, key = bound.rule, bound.query, bound.key
    value = key if found.output is None else bound.value
    parts = (None, None) if given is None else tuple(t.to(bound.exact).contiguous() for t in given)
    many = blocks(min(tall, rule.queries - start), _ROWS)
    items, crowd = many * bound.units, 1 if rule.most is None else bound.units
    apart = 0 if ranges is None or ranges.shape[0] == 1 else ranges.stride(0)
    told = (
        query, key, value, Asked.of(found, found.output, maxima), tuple(found.state), parts,
        rule.low, rule.high, ranges, rule.sink, rule.scale, query.shape[0], rule.heads, rule.group,
        rule.queries, rule.keys, rule.position, rule.least, rule.most, rule.span_stride, apart,
        items, many, start // _ROWS, tall, crowd, *_apart(query), *_apart(key), *_apart(value),
    )  # fmt: skip
    return told, {
        "D": query.shape[-1], "KEYS": _KEYS, "STAGES": _STAGES,
        "OUTPUT": found.output is not None, "REGISTERS": _REGISTERS, "num_warps": 4,
        "maxnreg": 168, **EXACT,
    }  # fmt: skip
