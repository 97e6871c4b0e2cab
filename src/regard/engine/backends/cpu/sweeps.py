"""The four sweeps on the C kernels."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from regard.engine.backend import MASS, ColumnAnswers, Gradients, RowAnswers
from regard.engine.backends.cpu import structures
from regard.engine.backends.cpu.bind import Binding, reads_bias
from regard.engine.backends.cpu.load import load, why_not
from regard.engine.call import NO_DOT, Call, Place, Problem, RowState, What
from regard.summary import (
    ColumnSums,
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Measured,
    Offsets,
    Pooled,
    Received,
    Summary,
    Top,
    TopScored,
    Visible,
)

# statistics that are one number a row, by the kernels' name
_ROW_NUMBERS: dict[type[Summary], str] = {
    Entropy: "entropy",
    MaxScore: "max_score",
    MaxLogit: "max_logit",
    Concentration: "concentration",
    Distance: "distance",
    Visible: "visible",
}


_KNOWN = {*_ROW_NUMBERS, Matching, Offsets, Pooled, Received, Top}


class CpuSweeps:
    """Attention on the CPU, faster than torch's own, with everything measured on the way."""

    name = "cpu"

    def unavailable(self) -> list[str]:
        """Why the kernels are not there."""
        reason = why_not()
        return [] if reason is None else [reason]

    def remark(self) -> str:
        """Which kernels run here."""
        return load().remark

    def reasons(self, problem: Problem) -> list[str]:
        """What the kernels do not do."""
        said = []
        if problem.device != "cpu":
            said.append(f"the tensors are on {problem.device}, these kernels run on the CPU")
        if not problem.dot:
            said.append(NO_DOT)
        if problem.dropout:
            said.append("it has no dropout")
        if problem.bias_gradient:
            said.append("its backward gives no gradient to a bias")
        if not reads_bias(problem.bias):
            said.append(f"of biases it does not know {problem.bias!r}")
        return said

    def knows(self, summary: Summary) -> bool:
        return type(summary) in _KNOWN

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def rows(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        given: RowState | None = None,
        sums: _ColumnBuffers | None = None,
    ) -> RowAnswers:
        """One pass over the keys for every block of queries; more where there are many maps. Sums
        over queries come along where they are asked for."""
        if len(measures) > min(structures.MOST_POOLS, structures.MOST_MATCHES) and (
            later := _too_many(measures)
        ):
            first = tuple(m for m in measures if m not in later)
            found = self.rows(call, output, first, given, sums)
            rest = self.rows(call, False, later, given)
            return found._replace(measured=found.measured | rest.measured)
        shape, binding = call.shape, Binding(call)
        rows = (binding.entries, shape.query_heads, shape.queries)
        made = _RowBuffers(rows, binding.dtype, call, output, measures)
        kernels = load()
        if given is not None:
            keep = [part.to(binding.dtype).contiguous() for part in given]
            made.ask.given_max, made.ask.given_log = (part.data_ptr() for part in keep)
        if sums is not None:
            made.ask.sums, made.ask.turn = sums.ask, sums.turn.data_ptr()
        for piece in binding.strips():
            kernels.run("rows", piece, made.ask, binding.wide)
        return made.answers()

    def rows_with_columns(
        self,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
        asked: ColumnSums,
        given: RowState | None,
    ) -> tuple[RowAnswers, ColumnAnswers]:
        """Sums over queries from the scores of the row sweep, where a block of rows may keep its
        own: the same bits, without computing them again."""
        if not _keeps_scores(call):
            found = self.rows(call, output, measures, given)
            return found, self.columns(call, given or found.state, None, None, asked)
        sums = _ColumnBuffers(call, asked)
        return self.rows(call, output, measures, given, sums), sums.answers()

    # ── columns ──────────────────────────────────────────────────────────────────────────────

    def columns(
        self,
        call: Call,
        state: RowState,
        chosen: Tensor | None,
        y: Tensor | None,
        asked: ColumnSums = MASS,
    ) -> ColumnAnswers:
        """Sums over queries, with every row's lse known."""
        shape, binding = call.shape, Binding(call, values=False)
        sums = _ColumnBuffers(call, asked)
        width = 0 if y is None else y.shape[-1]
        product = None
        keep = [t if t.is_contiguous() else t.contiguous() for t in state]
        ask = structures.ColumnSweep(
            row_max=keep[0].data_ptr(), row_log=keep[1].data_ptr(), sums=sums.ask, width=width
        )
        if chosen is not None:
            keep.append(chosen.to(torch.uint8).contiguous())
            ask.chosen = keep[-1].data_ptr()
        if asked.by is not None:
            keep.append(asked.by.detach().to(binding.dtype).contiguous())
            ask.by = keep[-1].data_ptr()
        if y is not None:
            columns = (*shape.batch, shape.query_heads, shape.keys, width)
            product = torch.zeros(columns, dtype=binding.dtype)
            keep.append(y.detach().to(binding.dtype).contiguous())
            ask.y, ask.product = keep[-1].data_ptr(), product.data_ptr()
        for piece in binding.strips():
            load().run("columns", piece, ask, binding.wide)
        return sums.answers()._replace(product=product)

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def cells(self, call: Call, state: RowState, place: Place, what: What) -> Tensor:
        """(units, rows, cols): a rectangle of weights or final scores."""
        binding = Binding(call, values=False)
        found = torch.empty(tuple(len(part) for part in place), dtype=binding.dtype)
        cols, order = place.cols.sort(stable=True)
        # an opaque mask comes in strips of queries: each strip serves the rows that lie in it
        for piece in binding.strips():
            inside = (place.rows >= piece.first_query) & (place.rows < piece.last_query)
            whole = bool(inside.all())
            rows = place.rows if whole else place.rows[inside]
            target = found if whole else found.new_empty(len(place.units), len(rows), len(cols))
            keep = [t.contiguous() for t in (state.peak, state.log, place.units, rows, cols, order)]
            ask = structures.Rectangle(
                keep[0].data_ptr(), keep[1].data_ptr(), len(place.units), len(rows), len(cols),
                *(t.data_ptr() for t in keep[2:]), int(what == "scores"), target.data_ptr(),
            )  # fmt: skip
            load().run("cells", piece, ask, binding.wide)
            if not whole:
                found[:, inside] = target
        return found

    # ── backward ─────────────────────────────────────────────────────────────────────────────

    def backward(
        self,
        call: Call,
        state: RowState,
        grad_output: Tensor,
        shift: Tensor,
        slope: Tensor | None,
        mass: bool = False,
    ) -> Gradients:
        """dS = p (dP − shift − slope (s − lse)), carried on to q, k and v."""
        shape, binding = call.shape, Binding(call)
        heads = (*shape.batch, shape.key_heads, shape.keys)
        grad_q = torch.zeros(call.query.shape, dtype=binding.dtype)
        grad_k = torch.zeros((*heads, shape.dim), dtype=binding.dtype)
        grad_v = torch.zeros((*heads, shape.value_dim), dtype=binding.dtype)
        given = [state.peak, state.log, grad_output, shift, *([] if slope is None else [slope])]
        keep = [t.detach().to(binding.dtype).contiguous() for t in given]
        ask = structures.Backward(*(t.data_ptr() for t in keep))
        ask.grad_q, ask.grad_k, ask.grad_v = (g.data_ptr() for g in (grad_q, grad_k, grad_v))
        columns = (*shape.batch, shape.query_heads, shape.keys) if mass else (0,)
        received = torch.zeros(columns, dtype=torch.float64)
        if mass:
            ask.mass = received.data_ptr()
        for piece in binding.strips():
            load().run("backward", piece, ask, binding.wide)
        rule: list[Tensor | None] = [None] * len(list(call.score.arrays()))
        found = received.to(binding.dtype) if mass else None
        return Gradients(grad_q, grad_k, grad_v, rule, found)


class _RowBuffers:
    """The tensors a row sweep writes into, and the structure that points at them."""

    def __init__(
        self,
        rows: tuple[int, int, int],
        dtype: torch.dtype,
        call: Call,
        output: bool,
        measures: tuple[Summary, ...],
    ) -> None:
        self.shape, self.rows, self.dtype = call.shape, rows, dtype
        self.measures = measures
        self.ask = structures.RowSweep()
        self.output = self._output(call) if output else None
        self.state = self._number("row_max"), self._number("row_log")
        self.numbers: dict[Summary, Tensor] = {}
        self.pools: dict[Pooled, tuple[Tensor, Tensor, Tensor]] = {}
        self.matches: dict[Matching, tuple[Tensor, ...]] = {}
        k = 0
        for m in measures:
            name = _ROW_NUMBERS.get(type(m))
            if name is not None:
                self.numbers[m] = self._number(name)
            elif isinstance(m, Top):
                k = max(k, m.k)
            elif isinstance(m, Pooled):
                self.pools[m] = self._pool(m)
            elif isinstance(m, Matching):
                self.matches[m] = self._match(m)
        self.top = self._top(k) if k else None

    def _output(self, call: Call) -> Tensor:
        made = torch.empty((*self.rows, call.shape.value_dim), dtype=self.dtype)
        self.ask.output = made.data_ptr()
        self.ask.output_strides[:] = made.stride()[:3]
        return made

    def _number(self, name: str) -> Tensor:
        dtype = torch.int64 if name == "visible" else self.dtype
        made = torch.empty(self.rows, dtype=dtype)
        setattr(self.ask, name, made.data_ptr())
        return made

    def _top(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        self.ask.top_k = k
        weights, scores = (torch.empty((*self.rows, k), dtype=self.dtype) for _ in range(2))
        keys = torch.empty((*self.rows, k), dtype=torch.int64)
        self.ask.top_weights, self.ask.top_scores = weights.data_ptr(), scores.data_ptr()
        self.ask.top_keys = keys.data_ptr()
        return weights, scores, keys

    def _pool(self, summary: Pooled) -> tuple[Tensor, Tensor, Tensor]:
        """Partial cells (B, H, segments, columns), the segment of each row, the cell row of each
        segment: a segment never crosses a block of queries, so that no two threads share one."""
        cell, shape = summary.size(self.shape), self.shape
        segment, cell_row = _segments(shape.queries, cell)
        columns = -(-shape.keys // cell)
        parts = torch.empty((*self.rows[:2], len(cell_row), columns), dtype=self.dtype)
        pool = self.ask.pool[self.ask.pools]
        pool.cell, pool.largest = cell, int(summary.how == "max")
        pool.segments, pool.columns = len(cell_row), columns
        pool.cells, pool.segment_of = parts.data_ptr(), segment.data_ptr()
        self.ask.pools += 1
        return parts, segment, cell_row

    def _match(self, summary: Matching) -> tuple[Tensor, ...]:
        """The mass (B, H, L), and the marks as the kernels read them."""
        kind = torch.int64 if self.dtype == torch.float64 else torch.int32
        limits = torch.iinfo(kind)
        made = torch.empty(self.rows, dtype=self.dtype)
        match = self.ask.match[self.ask.matches]
        match.mass = made.data_ptr()
        given = [summary.query_marks, summary.key_marks]
        if any(((m < limits.min) | (m > limits.max)).any() for m in given):
            given = _numbered(*given)
        queries, keys = (
            marks.to(kind).broadcast_to((*self.shape.batch, marks.shape[-1])).contiguous()
            for marks in given
        )
        match.query_marks, match.key_marks = queries.data_ptr(), keys.data_ptr()
        match.query_stride, match.key_stride = queries.shape[-1], keys.shape[-1]
        self.ask.matches += 1
        return made, queries, keys

    def _finish_pool(self, summary: Pooled) -> Tensor:
        """Cells of several segments become one; the kernels have divided by the area."""
        parts, _, cell_row = self.pools[summary]
        down = -(-self.shape.queries // summary.size(self.shape))
        if len(cell_row) == down:
            return parts
        cells = parts.new_zeros((*self.rows[:2], down, parts.shape[-1]))
        if summary.how == "mean":
            return cells.index_add_(2, cell_row, parts)
        at = cell_row[:, None].expand_as(parts)
        return cells.scatter_reduce_(2, at, parts, "amax")

    def _batched(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*self.shape.batch, *tensor.shape[1:])

    def answers(self) -> RowAnswers:
        """What was measured, in the batch's own axes."""
        one_axis = len(self.shape.batch) == 1  # a view takes as long as a question
        batched = _same if one_axis else self._batched
        measured: dict[Summary, Measured] = {}
        for summary in self.measures:
            number = self.numbers.get(summary)
            if number is not None:
                measured[summary] = batched(number)
            elif isinstance(summary, Top) and self.top is not None:
                weights, scores, keys = map(batched, self.top)
                if summary.k < keys.shape[-1]:
                    weights, scores, keys = (t[..., : summary.k] for t in (weights, scores, keys))
                measured[summary] = TopScored(weights, keys, scores)
            elif isinstance(summary, Pooled):
                measured[summary] = batched(self._finish_pool(summary))
            elif isinstance(summary, Matching):
                measured[summary] = batched(self.matches[summary][0])
        state = RowState(batched(self.state[0]), batched(self.state[1]))
        return RowAnswers(None if self.output is None else batched(self.output), state, measured)


class _ColumnBuffers:
    """The tensors that sums over queries are added to, and the structure that points at them."""

    def __init__(self, call: Call, asked: ColumnSums) -> None:
        shape, self.dtype = call.shape, call.exact
        columns = (*shape.batch, shape.query_heads, shape.keys)
        self.mass = torch.zeros(columns, dtype=torch.float64)
        self.turn = torch.zeros(columns[:-1], dtype=torch.int64)
        self.seen = torch.zeros(columns, dtype=torch.int64) if asked.seen else None
        self.largest = torch.zeros(columns, dtype=torch.float64) if asked.largest else None
        self.offsets: Tensor | None = None
        self.ask = structures.QuerySums(mass=self.mass.data_ptr())
        if self.seen is not None:
            self.ask.seen = self.seen.data_ptr()
        if self.largest is not None:
            self.ask.largest = self.largest.data_ptr()
        if asked.offsets:
            parts = structures.OFFSET_PARTS, max(shape.queries + shape.keys - 1, 0)
            self.offsets = torch.zeros((*columns[:-1], *parts), dtype=torch.float64)
            self.ask.offsets = self.offsets.data_ptr()

    def answers(self) -> ColumnAnswers:
        """What was summed, but products."""
        offsets = None if self.offsets is None else self.offsets.sum(-2).to(self.dtype)
        largest = None if self.largest is None else self.largest.to(self.dtype)
        return ColumnAnswers(self.mass.to(self.dtype), self.seen, None, offsets, largest)


def _keeps_scores(call: Call) -> bool:
    """Whether a thread may keep the scores of a block of rows."""
    tiles = -(-call.shape.keys // structures.TILE_KEYS)
    row = tiles * structures.TILE_KEYS * call.exact.itemsize
    return row * structures.BLOCK_ROWS <= structures.MOST_KEPT_BYTES


@lru_cache(maxsize=32)
def _segments(queries: int, cell: int) -> tuple[Tensor, Tensor]:
    """The segment of each row, and the cell row of each segment."""
    with torch.inference_mode(False):  # what is remembered serves calls of any mode
        i = torch.arange(queries)
        border = (i % structures.BLOCK_ROWS == 0) | (i % cell == 0)
        return border.cumsum(0) - 1, i[border] // cell


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _too_many(measures: tuple[Summary, ...]) -> tuple[Summary, ...]:
    """Maps and marks beyond those that one sweep takes."""
    maps, matches = ([m for m in measures if isinstance(m, k)] for k in (Pooled, Matching))
    return (*maps[structures.MOST_POOLS :], *matches[structures.MOST_MATCHES :])


def _numbered(queries: Tensor, keys: Tensor) -> list[Tensor]:
    """Marks too large for the kernels' integers, as their ranks among all that occur."""
    _, rank = torch.unique(torch.cat([queries.flatten(), keys.flatten()]), return_inverse=True)
    parts = rank.split([queries.numel(), keys.numel()])
    return [parts[0].reshape(queries.shape), parts[1].reshape(keys.shape)]


CPU = CpuSweeps()
