"""Statistics of keys and diagonals: sums over queries, the currency of KV eviction and pruning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from regard.arrays import cast, here, is_bool, library, numbers, where
from regard.declare import array, part
from regard.errors import DTypeError, InputError, UnavailableError
from regard.shapes import AttentionShape
from regard.summary.base import ColumnSums, Mass, Matrix, Measured, Summary

if TYPE_CHECKING:
    from torch import Tensor


_WORTH_A_PART = 256  # rows that need not be swept, before a part is asked alone


@dataclass(frozen=True)
class Span:
    """A slice that can be hashed; Python's own cannot before 3.12."""

    start: int | None
    stop: int | None
    step: int | None


class Received(Summary):
    """(…, Hq, S): weight received by each key, over all queries or some of them.

    queries   None for all; a slice, range or indices; a whole number n for the last n
    how       "sum"; "mean" over those of the queries that may see the key, 0 where none may;
              "max" for the largest weight, 0 where none may
    per       "visible" is another spelling of how="mean"
    groups    None, or "sum"/"mean"/"max" over the query heads that share a key head: (…, Hkv, S)
    """

    tag = "received/1"
    name, words = "received", "the mass each key received"
    about = "keys"

    queries: Any = None
    per: Literal["sum", "visible"] = "sum"
    groups: Literal["sum", "mean", "max"] | None = None
    how: Literal["sum", "mean", "max"] = "sum"

    def __post_init__(self) -> None:
        if self.per not in ("sum", "visible"):
            raise InputError(f"Received(per={self.per!r}); give 'sum' or 'visible'")
        if self.how not in ("sum", "mean", "max"):
            raise InputError(f"Received(how={self.how!r}); give 'sum', 'mean' or 'max'")
        if self.groups not in (None, "sum", "mean", "max"):
            raise InputError(f"Received(groups={self.groups!r}); give None, 'sum', 'mean' or 'max'")
        if self.how == "max" and self.per == "visible":
            raise InputError(
                "Received(how='max', per='visible'): the largest weight is not divided by the "
                "number of queries; give how='max' alone, or how='mean'"
            )
        if self.queries is not None:
            object.__setattr__(self, "queries", frozen_queries(self.queries))
        if "mean" in (self.how, {"visible": "mean"}.get(self.per)):  # both spellings are equal
            object.__setattr__(self, "how", "mean")
            object.__setattr__(self, "per", "visible")

    @property
    def gradient(self) -> Literal["mass", "refused"]:  # type: ignore[override]
        """The largest weight moves from query to query: only sums have a closed form."""
        return "refused" if self.how == "max" else "mass"

    @property
    def called(self) -> str:
        return f"received(how={self.how!r})"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        rows = query_indices(self.queries, shape.queries, matrix.weights.device)
        return self.reduce(matrix.weights[..., rows, :], matrix.visible[..., rows, :], shape)

    def reduce(self, p: Tensor, visible: Tensor, shape: AttentionShape) -> Tensor:
        """From the cells (…, Hq, n, S) of the chosen queries to what was asked."""
        is_max = self.how == "max" and p.shape[-2] > 0
        column = p.amax(-2).clamp(min=0) if is_max else p.sum(-2)  # a hidden cell counts as 0
        return self.finish(column, visible.sum(-2), shape)

    def finish(self, column: Tensor, seen: Tensor | None, shape: AttentionShape) -> Tensor:
        """From the sums or the largest and, where they are divided by it, the count of seeing
        queries, both (…, Hq, S), to what was asked."""
        if self.how == "mean":
            assert seen is not None
            column = cast(column / where(seen > 0, seen, 1), column)
        if self.groups is None:
            return column
        *lead, _, keys = column.shape
        return over_group(column.reshape(*lead, shape.key_heads, shape.group, keys), self.groups)

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        columns = (*shape.batch, shape.query_heads, shape.keys)
        return [(columns, False), (columns, True)][: 2 if self.how == "mean" else 1]

    def packed(self, tensors: Sequence[Tensor]) -> Mass:
        return Mass(*tensors)

    def column_sums(self) -> ColumnSums:
        is_max = self.how == "max"
        return ColumnSums(self.queries, self.how == "mean", largest=is_max, mass=not is_max)

    def source(self) -> Received:
        return self if self.groups is None else Received(self.queries, how=self.how)

    def of_part(self, queries: int) -> tuple[range, Received] | None:
        if self.queries is None or isinstance(self.queries, tuple):
            return None
        rows = queries_meant(self.queries, queries)
        if not isinstance(rows, range) or rows.step != 1 or len(rows) > queries - _WORTH_A_PART:
            return None
        return rows, Received(None, groups=self.groups, how=self.how)

    def serving(self, other: Summary) -> Summary | None:
        if not isinstance(other, Received) or self.queries != other.queries:
            return None
        both = {self.how, other.how}
        if "max" in both and len(both) > 1:  # two answers of one sweep
            return None
        return Received(self.queries, how="mean" if "mean" in both else self.how)

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Tensor | None:
        if not known:
            return None
        found = known.get(self.source())
        if found is None and self.how == "sum":
            found = known.get(Received(self.queries, how="mean"))
        if not isinstance(found, Mass):
            return None
        if self.how != "mean" and self.groups is None:
            return found.mass
        return self.finish(found.mass, found.seen, shape)

    def check(self, problem: AttentionShape) -> None:
        """The indices exist."""
        if self.queries is None or isinstance(self.queries, (int, Span)):
            _part(self.queries)
        else:
            queries_meant(self.queries, problem.queries)


def over_group(columns: Any, how: Literal["sum", "mean", "max"]) -> Any:
    """(…, group, S) → (…, S)."""
    if how == "max":
        return library(columns).amax(columns, -2)
    return columns.sum(-2) if how == "sum" else columns.mean(-2)


class Weighted(Summary):
    """(…, Hq, S): what `received` reduces, with each query's weights multiplied by its number.

    received   which queries, how, and over which heads: Σ_i w_i p_ij, the same ÷ the number of
               queries that may see the key, or max_i w_i p_ij (0 where that is below it)
    by         (L,) or (…, Hq, L): one number a query
    """

    tag = "weighted-received/1"
    name, words = "weighted_received", "the mass each key received, queries weighted"
    about = "keys"

    received: Received = part()
    by: Any = array("heads", "queries")

    def __post_init__(self) -> None:
        if not isinstance(self.received, Received):
            given = type(self.received).__name__
            raise InputError(f"Weighted(received) is a {given}; give regard.Received(…)")
        if not hasattr(self.by, "dtype") or not hasattr(self.by, "ndim") or is_bool(self.by):
            kind = getattr(self.by, "dtype", type(self.by).__name__)
            raise DTypeError(f"weighted_by is {kind}; give a tensor of one number per query")

    @property
    def gradient(self) -> Literal["mass", "refused"]:  # type: ignore[override]
        return self.received.gradient

    @property
    def called(self) -> str:
        return self.received.called

    @property
    def groups(self) -> Literal["sum", "mean", "max"] | None:
        """As `received` has them."""
        return self.received.groups

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        rows = query_indices(self.received.queries, shape.queries, matrix.weights.device)
        by = cast(here(self.by, matrix.weights), matrix.weights)
        by = by.expand(*by.shape[:-1], shape.queries)[..., rows, None]
        visible = matrix.visible[..., rows, :]
        return self.received.reduce(matrix.weights[..., rows, :] * by, visible, shape)

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        return self.received.tensors(shape)

    def packed(self, tensors: Sequence[Tensor]) -> Mass:
        return Mass(*tensors)

    def column_sums(self) -> ColumnSums:
        return self.received.column_sums()._replace(by=self.by)

    @cached_property  # it is equal to itself alone
    def _of_heads(self) -> Weighted:
        return Weighted(self.received.source(), self.by)

    def source(self) -> Weighted:
        return self if self.groups is None else self._of_heads

    def of_part(self, queries: int) -> tuple[range, Summary] | None:
        some = self.received.of_part(queries)
        if some is None:
            return None
        rows, inner = some
        same = self.by.shape[-1] == 1
        return rows, Weighted(inner, self.by if same else self.by[..., rows.start : rows.stop])

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Tensor | None:
        found = known.get(self.source())
        return (
            self.received.finish(found.mass, found.seen, shape) if isinstance(found, Mass) else None
        )


def frozen_queries(queries: Any) -> Any:
    """A hashable form: None, an int, a range, a Span, or a tuple of indices."""
    if queries is None or isinstance(queries, (range, Span)):
        return queries
    if isinstance(queries, slice):
        return _frozen_slice(queries)
    if hasattr(queries, "tolist"):  # of torch or numpy, a single number too
        _refuse_capture(queries)
        queries = queries.tolist()
    if _is_whole(queries):
        return index(queries)
    if isinstance(queries, Sequence) and all(map(_is_whole, queries)):
        return tuple(map(index, queries))
    raise InputError(
        f"queries={queries!r}; give a slice, a range, whole-number indices, "
        "or a number n for the last n queries"
    )


def _refuse_capture(queries: Any) -> None:
    if not getattr(queries, "is_cuda", False):
        return
    import torch  # whose tensor this is, so it is loaded already

    if torch.cuda.is_current_stream_capturing():
        raise UnavailableError(
            "queries given as a tensor are looked at on the host, which a CUDA graph cannot "
            "capture; give a slice, or a number n for the last n queries"
        )


def _frozen_slice(queries: slice) -> Span:
    ends = queries.start, queries.stop, queries.step
    if not all(end is None or _is_whole(end) for end in ends):
        raise InputError(f"queries={queries!r}; give a slice of whole numbers, such as slice(0, 5)")
    if queries.step == 0:
        raise InputError(f"queries={queries!r}; the step of a slice is not 0: give 1 or more")
    start, stop, step = (None if end is None else index(end) for end in ends)
    return Span(start, stop, step)


def _is_whole(number: Any) -> bool:
    is_tensor = hasattr(number, "requires_grad")
    return hasattr(number, "__index__") and not isinstance(number, bool) and not is_tensor


def queries_meant(queries: Any, count: int) -> range | list[int]:
    """The rows meant by `queries` among `count`, each once, ascending."""
    if queries is None or isinstance(queries, (int, Span)):
        rows = range(count)[_part(queries)]
        return rows if rows.step > 0 else rows[::-1]
    ends = (queries[0], queries[-1]) if isinstance(queries, range) and queries else queries
    wrong = [n for n in ends if not -count <= n < count]
    if wrong:
        raise InputError(f"query {wrong[0]} does not exist; there are {count} queries")
    if isinstance(queries, range) and queries.step == 1 and queries.start >= 0:
        return queries
    return sorted({n % count for n in queries})


def _part(queries: int | Span | None) -> slice:
    """The last n, or the part that is named, as a slice of all queries."""
    if isinstance(queries, int):
        if queries < 1:
            raise InputError(f"queries={queries}; a number means the last n queries, so n ≥ 1")
        return slice(-queries, None)
    if queries is None:
        return slice(None)
    return slice(queries.start, queries.stop, queries.step)


def part_of(queries: Any) -> slice | None:
    """The queries as a slice of all of them that goes forwards; None where they are no such."""
    is_part = queries is None or isinstance(queries, (int, Span))
    part = _part(queries) if is_part else None
    return part if part is not None and (part.step or 1) > 0 else None


def query_indices(queries: Any, count: int, device: Any) -> Tensor:
    """The same as a tensor (n,) of int64; while torch traces, `count` may be a symbol."""
    import torch  # which recordings, that ask for these statistics too, do without

    part = part_of(queries)
    if part is not None:
        return torch.arange(count, device=device)[part]
    return torch.tensor(list(queries_meant(queries, count)), dtype=torch.int64, device=device)


class Offsets(Summary):
    """(…, Hq, L + S − 1): the sum of each diagonal. Entry e holds Σ p_ij over j − i = e − (L − 1).

    In a square causal matrix, entry L − 1 is the mass on a query's own token, L − 2 on the token
    before.
    """

    tag = "offsets/1"
    about = "matrix"
    name, words = "offsets", "the mass by distance: sums of diagonals"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """One sum for each diagonal."""
        count = max(shape.queries + shape.keys - 1, 0)
        sums = matrix.weights.new_zeros((*matrix.weights.shape[:-2], count))
        i, j = (numbers(0, n, sums) for n in (shape.queries, shape.keys))
        at = (j[None, :] - i[:, None] + shape.queries - 1).reshape(-1)
        return sums.index_add(-1, at, matrix.weights.flatten(-2))

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        diagonals = max(shape.queries + shape.keys - 1, 0)
        return [((*shape.batch, shape.query_heads, diagonals), False)]

    def column_sums(self) -> ColumnSums:
        return ColumnSums(offsets=True)
