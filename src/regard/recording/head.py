"""Head: the questions of `regard.Attention`, asked of one recorded head, answered in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from regard.axes import Axis
from regard.display import as_html
from regard.divergences import DivergenceOptions
from regard.errors import TooLargeError
from regard.recording.between import diverge
from regard.recording.collect import Products, TransposedProducts, sweep
from regard.recording.indexing import as_columns, read_cells
from regard.recording.layer import Held, Stored
from regard.recording.pieces import Stream
from regard.recording.query import Answers, is_grouped
from regard.recording.replay import Replay
from regard.recording.schema import Place
from regard.recording.stores import Array
from regard.recording.visibility import Sight
from regard.summary import Matching, Offsets, Summary, Visible, as_summaries
from regard.summary.columns import over_group
from regard.summary.questions import Questions

_LARGEST_DENSE = 2**30  # bytes


class Head(Questions[Array]):
    """One head. Rows are numbered as the model counted them, whichever were recorded.

    `shape` is that of the whole matrix and `recorded` the rows that are here. A slice gives the
    recorded rows in it, and whole-matrix answers are about recorded rows: `dense()` and `entropy()`
    have len(recorded) rows. To name a row that was not recorded is an InputError.
    """

    __array_priority__ = 1000  # numpy arrays defer to our @

    def __init__(
        self,
        held: Held,
        head: int,
        streams: Mapping[str, Stream],
        sibling: Callable[[int], Head],
        axes: tuple[Axis, Axis],
    ) -> None:
        self._held, self._streams, self._sibling = held, streams, sibling
        self.head = head
        self.query_axis, self.key_axis = axes  # what its positions stand for

    # ── who it is ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def label(self) -> str:
        """`L5H1`, `cross.L5H1`."""
        return f"{self.place.label}H{self.head}"

    @property
    def place(self) -> Place:
        """The attention module, as the recording describes it."""
        return self._held.place

    @property
    def stack(self) -> str:
        """The stack of layers it belongs to; "" where there is one."""
        return self.place.stack

    @property
    def layer(self) -> int:
        """Counted within its stack."""
        return self.place.layer

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys) of the whole matrix."""
        return self.place.queries, self.place.keys

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def recorded(self) -> range:
        """The rows that were recorded."""
        return self._held.rows

    @property
    def exact(self) -> bool:
        """Whether every cell can be computed."""
        return not self.why_not

    @property
    def sight(self) -> Sight:
        """What its rows may see, by the masks alone."""
        return self._answers.sight

    @property
    def why_not(self) -> str:
        """Why not; "" where it can."""
        return self._held.why_not(self.head)

    @property
    def query_tokens(self) -> list[str] | None:
        """The texts of the queries' tokens; None where there are none."""
        return self._texts(self.place.query_tokens)

    @property
    def key_tokens(self) -> list[str] | None:
        """The texts of the keys' tokens; None where there are none."""
        return self._texts(self.place.key_tokens)

    @property
    def tokens(self) -> list[str] | None:
        """The texts of the keys' tokens, which in self-attention are the queries' too."""
        return self.key_tokens

    @property
    def query_names(self) -> list[str] | None:
        """What the queries are called: by their texts, or their place in a picture or sound."""
        return _names(self.query_axis, self.query_tokens)

    @property
    def key_names(self) -> list[str] | None:
        """What the keys are called, likewise."""
        return _names(self.key_axis, self.key_tokens)

    def _texts(self, stream: str) -> list[str] | None:
        found = self._streams.get(stream)
        return found.tokens if found is not None and found.tokens else None

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, index: Any) -> Any:
        """Weights of any index, as numpy would give them of the whole matrix."""
        return Cells(self, weights=True)[index]

    @property
    def scores(self) -> Cells:
        """The final scores (after scale, cap, bias and mask), indexed like the weights."""
        return Cells(self, weights=False)

    def rows(self, indices: int | slice | range | Iterable[int] | Array) -> Any:
        """(len(indices), keys): whole rows of weights; one integer drops the axis."""
        return self[indices, :]

    def dense(self, force: bool = False) -> Array:
        """(len(recorded), keys): the full matrix. Refused above 1 GiB unless forced."""
        size = len(self.recorded) * self.shape[1] * self._replay.dtype.itemsize
        if size > _LARGEST_DENSE and not force:
            raise TooLargeError(
                f"{self.label}: the dense matrix {(len(self.recorded), self.shape[1])} would take "
                f"{size / 2**30:.1f} GiB; ask for rows, a slice or pooled(), or dense(force=True)"
            )
        return self[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The full matrix."""
        found = self.dense()
        return found.astype(found.dtype if dtype is None else dtype, copy=bool(copy))

    # ── statistics of rows ───────────────────────────────────────────────────────────────────

    @property
    def lse(self) -> Array:
        """(rows,): log Σ exp(score), natural log; −∞ where a row sees no key."""
        return self._answers.lse()

    def visible(self) -> Array:
        """(rows,) int64: how many keys each row may see."""
        return self._ask(Visible())

    def sink_mass(self) -> Array:
        """(rows,): the weight of the sink in each row; 0 without a sink."""
        if not self._answers.sight.is_complete:
            raise self._answers.unavailable("the sink's share")
        lse = self.lse
        with np.errstate(over="ignore"):  # a sink beyond the row's own lse: a file that lies
            share = np.exp(self._answers.sinks() - np.where(lse == -np.inf, 0, lse))
        return share.astype(lse.dtype)

    def _divergence_from(
        self, teacher: tuple[Head, ...], student: tuple[Head, ...], asked: DivergenceOptions
    ) -> Array:
        """`regard.divergence`, of which this head is the student, or its first."""
        return diverge(teacher, student, asked)

    # ── statistics of columns and regions ────────────────────────────────────────────────────

    def _shared(self, asked: Any) -> Array:
        """Over the query heads that share this head's key head."""
        every: Array = np.stack([one._ask(asked.source()) for one in self._group()])
        return np.asarray(over_group(every, asked.groups))

    def _group(self) -> list[Head]:
        """The query heads that share this head's key head."""
        size = self.place.total_heads // self.place.key_heads
        first = self.head // size * size
        return [self._sibling(head) for head in range(first, first + size)]

    def offsets(self) -> Array:
        """(queries + keys − 1,): the mass on each diagonal; entry e: j − i = e − (queries − 1)."""
        return self._ask(Offsets())

    def summarize(self, *summaries: Summary) -> dict[Summary, Any]:
        """The values of `regard.summary` (Entropy(), Top(8) …), or of a class of one's own, in as
        few sweeps as possible."""
        asked = as_summaries(summaries)
        alone = [one for one in asked if not is_grouped(one)]
        found = dict(zip(alone, self._answers(*alone), strict=True))
        return {one: found[one] if one in found else self._shared(one) for one in asked}

    def matching(self, query_marks: Array, key_marks: Array) -> Array:
        """(rows,): Σ p_ij over earlier keys j whose mark equals the query's."""
        marks: list[Any] = [np.asarray(query_marks), np.asarray(key_marks)]
        return self._ask(Matching(*marks))

    # ── products ─────────────────────────────────────────────────────────────────────────────

    def __matmul__(self, x: Any) -> Array:
        """A @ x without A: x is (keys,) or (keys, M)."""
        columns = as_columns(x, self.shape[1], "A @ x", "keys")
        found = self._collect(Products(self._replay, columns))
        return found[:, 0] if np.ndim(x) == 1 else found

    @property
    def T(self) -> Transposed:  # noqa: N802
        """The transposed matrix, for products: h.T @ y with y (rows,) or (rows, M)."""
        return Transposed(self)

    # ── asking ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def stored(self) -> Mapping[str, Stored]:
        """What was measured while recording, as it lies in the file: binned where it is."""
        return self._answers.stored

    @property
    def row_numbers(self) -> tuple[str, ...]:
        """Names of what a recording may hold of every row; `stored` has those that it holds."""
        return self._held.row_numbers

    def has(self, what: str) -> bool:
        """Whether `what` (entropy, received, pooled …) is stored, binned or not."""
        return what in self.stored

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self._held, self.head)

    @property
    def _replay(self) -> Replay:
        return self._answers.replay

    def _has_sink(self) -> Array:
        """(rows,)"""
        return self._answers.sinks() > -np.inf

    def _per_query(self, given: Any) -> Array:
        return np.asarray(given)

    def _collect(self, collector: Products | TransposedProducts) -> Array:
        sweep(self._replay, [collector])
        return collector.answer()

    _repr_html_ = as_html

    def __repr__(self) -> str:
        how = "exact" if self.exact else "summaries"
        return f"Head({self.label}, shape={self.shape}, {how})"


def _names(axis: Axis, tokens: list[str] | None) -> list[str] | None:
    """Tokens where there is text, places where there are patches and moments."""
    if axis.is_text:
        return tokens
    names = axis.names.copy()
    for start, part in axis.starts():
        own = slice(start, start + part.count)
        if part.kind == "text" and tokens is not None and own.stop <= len(tokens):
            names[own] = tokens[own]
    return names


class Cells:
    """Weights or final scores, indexed like the matrix that is never built."""

    def __init__(self, head: Head, weights: bool) -> None:
        self._head, self._weights = head, weights

    def __getitem__(self, index: Any) -> Any:
        """The named cells, in the shape numpy would give them."""
        head, replay = self._head, self._head._replay
        return read_cells(
            index,
            head.shape,
            head.recorded,
            lambda rows, cols: replay.cells(rows, cols, self._weights),
        )


class Transposed:
    """Aᵀ, as something to multiply with."""

    def __init__(self, head: Head) -> None:
        self._head = head

    @property
    def shape(self) -> tuple[int, int]:
        """(keys, queries)."""
        return self._head.shape[::-1]

    @property
    def T(self) -> Head:  # noqa: N802
        """Back again."""
        return self._head

    def __matmul__(self, y: Any) -> Array:
        """Aᵀ @ y without A: y is (rows,) or (rows, M), for the recorded rows."""
        head = self._head
        columns = as_columns(y, len(head.recorded), "A.T @ y", "recorded rows")
        found = head._collect(TransposedProducts(head._replay, columns))
        return found[:, 0] if np.ndim(y) == 1 else found
