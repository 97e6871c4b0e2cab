"""What happens to a raw score q·k before the softmax: scale → soft cap → bias → mask → sink.

Biases are rules like masks: they give any tile on demand, so that no L×S tensor is built. Only
what numpy and torch share is used here; arrays inside a rule must be of the library of the
indices (`map` makes them so).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from regard import attention
from regard.arrays import as_array, brief, check_broadcast, is_integer, library, like
from regard.declare import Declared, array, check_parts, part
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Align, Extent, Pack
from regard.mask.base import check_align, check_places

_FARTHEST = 2**20  # distances that a relative bias lists


class Bias(Declared):
    """A number added to every score."""

    family = "bias"
    narrow: ClassVar[bool] = False  # its arrays may be large: tiles are converted, not the whole
    is_relative: ClassVar[bool] = False  # it depends on key − query alone

    @abstractmethod
    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The numbers for index vectors i (R,), j (C,): broadcastable to (*batch, heads, R, C)."""

    def map_numbers(self, fn: Callable[[Any], Any]) -> Bias:
        """With what fn makes of the arrays that hold its numbers; others stay as they are."""
        return self.map(fn)

    def hides(self) -> bool:
        """Whether a number may be −∞, which counts as masked."""
        return True

    def add_gradient(self, sums: list[Any], i: Any, j: Any, ds: Any, extent: Extent) -> bool:
        """Add what a tile's dS (*batch, Hq, R, C) gives to each array, in closed form; False where
        there is none, and autograd differentiates `tile`."""
        return False

    def of_sequence(self, n: int, *part: int) -> Bias:
        """The bias of the n-th of packed sequences, which stands at this part."""
        return self.seen_from(*part)

    def seen_from(self, query_start: int, key_start: int, queries: int, keys: int) -> Bias:
        """The bias of a part: its query 0 is query_start of so many queries; keys likewise."""
        return PartBias(self, query_start, key_start, queries, keys)


class BiasTable(Bias):
    """An additive array somebody already has, broadcastable to (*batch, heads, L, S).

    −inf counts as masked; the dtype's lowest finite number is an ordinary number.
    """

    tag = "bias-table/1"
    narrow = True
    table: Any = array("heads", "queries", "keys")

    def __post_init__(self) -> None:
        given = as_array(self.table)
        if not _is_float(given):
            raise DTypeError(
                f"bias has dtype {given.dtype}; give floats, or use mask= for booleans"
            )
        object.__setattr__(
            self, "table", given.reshape((1,) * (2 - given.ndim) + tuple(given.shape))
        )

    def add_gradient(self, sums: list[Any], i: Any, j: Any, ds: Any, extent: Extent) -> bool:
        """Summed over the axes along which the table was spread, then added at its rows and
        keys, which may repeat."""
        total = sums[0]
        extra = ds.ndim - total.ndim
        ds = ds.sum(tuple(range(extra))) if extra else ds
        for axis in range(total.ndim - 2):
            if total.shape[axis] == 1:
                ds = ds.sum(axis, keepdim=True)
        if total.shape[-2] == 1:
            ds, i = ds.sum(-2, keepdim=True), i.new_zeros(1)
        if total.shape[-1] == 1:
            ds, j = ds.sum(-1, keepdim=True), j.new_zeros(1)
        at, rows_first = (i[:, None], j[None, :]), total.movedim((-2, -1), (0, 1))
        rows_first.index_put_(at, ds.movedim((-2, -1), (0, 1)), accumulate=True)
        return True

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The table's own numbers; an axis of size one speaks for all."""
        rows = self.table if self.table.shape[-2] == 1 else self.table[..., i, :]
        return rows if rows.shape[-1] == 1 else rows[..., j]

    def check(self, extent: Extent) -> None:
        """Broadcastable, and no larger than the problem."""
        check_broadcast(self.table.shape, extent.full, "bias", "(…, heads, queries, keys)")

    def __repr__(self) -> str:
        return f"BiasTable({brief(self.table)})"


class ALiBi(Bias):
    """−slope · |distance|: attention with linear biases, one slope per query head."""

    tag = "alibi/1"
    is_relative = True
    slopes: Any = array("heads", batch=False)
    align: Align = "end"

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", _numbers(self.slopes, "ALiBi(slopes)"))
        check_align(self.align)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """(heads, R, C)."""
        distance = abs((i + extent.shift(self.align))[:, None] - j[None, :])
        # at least single precision: a half-precision product of a far distance is −inf, a mask
        return -_single(self.slopes)[:, None, None] * distance

    def hides(self) -> bool:
        return False

    def add_gradient(self, sums: list[Any], i: Any, j: Any, ds: Any, extent: Extent) -> bool:
        away = abs((i + extent.shift(self.align))[:, None] - j)
        sums[0] -= _per_head(ds * away).sum((-2, -1))
        return True

    def check(self, extent: Extent) -> None:
        """One slope per query head."""
        if tuple(self.slopes.shape) != (extent.heads,):
            raise ShapeError(
                f"ALiBi(slopes) has shape {tuple(self.slopes.shape)}; "
                f"give one slope per query head: ({extent.heads},)"
            )

    def __repr__(self) -> str:
        return f"ALiBi({brief(self.slopes)}, align={self.align!r})"


class RelativeBias(Bias):
    """T5's learned bias: one number per bucket of distances and head."""

    tag = "relative-bias/1"
    is_relative = True
    table: Any = array("buckets", "heads", batch=False)  # as T5 stores it
    bidirectional: bool = True
    max_distance: int = 128
    align: Align = "end"

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", _numbers(self.table, "RelativeBias(table)"))
        check_align(self.align)
        if self.table.ndim != 2:
            raise ShapeError(
                f"RelativeBias(table) has shape {tuple(self.table.shape)}; give (buckets, heads)"
            )
        if not isinstance(self.bidirectional, bool) or self.max_distance > _FARTHEST:
            raise InputError(
                f"RelativeBias(bidirectional={self.bidirectional!r}, "
                f"max_distance={self.max_distance!r}); give a bool and at most {_FARTHEST}"
            )
        exact = self.table.shape[0] // (4 if self.bidirectional else 2)
        if not 0 < exact < self.max_distance:
            raise InputError(
                f"RelativeBias: {self.table.shape[0]} buckets up to distance "
                f"{self.max_distance}; give at least {4 if self.bidirectional else 2} buckets and "
                f"max_distance > {exact}"
            )

    def buckets(self) -> Any:
        """(2·max_distance + 1,): the bucket of key − query = −max_distance … max_distance.

        Half of the buckets of one direction hold one distance each, the rest grow
        logarithmically; everything from max_distance on shares the last.
        """
        ahead = np.arange(-self.max_distance, self.max_distance + 1)
        count = self.table.shape[0] // (2 if self.bidirectional else 1)
        away = np.abs(ahead) if self.bidirectional else np.maximum(-ahead, 0)
        exact = count // 2
        # single precision, as T5 computes it: its rounding decides which bucket a border falls in
        ratio = np.log(np.maximum(away, 1).astype(np.float32) / np.float32(exact))
        grown = ratio / np.float32(math.log(self.max_distance / exact)) * np.float32(count - exact)
        far = np.minimum(exact + grown.astype(np.int64), count - 1)
        bucket = np.where(away < exact, away, far)
        return bucket + count * (ahead > 0) if self.bidirectional else bucket

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """(heads, R, C)."""
        ahead = j[None, :] - (i + extent.shift(self.align))[:, None]
        near = ahead.clip(-self.max_distance, self.max_distance) + self.max_distance
        return self.table.T[:, like(self.buckets(), i)[near]]

    def hides(self) -> bool:
        return bool((self.table == -math.inf).any())

    def add_gradient(self, sums: list[Any], i: Any, j: Any, ds: Any, extent: Extent) -> bool:
        ahead = j - (i + extent.shift(self.align))[:, None]
        near = ahead.clip(-self.max_distance, self.max_distance) + self.max_distance
        bucket = like(self.buckets(), i)[near].reshape(-1)  # (R·C,)
        sums[0].index_add_(0, bucket, _per_head(ds).flatten(1).T)
        return True

    def check(self, extent: Extent) -> None:
        """One column per query head."""
        if self.table.shape[1] != extent.heads:
            raise ShapeError(
                f"RelativeBias(table) has shape {tuple(self.table.shape)}; give (buckets, heads) "
                f"with {extent.heads} heads"
            )

    def __repr__(self) -> str:
        return f"RelativeBias({brief(self.table)}, bidirectional={self.bidirectional})"


def _is_float(array: Any) -> bool:
    return "float" in str(array.dtype)


def _numbers(given: Any, name: str) -> Any:
    """An array of numbers, whole ones included."""
    array = as_array(given)
    if not (_is_float(array) or is_integer(array)):
        raise DTypeError(f"{name} has dtype {array.dtype}; give floats")
    return array


def _per_head(ds: Any) -> Any:
    """(*batch, H, R, C) → (H, R, C)."""
    return ds.flatten(0, -4).sum(0) if ds.ndim > 3 else ds


def _single(array: Any) -> Any:
    """The array in single precision, or as it is where it has that already."""
    if _is_float(array) and array.dtype.itemsize >= 4:
        return array
    return array.astype(np.float32) if isinstance(array, np.ndarray) else array.float()


class PartBias(Bias):
    """A bias seen from a part of its problem: some of the queries, some of the keys."""

    tag = "part-bias/1"
    bias: Bias = part()
    query_start: int
    key_start: int
    queries: int  # of the whole problem
    keys: int

    def __post_init__(self) -> None:
        check_parts(self, Bias)
        check_places(self.query_start, self.key_start, self.queries, self.keys)

    @property
    def narrow(self) -> bool:  # type: ignore[override]
        """As the bias."""
        return self.bias.narrow

    def within(self, extent: Extent) -> Extent:
        """The extent of the whole problem, from that of the part."""
        return Extent(self.queries, self.keys, extent.batch, extent.heads)

    def hides(self) -> bool:
        return self.bias.hides()

    def add_gradient(self, sums: list[Any], i: Any, j: Any, ds: Any, extent: Extent) -> bool:
        there = i + self.query_start, j + self.key_start
        return self.bias.add_gradient(sums, *there, ds, self.within(extent))

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The bias at the global places."""
        return self.bias.tile(i + self.query_start, j + self.key_start, self.within(extent))

    def seen_from(self, query_start: int, key_start: int, queries: int, keys: int) -> Bias:
        """A part of a part is a part of the whole, whose sizes stay."""
        down, across = self.query_start + query_start, self.key_start + key_start
        return replace(self, query_start=down, key_start=across)


class PackedBias(Bias):
    """A bias of each of some packed sequences, which is told its own places."""

    tag = "packed-bias/1"
    query_starts: Any = array("starts", batch=False)
    key_starts: Any = array("starts", batch=False)
    bias: Bias = part()

    def __post_init__(self) -> None:
        check_parts(self, Bias)

    @property
    def narrow(self) -> bool:  # type: ignore[override]
        """As the bias."""
        return self.bias.narrow

    @property
    def pack(self) -> Pack:
        """Where sequences begin."""
        return Pack(self.query_starts, self.key_starts)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """0 between sequences, where masks hide everything."""

        def one(n: int, rows: Any, cols: Any, here: Extent) -> Any:
            return self.bias.select((n,)).tile(rows, cols, here)

        return self.pack.fill(i, j, extent, one)

    def map_numbers(self, fn: Callable[[Any], Any]) -> PackedBias:
        """Those of the bias inside; starts are whole numbers."""
        return replace(self, bias=self.bias.map_numbers(fn))

    def hides(self) -> bool:
        return self.bias.hides()

    def of_sequence(self, n: int, *part: int) -> Bias:
        return self.bias.select((n,))

    def select(self, batch: tuple[int, ...]) -> PackedBias:
        """The same for every batch entry: arrays inside speak of sequences."""
        return self

    def cut(
        self,
        extent: Extent,
        batch: Sequence[range],
        heads: range,
        queries: range | None = None,
        keys: range | None = None,
    ) -> PackedBias:
        """Of some heads; the batch of the bias inside are the sequences."""
        return replace(self, bias=self.pack.cut(self.bias, extent, heads))

    def check(self, extent: Extent) -> None:
        self.pack.check(self.bias, extent)


def as_bias(given: Any) -> Bias | None:
    """A bias as it is, an array as a BiasTable, None as None."""
    if isinstance(given, Bias):
        given.check_fields()
        return given.traceable()
    if given is None:
        return None
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return BiasTable(given)
    raise DTypeError(
        f"bias is a {type(given).__name__}; give an additive array broadcastable to "
        "(…, heads, queries, keys), regard.ALiBi(slopes) or regard.RelativeBias(table)"
    )


class ScoreRule(Declared):
    """Everything between the raw product and the mask, and the sink that joins the softmax."""

    tag = "score/1"
    family = "score rule"
    is_dot: ClassVar[bool] = True  # a raw score is the dot product q·k

    scale: float
    softcap: float | None = None
    bias: Bias | None = part(default=None)
    sink: Any = array("heads", batch=False, default=None)

    def __post_init__(self) -> None:
        check_parts(self, Bias)
        for name in ("scale", "softcap"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, (int, float)):
                raise DTypeError(f"{name} is a {type(given).__name__}; give a plain number")
        if not math.isfinite(self.scale):
            raise InputError(f"scale={self.scale}; give a finite number, such as 1/√d_k")
        if self.softcap is not None and not 0 < self.softcap < math.inf:
            raise InputError(f"softcap={self.softcap}; give a positive number, or None for no cap")

    def product(self, q: Any, k: Any) -> Any:
        """Raw scores (…, H, R, C) of queries (…, H, R, D) and keys (…, H, C, D)."""
        return attention.score(q, k)

    def carry(self, q: Any, k: Any, ds: Any) -> tuple[Any, Any]:
        """What gradients (…, H, R, C) on raw scores are on q and k."""
        return ds @ k, ds.mT @ q

    def cap(self, scaled: Any) -> Any:
        """cap·tanh(score/cap): scores stay within ±cap."""
        return attention.cap(scaled, self.softcap)

    def check(self, extent: Extent) -> None:
        """Bias and sink fit the problem."""
        if self.bias is not None:
            self.bias.check(extent)
        if self.sink is not None and tuple(self.sink.shape) != (extent.heads,):
            raise ShapeError(
                f"sink has shape {tuple(self.sink.shape)}; "
                f"give one number per query head: ({extent.heads},)"
            )


class LightningScores(ScoreRule):
    """Σ_h w_h·relu(q_h·k): the scores of a lightning indexer, one matrix out of several heads.

    Each query is one vector [q_1 … q_H, w_1 … w_H] of size H·(D + 1), so that everything that
    belongs to a query is selected, cut and differentiated with it. Keys are (…, 1, S, D).
    """

    tag = "lightning-score/1"
    is_dot = False

    index_heads: int = 1

    def product(self, q: Any, k: Any) -> Any:
        raw = 0.0
        for qh, w in self._heads(q):
            raw = raw + w * (qh @ k.mT).relu()
        return raw

    def carry(self, q: Any, k: Any, ds: Any) -> tuple[Any, Any]:
        on_queries, on_weights, on_keys = [], [], 0.0
        for qh, w in self._heads(q):
            raw = (qh @ k.mT).relu()
            through = ds * w * (raw > 0)
            on_queries.append(through @ k)
            on_weights.append((ds * raw).sum(-1, keepdim=True))
            on_keys = on_keys + through.mT @ qh
        return library(q).concatenate([*on_queries, *on_weights], -1), on_keys

    def _heads(self, q: Any) -> Iterator[tuple[Any, Any]]:
        """(…, 1, R, D) and (…, 1, R, 1) of each head."""
        count = self.index_heads
        dim = q.shape[-1] // count - 1
        for h in range(count):
            at = count * dim + h
            yield q[..., h * dim : (h + 1) * dim], q[..., at : at + 1]
