"""Whether a layer followed the attention_mask that its model was given.

A model may ignore it, and its layers then attend to padding like to any token. What they computed
decides: tokens are padding to a layer where no real query sees them as keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.call import Call
from regard.hear.inputs import inside, real_in
from regard.mask import Verdict

_CELLS = 2**22  # looked at together
_KEYS = 512
_FORBIDS = -5e3  # models add −10,000, −1e9 or the lowest number of their dtype, and a bias to it


def hides_padding(call: Call, rows: Sequence[range], keys: Sequence[range], filled: int) -> bool:
    """Whether no row of `rows` sees a key outside `keys`, each of one sequence, among the first
    `filled`; the later ones are the empty rest of a cache."""
    shape = call.shape
    padded: NDArray[np.bool_] = ~inside(keys, shape.keys)
    padded[:, filled:] = False
    padded &= np.array([len(part) > 0 for part in rows])[:, None]
    if not padded.any():
        return True
    entries = int(np.prod(shape.batch))
    padded = padded.repeat(entries // len(padded), 0)
    known = real_in(call.mask, shape.extent).keys
    if known is not None:
        padded &= known
    if not padded.any():
        return True
    if call.mask is None and (call.score.bias is None or not call.score.bias.hides()):
        return False
    real = inside(rows, shape.queries).repeat(entries // len(rows), 0)
    return not _sees(call, real, padded)


def _sees(call: Call, real: NDArray[np.bool_], padded: NDArray[np.bool_]) -> bool:
    """Whether any query of real (E, L) sees any key of padded (E, S)."""
    shape, mask, device = call.shape, call.mask, call.query.device
    some: list[bool] = np.any(padded, 0).tolist()
    step = max(_CELLS // (_KEYS * len(real) * shape.query_heads), 1)
    queries, keys = (torch.from_numpy(flags).to(device) for flags in (real, padded))
    for first in range(0, shape.keys, _KEYS):
        cols = range(first, min(first + _KEYS, shape.keys))
        if not any(some[cols.start : cols.stop]):
            continue
        for start in range(0, shape.queries, step):
            rows = range(start, min(start + step, shape.queries))
            if mask is not None and mask.verdict(rows, cols, shape.extent) is Verdict.NONE:
                continue
            # (E, R, C)
            pairs = queries[:, rows.start : rows.stop, None] & keys[:, None, cols.start : cols.stop]
            if bool((_visible(call, rows, cols) & pairs).any()):
                return True
    return False


def _visible(call: Call, rows: range, cols: range) -> Tensor:
    """(E, R, C): what any head sees of a tile."""
    shape, device = call.shape, call.query.device
    i, j = (torch.arange(part.start, part.stop, device=device) for part in (rows, cols))
    seen = torch.ones(len(rows), len(cols), dtype=torch.bool, device=device)
    if call.mask is not None:
        seen = seen & call.mask.allows(i, j, shape.extent)
    if call.score.bias is not None and call.score.bias.hides():
        seen = seen & (call.score.bias.tile(i, j, shape.extent) > _FORBIDS)
    heads = seen.shape[-3] if seen.ndim > 2 else 1
    full = seen.expand(*shape.batch, heads, len(rows), len(cols))
    return full.reshape(-1, heads, len(rows), len(cols)).any(1)
