"""Statistics of keys and diagonals: sums over queries, the currency of KV eviction and pruning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from regard.arrays import cast, numbers, where
from regard.errors import InputError, UnavailableError
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
    per       "sum", or "visible" for the mean over those of the queries that may see the key
    groups    None, or "sum"/"mean" over the query heads that share a key head: (…, Hkv, S)
    """

    tag = "received/1"
    name, words = "received", "the mass each key received"
    gradient = "mass"
    about = "keys"

    queries: Any = None
    per: Literal["sum", "visible"] = "sum"
    groups: Literal["sum", "mean"] | None = None

    def __post_init__(self) -> None:
        if self.per not in ("sum", "visible"):
            raise InputError(f"Received(per={self.per!r}); give 'sum' or 'visible'")
        if self.groups not in (None, "sum", "mean"):
            raise InputError(f"Received(groups={self.groups!r}); give None, 'sum' or 'mean'")
        if self.queries is not None:
            object.__setattr__(self, "queries", _frozen(self.queries))

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        """Sum of columns, then the two divisions."""
        rows = query_indices(self.queries, shape.queries, matrix.weights.device)
        mass = matrix.weights[..., rows, :].sum(-2)
        seen = matrix.visible[..., rows, :].sum(-2)
        return self.finish(mass, seen, shape)

    def finish(self, mass: Tensor, seen: Tensor | None, shape: AttentionShape) -> Tensor:
        """From mass and, where it is divided by it, the count of seeing queries, both (…, Hq, S),
        to what was asked."""
        if self.per == "visible":
            assert seen is not None
            mass = cast(mass / where(seen > 0, seen, 1), mass)
        if self.groups is None:
            return mass
        *lead, _, keys = mass.shape
        shared = mass.reshape(*lead, shape.key_heads, shape.group, keys)
        return shared.sum(-2) if self.groups == "sum" else shared.mean(-2)

    def tensors(self, shape: AttentionShape) -> list[tuple[tuple[int, ...], bool]]:
        columns = (*shape.batch, shape.query_heads, shape.keys)
        return [(columns, False), (columns, True)][: 2 if self.per == "visible" else 1]

    def packed(self, tensors: Sequence[Tensor]) -> Mass:
        return Mass(*tensors)

    def column_sums(self) -> ColumnSums:
        return ColumnSums(self.queries, self.per == "visible")

    def source(self) -> Received:
        return self if self.groups is None else Received(self.queries, self.per)

    def of_part(self, queries: int) -> tuple[range, Summary] | None:
        if self.queries is None or isinstance(self.queries, tuple):
            return None
        rows = queries_meant(self.queries, queries)
        if not isinstance(rows, range) or rows.step != 1 or len(rows) > queries - _WORTH_A_PART:
            return None
        return rows, Received(None, self.per, self.groups)

    def serving(self, other: Summary) -> Summary | None:
        if not isinstance(other, Received) or self.queries != other.queries:
            return None
        return Received(self.queries, "visible" if "visible" in (self.per, other.per) else "sum")

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Tensor | None:
        if not known:
            return None
        found = known.get(self.source())
        if found is None and self.per == "sum":
            found = known.get(Received(self.queries, "visible"))
        if not isinstance(found, Mass):
            return None
        if self.per == "sum" and self.groups is None:
            return found.mass
        return self.finish(found.mass, found.seen, shape)

    def check(self, problem: AttentionShape) -> None:
        """The indices exist."""
        if self.queries is None or isinstance(self.queries, (int, Span)):
            _part(self.queries)
        else:
            queries_meant(self.queries, problem.queries)


def _frozen(queries: Any) -> Any:
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
