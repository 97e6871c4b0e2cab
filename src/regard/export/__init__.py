"""A recording in other people's formats: tables (CSV, Parquet) and arrays (.npz, safetensors).

chosen     which heads, and which part of each
measures   what is known row by row and key by key
as_table   → one tidy table
as_arrays  → arrays by name
tables     a table written piece by piece
arrays     arrays written one after the other
"""

from __future__ import annotations

from regard.export.arrays import Named, write_npz, write_safetensors
from regard.export.as_arrays import ARRAYS, about, make_arrays
from regard.views.table import TABLES, make_table
from regard.export.chosen import Chosen, matching
from regard.export.tables import Table, write_csv, write_parquet

__all__ = [
    "ARRAYS",
    "TABLES",
    "Chosen",
    "Named",
    "Table",
    "about",
    "make_arrays",
    "make_table",
    "matching",
    "write_csv",
    "write_npz",
    "write_parquet",
    "write_safetensors",
]
