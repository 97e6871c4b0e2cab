"""What is shown of a recording, as typed values without layout.

table   tidy columns: `rec.table()`, and what `regard export` writes
"""

from __future__ import annotations
