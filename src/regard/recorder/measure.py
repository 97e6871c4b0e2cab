"""One attention in numbers: what a recording keeps of it, where the attention itself is.

`CallMeasures` names what the forward sweep brings along, so that nearly all of it costs no sweep of
its own; `measured` reads it.

Shapes: E batch entries, H query heads, K key heads, L queries, S keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.errors import InputError
from regard.mask import Extent, Mask
from regard.mask.spans import spans_of
from regard.recorder.background_writer import send
from regard.recording.measures import KINDS
from regard.recording.schema import STATISTIC_NAME, TAKEN
from regard.shapes import AttentionShape
from regard.summary import (
    Entropy,
    Matching,
    Offsets,
    Pooled,
    Received,
    RowStatistic,
    Summary,
    Top,
    Visible,
    as_summaries,
    normalize,
)

# What the engine measures for every recording, by its name there.
_MEASURED: dict[str, RowStatistic] = {
    name: kind.summary for name, kind in KINDS.items() if kind.summary is not None
}


@dataclass(frozen=True)
class CallMeasures:
    """What to measure in one call."""

    top: int
    cell: int  # tokens a cell of the pooled map; 0: no map by the sweep
    duplicate: Matching | None = None  # None: no token ids
    prefix: Matching | None = None
    more: tuple[RowStatistic, ...] = ()  # that the caller declares; see `recordable`

    @property
    def matches(self) -> dict[str, Matching]:
        """What depends on token ids, by its name in a recording."""
        both = {"duplicate": self.duplicate, "prefix": self.prefix}
        return {name: match for name, match in both.items() if match is not None}

    def summaries(self) -> tuple[Summary, ...]:
        """As the engine takes it."""
        asked: list[Summary] = [*_MEASURED.values(), Received(), Offsets(), Top(self.top)]
        asked += [Pooled(self.cell)] if self.cell else []
        return (*asked, *self.more, *self.matches.values())


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Everything about one call, in float32 or whole numbers."""

    rows: dict[str, Tensor]  # (E, H, L) each, by the names they have in a recording
    normalized: Tensor  # (E, H, L): entropy ÷ log(visible keys)
    visible: Tensor  # (E or 1, H or 1, L): how many keys each row may see
    top_weights: Tensor  # (E, H, L, k)
    top_keys: Tensor
    received: Tensor  # (E, H, S)
    offsets: Tensor  # (E, H, L + S − 1)
    pooled: Tensor | None  # (E, H, ⌈L/cell⌉, ⌈S/cell⌉): sums over cells
    value_norm: Tensor  # (E, K, values given)


def measured(attention: Attention, wanted: CallMeasures, output: Tensor, value: Tensor) -> Measured:
    """The numbers, with gradients left behind."""
    call = attention._call
    with torch.no_grad():
        found = attention.summarize(*wanted.summaries())
        entropy = found[Entropy()]
        seen = visible_keys(call)
        even = normalize(entropy, seen, call.score.sink is not None)
        top = found[Top(wanted.top)]
        rows = {
            "lse": attention.lse,
            "peak": top.weights[..., 0],
            "output_norm": norms(output),
        }
        rows |= {name: found[one] for name, one in _MEASURED.items()}
        rows |= {name: found[match] for name, match in wanted.matches.items()}
        rows |= {one.name: found[one].float() for one in wanted.more}
        pooled = None
        if wanted.cell:
            kind = Pooled(wanted.cell)
            pooled = found[kind] * kind.area(call.shape, found[kind])
        shape, per_head = call.shape, (-1, call.shape.query_heads)
        per_row = *per_head, shape.queries
        return Measured(
            rows={name: _plain(value, *per_row) for name, value in rows.items()},
            normalized=_plain(even, *per_row),
            visible=seen.reshape(-1, *seen.shape[-2:]),
            top_weights=_plain(top.weights, *per_row, wanted.top),
            top_keys=_plain(top.keys.to(torch.int32), *per_row, wanted.top),
            received=_plain(found[Received()], *per_head, shape.keys),
            offsets=_plain(found[Offsets()], *per_head, max(shape.queries + shape.keys - 1, 0)),
            pooled=None if pooled is None else _plain(pooled, *per_head, *pooled.shape[-2:]),
            value_norm=_plain(norms(value), -1, shape.key_heads, value.shape[-2]),
        )


def norms(vectors: Tensor) -> Tensor:
    """(…, D) → (…), in float32 without a copy in it; torch narrows no doubles here."""
    exact = torch.promote_types(vectors.dtype, torch.float32)
    return torch.linalg.vector_norm(vectors, dim=-1, dtype=exact).float()


def recordable(given: Any) -> tuple[RowStatistic, ...]:
    """Statistics that a recording can keep beside its own; InputError where one cannot be kept."""
    names: dict[str, RowStatistic] = {}
    for one in as_summaries(given):
        if not isinstance(one, RowStatistic):
            raise InputError(
                f"statistics={one!r}: a recording keeps statistics of rows beside its own; ask the "
                "open recording for others: rec['L5H1'].summarize(…)"
            )
        if any(True for _ in one.arrays()):
            raise InputError(f"statistics={one!r} holds arrays, which fit a single call only")
        taken = one.name in names or one.name in TAKEN
        if taken or not re.fullmatch(STATISTIC_NAME, one.name):
            why = "is taken" if taken else "is no name of letters, digits and _"
            raise InputError(f"{type(one).__name__}.name = {one.name!r} {why}; give it another")
        names[one.name] = one
    return tuple(names.values())


def matched(attention: Attention, wanted: CallMeasures) -> dict[str, Tensor]:
    """(E, H, L) of what depends on token ids."""
    found = attention.summarize(*wanted.matches.values()) if wanted.matches else {}
    shape = attention._call.shape
    size = (-1, shape.query_heads, shape.queries)
    return {name: _plain(found[match], *size) for name, match in wanted.matches.items()}


def visible_keys(call: Call) -> Tensor:
    """(*batch or 1s, heads or 1, L): how many keys each row may see, from the mask's intervals
    where it is made of such, and by counting where not. On the device of the call."""
    mask, bias, extent, device = call.mask, call.score.bias, call.shape.extent, call.query.device
    found = None
    if bias is None or "Table" not in type(bias).__name__:
        by_value = mask is None or mask.is_flat  # layers alike ask once
        found = (_widths_once if by_value else _widths)(mask, extent, device)
    if found is None:
        probe = Attention(*_probe(call)).summarize(Visible())[Visible()]
        found = probe.reshape(*call.shape.batch, call.shape.query_heads, -1)
    return found


def _widths(mask: Mask | None, extent: Extent, device: torch.device) -> Tensor | None:
    """From intervals; None where a mask is more than these."""
    spans, rest = spans_of(mask, extent)
    if rest is not None:
        return None
    if spans is None:
        return torch.full((1, extent.queries), extent.keys, device=device)
    low, high = (np.clip(side, 0, extent.keys) for side in spans)
    return send(torch.from_numpy(np.maximum(high - low, 0)), device).unsqueeze(-2)


_widths_once = lru_cache(maxsize=8)(_widths)


def _probe(call: Call) -> tuple[Any, ...]:
    from regard.engine.call import Answers, Known
    from regard.engine.plan import choose

    chosen = choose(call.problem(), None)
    state = chosen.state(call)
    return call, Answers(call.query[..., :0], state.lse, Known(), state), chosen


def _plain(tensor: Tensor, *shape: int) -> Tensor:
    """In float32 (or as whole numbers), with the batch as one axis."""
    plain = tensor.detach()
    return (plain.float() if plain.is_floating_point() else plain).reshape(shape)


# ── earlier copies of each token ───────────────────────────────────────────────────────────────


_Ids = NDArray[np.int64]


def matchings(
    ids: Sequence[_Ids],
    rows: Sequence[range],
    keys: Sequence[range],
    shape: AttentionShape,
    device: torch.device,
) -> tuple[Matching | None, Matching | None]:
    """For each sequence its token ids up to its last row; which rows and keys of the call are
    real. Nothing where the ids are not those of the keys."""
    made = [_marks(*one, shape) for one in zip(ids, rows, keys, strict=True)]
    if any(marks is None for marks in made):
        return None, None
    queries, copies, after = (
        send(torch.from_numpy(np.stack(marks)).reshape(*shape.batch, -1), device)
        for marks in zip(*(m for m in made if m is not None), strict=True)
    )
    return Matching(queries, copies), Matching(queries, after)


def _marks(ids: _Ids, rows: range, keys: range, shape: Any) -> tuple[_Ids, _Ids, _Ids] | None:
    """Ids of queries and keys, and of the token before each key; below 0 where there is none."""
    if len(keys) > len(ids) or len(rows) > len(ids):
        return None
    known = ids[len(ids) - len(keys) :]
    before = np.concatenate([[-1], ids])[len(ids) - len(keys) : len(ids)]
    marks = [np.full(count, -1, np.int64) for count in (shape.queries, shape.keys, shape.keys)]
    marks[0] -= 1  # a query that is no token has no copy among keys that are none
    marks[0][rows.start : rows.stop] = ids[len(ids) - len(rows) :]
    marks[1][keys.start : keys.stop] = known
    marks[2][keys.start : keys.stop] = before
    return marks[0], marks[1], marks[2]
