"""Which keys a cache can do without, by the attention they received.

    scores      one number a key, as published methods define it: h2o, snapkv, tova, kvzip, observed
    selection   the keys that stay within a budget, and the attention that is lost with the others;
                scores and budget as one value, for caches and reports

Everything takes what answers `received`: a `regard.Attention`, or the heads of a recorded layer.
Tensors give tensors, numpy's arrays give arrays. Shapes: scores (…, Hkv, S), keep (…, Hkv, n).
"""

from __future__ import annotations

from regard.kv.scores import h2o, kvzip, observed, snapkv, tova, value_aware, value_norms
from regard.kv.selection import METHODS, Eviction, lost_mass, select, take

__all__ = [
    "METHODS",
    "Eviction",
    "h2o",
    "kvzip",
    "lost_mass",
    "observed",
    "select",
    "snapkv",
    "take",
    "tova",
    "value_aware",
    "value_norms",
]
