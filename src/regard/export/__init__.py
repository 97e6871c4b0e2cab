"""A recording in other people's formats: tables (CSV, Parquet) and arrays (.npz, safetensors).

tables     a table of `rec.table()`, written chunk by chunk
as_arrays  → arrays by name
arrays     arrays written one after the other
"""

from __future__ import annotations

from regard.export.arrays import Named, write_npz, write_safetensors
from regard.export.as_arrays import ARRAYS, about, make_arrays
from regard.export.tables import write_csv, write_parquet

__all__ = [
    "ARRAYS",
    "Named",
    "about",
    "make_arrays",
    "write_csv",
    "write_npz",
    "write_parquet",
    "write_safetensors",
]
