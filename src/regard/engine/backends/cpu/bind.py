"""A call as the kernels want it: pointers and strides, masks as intervals or bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.load import openmp
from regard.engine.backends.cpu.structures import BLOCK_ROWS, CONSTANTS
from regard.engine.call import Call
from regard.mask import Mask, Table, Verdict
from regard.mask.spans import Spans, spans_of
from regard.score import ALiBi, Bias, BiasTable, PartBias, RelativeBias

_STRIP_BYTES = 32 * 2**20  # of booleans of an opaque mask at a time


_KINDS = {torch.bfloat16: CONSTANTS["BRAIN"], torch.float16: CONSTANTS["HALF"]}


def reads_bias(bias: Bias | None) -> bool:
    """Whether the kernels read such a bias; every other is added tile by tile elsewhere."""
    inner = bias.bias if isinstance(bias, PartBias) else bias
    return inner is None or isinstance(inner, BiasTable | ALiBi | RelativeBias)


_templates: dict[tuple[Any, ...], tuple[structures.KernelCall, list[object]]] = {}
_MOST_TEMPLATES = 64  # each holds two numbers a query


class Binding:
    """Keeps every tensor alive that the C structure points into."""

    def __init__(self, call: Call, values: bool = True) -> None:
        """Without `values` the keys stand in their place, for kernels that read none."""
        keys = call.value if call.slots is not None else call.key
        self.call, self.values = call, call.value if values else keys
        self.dtype = call.exact
        self.batch = call.shape.batch
        self.entries = math.prod(self.batch)
        self._alive: list[object] = []

    @cached_property
    def _split(self) -> tuple[Spans | None, Mask | None]:
        return spans_of(self.call.mask, self.call.shape.extent)

    @property
    def wide(self) -> bool:
        """Whether the kernels compute in double precision."""
        return self.dtype == torch.float64

    def plain(self, tensor: Tensor) -> Tensor:
        """(*batch, H, N, D) → (B, H, N, D) in the kernels' dtype, last axis contiguous."""
        flat = tensor.detach() if tensor.requires_grad else tensor
        flat = flat if flat.dtype == self.dtype else flat.to(self.dtype)
        if flat.ndim != 4:
            flat = flat.reshape(self.entries, *tensor.shape[-3:])
        flat = flat if flat.stride(-1) == 1 or flat.shape[-1] <= 1 else flat.contiguous()
        self._alive.append(flat)
        return flat

    def strips(self) -> Iterable[structures.KernelCall]:
        """The call, in as many pieces (ranges of queries) as an opaque mask makes necessary."""
        whole = self._copied()
        if whole is not None:
            return [whole]
        rest = self._split[1]
        if rest is None:
            return [self._structure()]
        if isinstance(rest, Table):
            whole = self._structure()
            self._see(whole, rest.table)
            return [whole]
        return self._strips(rest)

    def _strips(self, rest: Mask) -> Iterator[structures.KernelCall]:
        shape = self.call.shape
        for start, end, hides in self._strip_bounds(rest):
            piece = self._structure()
            piece.first_query, piece.last_query = start, end
            if hides:
                i, j = torch.arange(start, end), torch.arange(shape.keys)
                self._see(piece, rest.allows(i, j, shape.extent), rows=end - start)
            yield piece

    def _copied(self) -> structures.KernelCall | None:
        """The structure of an earlier call that differs in its tensors alone: a model calls with
        the same shapes and the same mask again and again."""
        call, mask, score = self.call, self.call.mask, self.call.score
        if not (mask is None or mask.is_flat) or score.bias is not None or score.sink is not None:
            return None
        if call.slots is not None:
            return None
        q, k, v = self.plain(call.query), self.plain(call.key), self.plain(self.values)
        key = (
            mask, call.shape, self.dtype, score.scale, score.softcap, call.place, q.stride(),
            k.stride(), v.stride(), torch.get_num_threads(),
        )  # fmt: skip
        made = _templates.get(key)
        if made is None:
            if self._split[1] is not None:
                return None
            kept = Binding(call, self.values is call.value)
            made = kept._structure(), kept._spans_alive
            if len(_templates) >= _MOST_TEMPLATES:
                _templates.clear()
            _templates[key] = made
        copy = structures.KernelCall.from_buffer_copy(made[0])
        copy.q, copy.k, copy.v = q.data_ptr(), k.data_ptr(), v.data_ptr()
        self._alive.append(made[1])
        return copy

    def _strip_bounds(self, rest: Mask) -> Iterator[tuple[int, int, bool]]:
        """Ranges of whole blocks of queries, small enough as booleans where the mask hides
        something from them; those that see everything need none."""
        shape = self.call.shape
        i, j = (torch.arange(min(n, 1)) for n in (shape.queries, shape.keys))
        sample = rest.allows(i, j, shape.extent)
        row = max(1, sample.numel()) * max(1, shape.keys)
        most = max(1, _STRIP_BYTES // row // BLOCK_ROWS) * BLOCK_ROWS
        start, before = 0, False
        for block in range(0, shape.queries, BLOCK_ROWS):
            rows = range(block, min(block + BLOCK_ROWS, shape.queries))
            hides = rest.verdict(rows, range(shape.keys), shape.extent) is not Verdict.ALL
            if block > start and (hides != before or (hides and block - start >= most)):
                yield start, block, before
                start = block
            before = hides
        yield start, shape.queries, before

    def _structure(self) -> structures.KernelCall:
        call, shape = self.call, self.call.shape
        c = structures.KernelCall(
            self.entries, shape.query_heads, shape.key_heads, shape.queries, shape.keys,
            shape.dim, shape.value_dim,
        )  # fmt: skip
        given = (("q", call.query), ("k", call.key), ("v", self.values))
        for name, tensor in given if call.slots is None else (given[0], given[2]):
            flat = self.plain(tensor)
            setattr(c, name, flat.data_ptr())
            getattr(c, f"{name}_strides")[:] = flat.stride()[:3]
        if call.slots is not None:
            self._add_cache(c, call.key.detach(), call.slots)
        c.scale = call.score.scale
        c.softcap = call.score.softcap or 0.0
        c.last_query = shape.queries
        position = call.position
        if isinstance(position, Tensor):
            c.places = self._keep(position.long() + torch.arange(shape.queries))
        else:
            c.distance_shift = position
        c.threads = torch.get_num_threads()
        c.parallel = openmp()
        self._add_bias(c)
        self._add_spans(c, self._split[0])
        if call.score.sink is not None:
            c.sink = self._keep(call.score.sink.detach().to(self.dtype).contiguous())
        return c

    def _add_cache(self, c: structures.KernelCall, cache: Tensor, slots: Tensor) -> None:
        """Keys where they lie, whatever the strides and the precision of the cache."""
        block, head, place, along = cache.stride()
        size = cache.shape[2]
        c.k, c.k_strides[1], c.k_step = self._keep(cache), head, along
        c.k_rows = self._keep((slots // size * block + slots % size * place).contiguous())
        c.k_kind = _KINDS.get(cache.dtype, CONSTANTS["AS_COMPUTED"])

    def _add_bias(self, c: structures.KernelCall) -> None:
        bias, extent = self.call.score.bias, self.call.shape.extent
        down = across = 0  # where the part begins in the problem the bias speaks of
        here = extent
        if isinstance(bias, PartBias):
            down, across, here, bias = (
                bias.query_start, bias.key_start, bias.within(extent), bias.bias,
            )  # fmt: skip
        c.bias_shift = down - across
        if isinstance(bias, BiasTable):
            table = bias.table.detach().to(self.dtype).expand(here.full)
            table = table[..., down : down + extent.queries, across : across + extent.keys]
            table = table.reshape(self.entries, *extent.full[-3:])
            c.bias_kind, c.bias = CONSTANTS["BIAS_TABLE"], self._keep(table)
            c.bias_strides[:] = table.stride()
        elif isinstance(bias, ALiBi):
            c.bias_kind = CONSTANTS["BIAS_SLOPES"]
            c.bias = self._keep(bias.slopes.detach().to(self.dtype).contiguous())
            c.bias_shift += here.shift(bias.align)
        elif isinstance(bias, RelativeBias):
            by_distance = bias.table.detach().to(self.dtype)[torch.from_numpy(bias.buckets())].T
            c.bias_kind, c.bias = (
                CONSTANTS["BIAS_BY_DISTANCE"],
                self._keep(by_distance.contiguous()),
            )
            c.bias_shift += here.shift(bias.align)
            c.bias_reach = bias.max_distance

    def _add_spans(self, c: structures.KernelCall, spans: Spans | None) -> None:
        self._spans_alive: list[object] = []
        if spans is None:
            return
        queries = self.call.shape.queries
        full = (*(self.batch if spans.low.ndim > 1 or spans.high.ndim > 1 else ()), queries)
        low, high = (
            np.ascontiguousarray(np.broadcast_to(side, full), dtype=np.int64) for side in spans
        )
        self._spans_alive = [low, high]
        self._alive += self._spans_alive
        c.span_low, c.span_high = low.ctypes.data, high.ctypes.data
        c.span_stride = queries if len(full) > 1 else 0

    def _see(self, c: structures.KernelCall, allowed: Tensor, rows: int | None = None) -> None:
        shape = self.call.shape
        full = (*self.batch, shape.query_heads, rows or shape.queries, shape.keys)
        seen = allowed.expand(full).reshape(self.entries, *full[-3:])
        c.seen = self._keep(seen)
        c.seen_strides[:] = seen.stride()

    def _keep(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()
