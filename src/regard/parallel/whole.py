"""The rules of the whole sequence, seen from one block: some of the queries, some of the keys.

Masks, biases and summaries are given for the whole sequence. A block is a piece of the queries
against a piece of the keys; `Part` and `PartBias` say where it stands. All arithmetic is the
engine's: `attend_partial` for the forward, its operators for what comes later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.arrays import host
from regard.engine.api import attend_partial
from regard.engine.call import Call
from regard.engine.codec import Spec
from regard.engine.plan import MEASURING, choose, sweeps_for
from regard.mask import Mask, Verdict, as_mask
from regard.mask.base import Part
from regard.parallel.shards import Piece
from regard.score import PartBias, ScoreRule, as_bias
from regard.shapes import AttentionShape
from regard.state import Partial
from regard.summary import Summary

__all__ = ["Whole"]


@dataclass(frozen=True, eq=False)
class Whole:
    """One attention problem of which no rank holds all tokens."""

    shape: AttentionShape  # of the whole problem
    mask: Mask | None  # arrays are tensors beside the queries
    score: ScoreRule  # with the sink, which belongs to no block
    implementation: str | None  # as the caller named it
    blocks: str | None = None  # who computes blocks of the forward; None: whoever is fastest
    sweeps: str = ""  # who sweeps later: backward, columns, maps

    @classmethod
    def of(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        tokens: int,
        mask: Any,
        score: tuple[float | None, float | None, Any, Any],
        summaries: tuple[Summary, ...],
        implementation: str | None,
    ) -> Whole:
        """From this rank's tensors and the caller's words, all checked by the engine. `score` is
        scale, softcap, bias and sink."""
        scale, softcap, bias, sink = score
        local = AttentionShape.of(query.shape, key.shape, value.shape)
        shape = replace(local, queries=tokens, keys=tokens)
        exact = torch.promote_types(query.dtype, torch.float32)

        def beside(array: Any, dtype: torch.dtype | None = None) -> Tensor:
            tensor = torch.as_tensor(array, device=query.device)
            return tensor if dtype is None else tensor.to(dtype)

        mask = None if mask is None else as_mask(mask).map(beside)
        bias = as_bias(bias)
        if bias is not None:
            kept = None if bias.narrow else exact
            bias = bias.map(lambda array: beside(array, kept))
        scale = 1 / math.sqrt(shape.dim) if scale is None else scale
        sink = None if sink is None else beside(sink, exact)
        rule = ScoreRule(scale, softcap, bias, sink)
        rule.check(shape.extent)
        if mask is not None:
            mask.check(shape.extent)
        for summary in summaries:
            summary.check(shape)
        whole = cls(shape, mask, rule, implementation)
        # asked about no token at all: the engine checks every word, before anything travels
        merging = [summary for summary in summaries if summary.merges]
        whole.unseen(query.detach()[..., :0, :], key.detach(), value.detach(), Piece(0, 0), merging)
        return whole._served(query, key, value, summaries)

    def _served(
        self, query: Tensor, key: Tensor, value: Tensor, summaries: tuple[Summary, ...]
    ) -> Whole:
        """With those who compute: the named implementation, UnavailableError says why not; else
        on the CPU our own kernels, whose lse later sweeps can build on."""
        nowhere = Piece(0, 0)
        call = self.call(query, key, value, nowhere, nowhere, sink=True)
        later = sweeps_for(call, "").name  # gradients of biases and all
        if self.implementation is not None:
            chosen = choose(call.problem(summaries), self.implementation).name
            later = chosen if chosen in MEASURING else later
            return replace(self, blocks=self.implementation, sweeps=later)
        with torch.no_grad():
            own = sweeps_for(call, "").name if query.device.type == "cpu" else None
        return replace(self, blocks=own, sweeps=later)

    @property
    def tokens(self) -> int:
        """Of the whole sequence."""
        return self.shape.keys

    # ── blocks ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _on_host(self) -> Mask | None:
        """Verdicts look at arrays: fetched from the device once."""
        return None if self.mask is None else self.mask.map(host)

    def verdict(self, rows: Piece, cols: Piece) -> Verdict:
        """Whether none, some or all of a block may be seen."""
        if self._on_host is None:
            return Verdict.ALL
        return self._on_host.verdict(range(*rows), range(*cols), self.shape.extent)

    def partial(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Piece,
        cols: Piece,
        summaries: Sequence[Summary] = (),
    ) -> Partial:
        """Attention of one block, to be merged with that of the others."""
        seen_whole = cols.length > 0 and self.verdict(rows, cols) is Verdict.ALL
        extent = self.shape.extent
        some = tuple(map(range, extent.batch)), range(extent.heads), range(*rows), range(*cols)
        here = {summary: summary.cut(extent, *some) for summary in summaries}
        found = attend_partial(
            query, key, value,
            mask=None if seen_whole else self.mask,
            scale=self.score.scale, bias=self.score.bias, softcap=self.score.softcap,
            summaries=tuple(here.values()), implementation=self.blocks,
            query_start=rows.start, key_start=cols.start,
            total_queries=self.tokens, total_keys=self.tokens,
        )  # fmt: skip
        return replace(found, summaries={s: found.summaries[part] for s, part in here.items()})

    def unseen(
        self, query: Tensor, key: Tensor, value: Tensor, rows: Piece, summaries: Sequence[Summary]
    ) -> Partial:
        """Attention of queries that see no key at all."""
        nothing = Piece(0, 0)
        return self.partial(query, key[..., :0, :], value[..., :0, :], rows, nothing, summaries)

    def call(
        self, query: Tensor, key: Tensor, value: Tensor, rows: Piece, cols: Piece, sink: bool
    ) -> Call:
        """One block as the engine's operators take it."""
        place = (rows.start, cols.start, self.tokens, self.tokens)
        bias = self.score.bias
        score = replace(
            self.score,
            bias=None if bias is None else PartBias(bias, *place),
            sink=self.score.sink if sink else None,
        )
        mask = None if self.mask is None else Part(self.mask, *place)
        shape = AttentionShape.of(query.shape, key.shape, value.shape)
        return Call(query, key, value, mask, score, shape, place=rows.start - cols.start)

    def asking(self, call: Call, **question: Any) -> tuple[list[Tensor], str]:
        """The arrays of a block, and its question as text."""
        rules = Spec.of(call.mask, call.score)
        arrays = [*([] if call.mask is None else call.mask.arrays()), *call.score.arrays()]
        spec = replace(rules, implementation=self.sweeps, place=call.place)
        return arrays, spec.asking(**question)
