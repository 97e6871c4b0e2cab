"""TidyTable: columns by name with what they mean, in chunks that are made when they are read.

Whatever reads Arrow's PyCapsule interface reads one: `pyarrow.table(t)`, `polars.DataFrame(t)`,
`pandas.DataFrame.from_arrow(t)`, duckdb. Without pyarrow, `t.columns` is numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import MissingExtraError, UnavailableError

Kind: TypeAlias = Literal["whole", "number", "text"]
Chunk: TypeAlias = Mapping[str, Any]  # column → array or list, all of one length

_ARROW: Final = {"whole": "int64", "number": "float64", "text": "string"}
_EMPTY: Final = {"whole": np.int64, "number": np.float64, "text": object}


@dataclass(frozen=True)
class TableColumn:
    """A column: whole numbers, numbers (NaN where one is not known) or text."""

    name: str
    kind: Kind
    words: str = ""
    unit: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class TidyTable:
    """One observation a line, one variable a column.

    schema      the columns
    chunks      gives the lines anew at each call, chunk by chunk: a long table is never held whole
    about       facts on the whole: the model, the texts; kept in Arrow's and Parquet's metadata
    at_most     lines, at most; None where nothing is known before they are made
    is_counted  whether there are exactly so many
    """

    name: str
    schema: tuple[TableColumn, ...]
    chunks: Callable[[], Iterator[Chunk]]
    about: Mapping[str, str] = field(default_factory=dict)
    at_most: int | None = None
    is_counted: bool = False

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        """Where it is not known before, by making every chunk once."""
        if self.at_most is not None and self.is_counted:
            return self.at_most
        return sum(map(chunk_length, self.chunks()))

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """(lines,) of each column, by name: int64, floats, or objects that are str."""
        chunks = list(self.chunks())
        return {
            one.name: np.concatenate(
                [np.zeros(0, _EMPTY[one.kind])] * (not chunks)
                + [_as_numpy(chunk[one.name], one.kind) for chunk in chunks]
            )
            for one in self.schema
        }

    # ── Arrow ────────────────────────────────────────────────────────────────────────────────

    def arrow_schema(self) -> Any:
        """The `pyarrow.Schema`: what a column means stands in its field's metadata."""
        arrow = _arrow()
        fields = [
            arrow.field(
                one.name, getattr(arrow, _ARROW[one.kind])(),
                metadata={k: _bytes(v) for k in ("words", "unit") if (v := getattr(one, k))},
            )
            for one in self.schema
        ]  # fmt: skip
        facts = {"table": self.name, **self.about}
        return arrow.schema(fields, {f"regard.{key}": _bytes(text) for key, text in facts.items()})

    def batches(self) -> Iterator[Any]:
        """One `pyarrow.RecordBatch` a chunk; what is not known is null."""
        arrow, schema = _arrow(), self.arrow_schema()
        for chunk in self.chunks():
            arrays = [
                arrow.array(
                    _as_numpy(chunk[one.name], one.kind, wide=True), at.type, from_pandas=True
                )
                for one, at in zip(self.schema, schema, strict=True)
            ]
            yield arrow.record_batch(arrays, schema=schema)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        return _arrow().Table.from_batches(self.batches(), self.arrow_schema())

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return _needed("polars").from_arrow(self.to_arrow())

    def __arrow_c_schema__(self) -> Any:
        """Arrow's PyCapsule interface: the columns."""
        return self.arrow_schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's PyCapsule interface: the lines, chunk by chunk as they are read."""
        reader = _arrow().RecordBatchReader.from_batches(self.arrow_schema(), self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        most = "" if self.is_counted else "up to "
        lines = "" if self.at_most is None else f"{most}{self.at_most:,} lines × "
        names = ", ".join(one.name for one in self.schema[:8])
        more = ", …" if len(self.schema) > 8 else ""
        return f"TidyTable({self.name}: {lines}{len(self.schema)} columns: {names}{more})"


def chunk_length(chunk: Chunk) -> int:
    """How many lines it has."""
    return len(next(iter(chunk.values())))


def _as_numpy(column: Any, kind: Kind, *, wide: bool = False) -> NDArray[Any]:
    """As the kind has it; numbers as precise as they came, or as float64."""
    if kind == "number":
        return np.asarray(column, np.float64 if wide else None)
    return np.asarray(column, _EMPTY[kind])


def _bytes(text: str) -> bytes:
    """Half of a character, which is no text, becomes a mark."""
    return text.encode("utf-8", "replace")


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("an Arrow table", "pyarrow", "parquet") from None


def _needed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UnavailableError(
            f"{package} is not installed; install it with: pip install {package}, or take "
            "to_arrow() or columns"
        ) from None
