"""What happens to a raw score q·k before the softmax: scale → soft cap → bias → mask → sink.

Biases are rules like masks: they give any tile on demand, so that no L×S tensor is built. Only
what numpy and torch share is used here; arrays inside a rule must be of the library of the
indices (`map` makes them so).
"""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Align, Extent
from regard.mask.arrays import as_array, brief, check_broadcast, is_integer, like, pick
from regard.mask.tile import check_align

__all__ = [
    "ALiBi",
    "Bias",
    "BiasTable",
    "PartBias",
    "RelativeBias",
    "ScoreRule",
    "as_bias",
    "describe",
    "rebuild",
]


class Bias(ABC):
    """A number added to every score."""

    @abstractmethod
    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The numbers for index vectors i (R,), j (C,): broadcastable to (*batch, heads, R, C)."""

    @abstractmethod
    def arrays(self) -> Iterator[Any]:
        """The arrays inside, through which gradients may flow."""

    @abstractmethod
    def map(self, convert: Callable[[Any], Any]) -> Bias:
        """The same bias with each array replaced by convert(array)."""

    @abstractmethod
    def select(self, batch: tuple[int, ...]) -> Bias:
        """The same bias seen from one batch entry."""

    @abstractmethod
    def check(self, extent: Extent) -> None:
        """Raise ShapeError where an array inside does not fit the problem."""


@dataclass(frozen=True, eq=False)
class BiasTable(Bias):
    """An additive array somebody already has, broadcastable to (*batch, heads, L, S).

    −inf counts as masked; the dtype's lowest finite number is an ordinary number.
    """

    table: Any

    def __post_init__(self) -> None:
        array = as_array(self.table)
        if not _is_float(array):
            raise DTypeError(
                f"bias has dtype {array.dtype}; give floats, or use mask= for booleans"
            )
        object.__setattr__(
            self, "table", array.reshape((1,) * (2 - array.ndim) + tuple(array.shape))
        )

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The table's own numbers; an axis of size one speaks for all."""
        rows = self.table if self.table.shape[-2] == 1 else self.table[..., i, :]
        return rows if rows.shape[-1] == 1 else rows[..., j]

    def arrays(self) -> Iterator[Any]:
        """The table."""
        yield self.table

    def map(self, convert: Callable[[Any], Any]) -> BiasTable:
        """The table converted."""
        return BiasTable(convert(self.table))

    def select(self, batch: tuple[int, ...]) -> BiasTable:
        """One entry's table."""
        return BiasTable(pick(self.table, batch, 3))

    def check(self, extent: Extent) -> None:
        """Broadcastable, and no larger than the problem."""
        check_broadcast(self.table.shape, extent.full, "bias", "(…, heads, queries, keys)")

    def __repr__(self) -> str:
        return f"BiasTable({brief(self.table)})"


@dataclass(frozen=True, eq=False)
class ALiBi(Bias):
    """−slope · |distance|: attention with linear biases, one slope per query head."""

    slopes: Any  # (heads,)
    align: Align = "end"

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", _numbers(self.slopes, "ALiBi(slopes)"))
        check_align(self.align)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """(heads, R, C)."""
        distance = abs((i + extent.shift(self.align))[:, None] - j[None, :])
        # at least single precision: a half-precision product of a far distance is −inf, a mask
        return -_single(self.slopes)[:, None, None] * distance

    def arrays(self) -> Iterator[Any]:
        """The slopes."""
        yield self.slopes

    def map(self, convert: Callable[[Any], Any]) -> ALiBi:
        """The slopes converted."""
        return ALiBi(convert(self.slopes), self.align)

    def select(self, batch: tuple[int, ...]) -> ALiBi:
        """The same for every entry."""
        return self

    def check(self, extent: Extent) -> None:
        """One slope per query head."""
        if tuple(self.slopes.shape) != (extent.heads,):
            raise ShapeError(
                f"ALiBi(slopes) has shape {tuple(self.slopes.shape)}; "
                f"give one slope per query head: ({extent.heads},)"
            )

    def __repr__(self) -> str:
        return f"ALiBi({brief(self.slopes)}, align={self.align!r})"


@dataclass(frozen=True, eq=False)
class RelativeBias(Bias):
    """T5's learned bias: distances fall into buckets, each bucket has one number per head."""

    table: Any  # (buckets, heads), as T5 stores it
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

    def arrays(self) -> Iterator[Any]:
        """The table."""
        yield self.table

    def map(self, convert: Callable[[Any], Any]) -> RelativeBias:
        """The table converted."""
        return RelativeBias(convert(self.table), self.bidirectional, self.max_distance, self.align)

    def select(self, batch: tuple[int, ...]) -> RelativeBias:
        """The same for every entry."""
        return self

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


def _single(array: Any) -> Any:
    """The array in single precision, or as it is where it has that already."""
    if _is_float(array) and array.dtype.itemsize >= 4:
        return array
    return array.astype(np.float32) if isinstance(array, np.ndarray) else array.float()


@dataclass(frozen=True, eq=False)
class PartBias(Bias):
    """A bias seen from a part of its problem: some of the queries, some of the keys."""

    bias: Bias
    query_start: int
    key_start: int
    queries: int  # of the whole problem
    keys: int

    def whole(self, extent: Extent) -> Extent:
        """The extent of the whole problem, from that of the part."""
        return replace(extent, queries=self.queries, keys=self.keys)

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        """The bias at the global places."""
        return self.bias.tile(i + self.query_start, j + self.key_start, self.whole(extent))

    def arrays(self) -> Iterator[Any]:
        """The bias's."""
        return self.bias.arrays()

    def map(self, convert: Callable[[Any], Any]) -> PartBias:
        """The bias converted."""
        return replace(self, bias=self.bias.map(convert))

    def select(self, batch: tuple[int, ...]) -> PartBias:
        """The bias seen from one entry."""
        return replace(self, bias=self.bias.select(batch))

    def check(self, extent: Extent) -> None:
        """The bias fits the whole problem."""
        self.bias.check(self.whole(extent))


def as_bias(given: Any) -> Bias | None:
    """A bias as it is, an array as a BiasTable, None as None."""
    if given is None or isinstance(given, Bias):
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return BiasTable(given)
    raise DTypeError(
        f"bias is a {type(given).__name__}; give an additive array broadcastable to "
        "(…, heads, queries, keys), regard.ALiBi(slopes) or regard.RelativeBias(table)"
    )


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """Everything between the raw product and the mask, and the sink that joins the softmax."""

    scale: float
    softcap: float | None = None
    bias: Bias | None = None
    sink: Any = None  # (heads,)

    def __post_init__(self) -> None:
        for name in ("scale", "softcap"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, int | float):
                raise DTypeError(f"{name} is a {type(given).__name__}; give a plain number")
        if not math.isfinite(self.scale):
            raise InputError(f"scale={self.scale}; give a finite number, such as 1/√d_k")
        if self.softcap is not None and not 0 < self.softcap < math.inf:
            raise InputError(f"softcap={self.softcap}; give a positive number, or None for no cap")

    def cap(self, scaled: Any) -> Any:
        """cap·tanh(score/cap): scores stay within ±cap."""
        if self.softcap is None:
            return scaled
        ratio = scaled / self.softcap
        return self.softcap * (ratio.tanh() if hasattr(ratio, "tanh") else np.tanh(ratio))

    def arrays(self) -> Iterator[Any]:
        """The bias's arrays, then the sink where given."""
        if self.bias is not None:
            yield from self.bias.arrays()
        if self.sink is not None:
            yield self.sink

    def map(self, convert: Callable[[Any], Any]) -> ScoreRule:
        """The same rule with each array replaced by convert(array)."""
        bias = None if self.bias is None else self.bias.map(convert)
        sink = None if self.sink is None else convert(self.sink)
        return ScoreRule(self.scale, self.softcap, bias, sink)

    def select(self, batch: tuple[int, ...]) -> ScoreRule:
        """The same rule seen from one batch entry."""
        bias = None if self.bias is None else self.bias.select(batch)
        return ScoreRule(self.scale, self.softcap, bias, self.sink)

    def check(self, extent: Extent) -> None:
        """Bias and sink fit the problem."""
        if self.bias is not None:
            self.bias.check(extent)
        if self.sink is not None and tuple(self.sink.shape) != (extent.heads,):
            raise ShapeError(
                f"sink has shape {tuple(self.sink.shape)}; "
                f"give one number per query head: ({extent.heads},)"
            )


def describe(rule: ScoreRule) -> str:
    """The rule as text, without its arrays (which follow in the order of `rule.arrays()`)."""
    return f"({float(rule.scale)},{rule.softcap},{_kind(rule.bias)},{rule.sink is not None})"


def _kind(bias: Bias | None) -> str:
    if bias is None:
        return "None"
    if isinstance(bias, PartBias):
        place = f"{bias.query_start},{bias.key_start},{bias.queries},{bias.keys}"
        return f"('part',{_kind(bias.bias)},{place})"
    if isinstance(bias, ALiBi):
        return f"('alibi','{bias.align}')"
    if isinstance(bias, RelativeBias):
        return f"('relative',{bias.bidirectional},{bias.max_distance},'{bias.align}')"
    if isinstance(bias, BiasTable):
        return "('table',)"
    raise DTypeError(
        f"bias is a {type(bias).__name__}, which has no description; give its tile(…) as an "
        "array, regard.ALiBi(slopes) or regard.RelativeBias(table)"
    )


def rebuild(text: str, arrays: Iterator[Any]) -> ScoreRule:
    """The rule that `describe` described, over these arrays."""
    scale, softcap, kind, has_sink = _parsed(text)
    bias = None if kind is None else _bias(kind, arrays)
    return ScoreRule(scale, softcap, bias, next(arrays) if has_sink else None)


def _bias(kind: Any, arrays: Iterator[Any]) -> Bias:
    if kind[0] == "part":
        return PartBias(_bias(kind[1], arrays), *kind[2:])
    if kind[0] == "alibi":
        return ALiBi(next(arrays), kind[1])
    if kind[0] == "relative":
        return RelativeBias(next(arrays), kind[1], kind[2], kind[3])
    return BiasTable(next(arrays))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return ast.literal_eval(text)
