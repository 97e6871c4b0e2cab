"""One table, written chunk by chunk as CSV or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from regard.tidy import Kind, TidyTable, chunk_length

_SPECIAL: Final = re.compile(r'[",\r\n]')
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")


def write_csv(table: TidyTable, path: Path, done: Callable[[int], None] = lambda _: None) -> None:
    """With a line of names; what is missing is an empty cell. Texts are made `harmless`. `done` is
    called with the length of each chunk."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(_quoted(one.name) for one in table.schema) + "\n")
        for chunk in table.chunks():
            cells = [_cells(chunk[one.name], one.kind) for one in table.schema]
            file.writelines(f"{','.join(line)}\n" for line in zip(*cells, strict=True))
            done(chunk_length(chunk))


def write_parquet(
    table: TidyTable, path: Path, done: Callable[[int], None] = lambda _: None
) -> None:
    """One row group a chunk, with what the columns mean; what is missing is null."""
    schema = table.arrow_schema()
    with import_module("pyarrow.parquet").ParquetWriter(path, schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch)
            done(batch.num_rows)


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
