"""One table, written piece by piece as CSV or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import MissingExtraError

Kind: TypeAlias = Literal["whole", "number", "text"]
Chunk: TypeAlias = Mapping[str, Any]  # column → array or list, all of one length

_SPECIAL: Final = re.compile(r'[",\r\n]')
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")
_ARROW: Final = {"whole": "int64", "number": "float64", "text": "string"}


@dataclass(frozen=True)
class Table:
    """Columns by name and kind, the number of rows, and the pieces they come in."""

    columns: Mapping[str, Kind]
    rows: int
    chunks: Callable[[], Iterator[Chunk]]


def write_csv(table: Table, path: Path, done: Callable[[int], None] = lambda _: None) -> None:
    """With a line of names; what is missing is an empty cell. Texts are made `harmless`. `done` is
    called with the length of each piece."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(map(_quoted, table.columns)) + "\n")
        for chunk in table.chunks():
            cells = [_cells(chunk[name], kind) for name, kind in table.columns.items()]
            file.writelines(f"{','.join(line)}\n" for line in zip(*cells, strict=True))
            done(_length(chunk))


def write_parquet(table: Table, path: Path, done: Callable[[int], None] = lambda _: None) -> None:
    """One row group a piece; what is missing is null."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("writing Parquet", "pyarrow", "parquet") from None
    fields = [(name, getattr(arrow, _ARROW[kind])()) for name, kind in table.columns.items()]
    schema = arrow.schema(fields)
    with parquet.ParquetWriter(path, schema) as writer:
        for chunk in table.chunks():
            arrays = [
                arrow.array(_arrow_values(chunk[field.name]), type=field.type, from_pandas=True)
                for field in schema
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            done(_length(chunk))


def _length(chunk: Chunk) -> int:
    return len(next(iter(chunk.values())))


def _cells(column: Any, kind: Kind) -> Iterable[str]:
    """As CSV has them: the fewest digits that give the number back, nothing where there is none."""
    if kind == "text":
        return (_quoted(harmless(text)) for text in column)
    numbers = np.asarray(column)
    texts = numbers.astype(np.str_)
    return np.where(np.isnan(numbers), "", texts).tolist() if kind == "number" else texts.tolist()


def harmless(text: str) -> str:
    """An apostrophe in front of what a spreadsheet would run as a formula, and of an apostrophe:
    whoever takes one from the front of each cell that has one gets every text back."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _quoted(text: str) -> str:
    """In quotes where it has to be. The csv module leaves a lone carriage return bare, which its
    own reader then takes for the end of the line."""
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _arrow_values(column: Any) -> NDArray[Any] | list[Any]:
    return column.astype(np.float64) if _is_float(column) else column


def _is_float(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind == "f"
