"""Masks as the kernels evaluate them: a conjunction of things that are O(tokens) to say.

    band     least ≤ j − i ≤ most, two numbers: causal masks and windows
    spans    low_i ≤ j < high_i, one or two intervals a row: lengths, prefixes, complements,
             packed sequences
    ids      a number per query and per key that must be equal: packed documents
    flags    a boolean per key: scattered padding
    table    booleans that the caller has
    spelt    what any other mask allows (a Rule, a class of the caller's, a combination that is
             none of the above), as bits of at most 256 MiB: see `spelt`

Everything is computed on the mask's own device and nothing is fetched from it, so that no launch
waits. Where ids or flags are used, spans say which keys can matter at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.declare import is_portable
from regard.engine.backends.gpu.spelt import MOST, Spelt, spelt_out, too_many_bytes
from regard.errors import UnavailableError
from regard.mask import (
    Causal,
    Documents,
    Extent,
    Mask,
    Packed,
    Padding,
    Prefix,
    Rule,
    Table,
    Window,
)
from regard.mask.base import Both, Either, Not, Part


class KeySpan(NamedTuple):
    """(…, L) int64 each; None leaves a side open."""

    low: Tensor | None
    high: Tensor | None


@dataclass(frozen=True)
class Seen:
    """All of it must hold."""

    least: int | None = None
    most: int | None = None
    spans: tuple[KeySpan, ...] = ()  # one of them must hold, where there are any
    query_ids: Tensor | None = None  # (…, L)
    key_ids: Tensor | None = None  # (…, S)
    flags: Tensor | None = None  # (…, S)
    table: Tensor | None = None  # (…, heads, L, S) or broadcastable
    spelt: Spelt | None = None  # then it is all there is


class _Frame(NamedTuple):
    """Where a part stands in the problem its mask speaks of."""

    queries: int
    keys: int
    down: int  # local query 0 is query `down` of the whole
    across: int
    whole: Extent
    device: torch.device

    def rows(self) -> Tensor:
        """(L,): the queries' places in the whole."""
        return torch.arange(self.down, self.down + self.queries, device=self.device)


def seen_by(mask: Mask | None, extent: Extent, device: torch.device) -> Seen:
    """The mask's normal form; UnavailableError where it has none."""
    if mask is None:
        return Seen()
    try:
        return _add(Seen(), mask, _Frame(extent.queries, extent.keys, 0, 0, extent, device))
    except UnavailableError as error:
        spelt = spelt_out(mask, extent, device)
        if isinstance(spelt, int):
            raise _refusal(_too_large(error, spelt)) from error
        return Seen(spelt=spelt)


def _too_large(error: UnavailableError, size: int) -> str:
    why = error.reasons["triton"][0]
    return f"{why}, and as a table it takes {size >> 20} MiB of {MOST >> 20}"


class Form(NamedTuple):
    """Which parts the normal form of a mask has; `why_not` where it has none."""

    ids: bool = False
    flags: bool = False
    table: bool = False  # or bits
    why_not: str = ""


_FORMS: dict[Any, Form] = {}
_MANY_FORMS = 1024


def normal_form(mask: Mask | None, extent: Extent, device: str = "meta") -> Form:
    """By dtypes and shapes alone, once for all masks of the same structure; those that hold a
    function are judged anew, so that none is kept alive. Only whether a very large mask can be
    spelt out is asked on the kind of device that it is for, see `spelt`."""
    if mask is None:
        return Form()
    key = (mask.structure(), extent, device) if is_portable(mask) else None
    form = None if key is None else _FORMS.get(key)
    if form is None:
        form = _judged(mask, extent, device)
        if len(_FORMS) >= _MANY_FORMS:
            _FORMS.clear()
        if key is not None and not form.why_not:  # a trace may refuse what another call takes
            _FORMS[key] = form
    return form


def _judged(mask: Mask, extent: Extent, device: str) -> Form:
    empty = mask.map(lambda array: torch.empty_like(array, device="meta"))
    frame = _Frame(extent.queries, extent.keys, 0, 0, extent, torch.device("meta"))
    try:
        seen = _add(Seen(), empty, frame)
    except UnavailableError as error:
        size = too_many_bytes(mask, extent, device)
        return Form(table=True) if size is None else Form(why_not=_too_large(error, size))
    return Form(seen.query_ids is not None, seen.flags is not None, seen.table is not None)


# ── the conjunction ──────────────────────────────────────────────────────────────────────────


def _add(seen: Seen, mask: Mask, frame: _Frame) -> Seen:
    mask = _simple(mask)
    if isinstance(mask, Both):
        return _add(_add(seen, mask.left, frame), mask.right, frame)
    if isinstance(mask, Part):
        down, across = frame.down + mask.query_start, frame.across + mask.key_start
        whole = mask.within(frame.whole)
        return _add(seen, mask.mask, frame._replace(down=down, across=across, whole=whole))
    if isinstance(mask, Causal | Window):
        return _narrow(seen, mask, frame)
    if isinstance(mask, Packed):
        return _add_packed(seen, mask, frame)
    if isinstance(mask, Documents):
        return _add_documents(seen, mask, frame)
    if isinstance(mask, Padding) and mask.keys.dtype == torch.bool:
        return _add_flags(seen, mask, frame)
    if isinstance(mask, Table):
        return _add_table(seen, mask, frame)
    if isinstance(mask, Rule):
        raise _refusal("of masks it knows no Rule")
    spans = _spans(mask, frame)
    if spans is None:
        raise _refusal(f"of combined masks it knows intervals only, not {mask!r}")
    return _meet(seen, spans, frame)


def _simple(mask: Mask) -> Mask:
    """~~x is x, and ~(a | b) is ~a & ~b."""
    if isinstance(mask, Not) and isinstance(mask.mask, Not):
        return _simple(mask.mask.mask)
    if isinstance(mask, Not) and isinstance(mask.mask, Either):
        return Both(Not(mask.mask.left), Not(mask.mask.right))
    return mask


def _narrow(seen: Seen, mask: Causal | Window, frame: _Frame) -> Seen:
    left, right = (None, 0) if isinstance(mask, Causal) else (mask.left, mask.right)
    shift = frame.whole.shift(mask.align) + frame.down - frame.across
    least = None if left is None else shift - left
    most = None if right is None else shift + right
    both = [n for n in (seen.least, least) if n is not None]
    ends = [n for n in (seen.most, most) if n is not None]
    return replace(seen, least=max(both, default=None), most=min(ends, default=None))


def _add_packed(seen: Seen, mask: Packed, frame: _Frame) -> Seen:
    """One interval a row; where queries and keys begin together, windows are a band as well."""
    sight = mask.sight(frame.rows())
    if sight is None:
        raise _refusal(f"of packed sequences it knows causal masks and windows, not {mask.mask!r}")
    for window in mask.windows() or () if mask.key_starts is None else ():
        seen = _narrow(seen, window, frame)
    return _meet(seen, (KeySpan(*sight),), frame)


def _add_documents(seen: Seen, mask: Documents, frame: _Frame) -> Seen:
    if seen.query_ids is not None:
        raise _refusal("it knows one Documents mask at a time")
    queries = mask.query_ids[..., frame.down : frame.down + frame.queries]
    keys = mask.key_ids[..., frame.across : frame.across + frame.keys]
    sizes = (queries.shape[:-1], keys.shape[:-1])
    batch = torch.broadcast_shapes(*sizes)  # type: ignore[no-untyped-call]
    queries = queries.expand(*batch, -1).contiguous()
    keys = keys.expand(*batch, -1).contiguous()
    seen = replace(seen, query_ids=queries, key_ids=keys)
    if frame.keys == 0:
        return seen
    ordered, place = keys.sort(dim=-1, stable=True)
    first = torch.searchsorted(ordered, queries)
    behind = torch.searchsorted(ordered, queries, right=True)
    none = first == behind
    low = place.gather(-1, first.clamp(max=frame.keys - 1)).masked_fill(none, 0)
    high = (place.gather(-1, (behind - 1).clamp(min=0)) + 1).masked_fill(none, 0)
    at = frame.across
    return _meet(seen, (KeySpan(low + at, high + at),), frame)


def _add_flags(seen: Seen, mask: Padding, frame: _Frame) -> Seen:
    flags = mask.keys[..., frame.across : frame.across + frame.keys]
    if mask.queries is not None:
        seen = _meet(seen, (KeySpan(None, _real_queries(mask, frame) * frame.whole.keys),), frame)
    if seen.flags is not None:
        flags = flags & seen.flags
    seen = replace(seen, flags=flags)
    if frame.keys == 0:
        return seen
    j = torch.arange(frame.keys, device=flags.device)
    low = torch.where(flags, j, frame.keys).amin(-1, keepdim=True)
    high = torch.where(flags, j + 1, 0).amax(-1, keepdim=True)
    rows = torch.zeros_like(frame.rows())
    return _meet(seen, (KeySpan(low + rows + frame.across, high + rows + frame.across),), frame)


def _add_table(seen: Seen, mask: Table, frame: _Frame) -> Seen:
    if seen.table is not None:
        raise _refusal("it knows one boolean table at a time; combine them with & before")
    table = mask.table
    if table.shape[-2] > 1:
        table = table[..., frame.down : frame.down + frame.queries, :]
    if table.shape[-1] > 1:
        table = table[..., frame.across : frame.across + frame.keys]
    return replace(seen, table=table)


def _meet(seen: Seen, spans: tuple[KeySpan, ...], frame: _Frame) -> Seen:
    """Spans of the whole problem, taken along in the part's own places."""
    local = [KeySpan(*(None if s is None else s - frame.across for s in span)) for span in spans]
    if not seen.spans:
        return replace(seen, spans=tuple(local))
    both = tuple(_overlap(a, b) for a in seen.spans for b in local)
    if len(both) > 2:
        raise _refusal("a row may see two intervals of keys at most")
    return replace(seen, spans=both)


# ── intervals ────────────────────────────────────────────────────────────────────────────────


def _spans(mask: Mask, frame: _Frame) -> tuple[KeySpan, ...] | None:
    """One or two intervals, in places of the whole problem; None where it is no such thing."""
    mask = _simple(mask)
    if isinstance(mask, Both | Either):
        return _pair(mask, frame)
    if isinstance(mask, Not):
        return _outside(_spans(mask.mask, frame))
    if isinstance(mask, Causal | Window):
        left, right = (None, 0) if isinstance(mask, Causal) else (mask.left, mask.right)
        at = frame.rows() + frame.whole.shift(mask.align)
        return (
            KeySpan(None if left is None else at - left, None if right is None else at + right + 1),
        )
    if isinstance(mask, Prefix):
        return (KeySpan(None, mask.n[..., None] + torch.zeros_like(frame.rows())),)
    if isinstance(mask, Padding) and mask.keys.dtype != torch.bool:
        return (KeySpan(None, mask.keys[..., None] * _real_queries(mask, frame)),)
    return None


def _pair(mask: Both | Either, frame: _Frame) -> tuple[KeySpan, ...] | None:
    left, right = _spans(mask.left, frame), _spans(mask.right, frame)
    if left is None or right is None:
        return None
    if isinstance(mask, Both):
        both = tuple(_overlap(a, b) for a in left for b in right)
        return both if len(both) <= 2 else None
    joined = (*left, *right)
    if all(span.low is None and span.high is not None for span in joined):
        return (KeySpan(None, _most([span.high for span in joined])),)
    return joined if len(joined) <= 2 else None


def _outside(spans: tuple[KeySpan, ...] | None) -> tuple[KeySpan, ...] | None:
    if spans is None or len(spans) > 1:
        return None
    low, high = spans[0]
    before = () if low is None else (KeySpan(None, low),)
    behind = () if high is None else (KeySpan(high, None),)
    return (*before, *behind) or (KeySpan(None, torch.zeros((), dtype=torch.int64)),)


def _overlap(a: KeySpan, b: KeySpan) -> KeySpan:
    lows = [s for s in (a.low, b.low) if s is not None]
    highs = [s for s in (a.high, b.high) if s is not None]
    low = torch.maximum(*lows) if len(lows) == 2 else lows[0] if lows else None
    high = torch.minimum(*highs) if len(highs) == 2 else highs[0] if highs else None
    return KeySpan(low, high)


def _most(sides: list[Any]) -> Tensor:
    most: Tensor = sides[0]
    for side in sides[1:]:
        most = torch.maximum(most, side)
    return most


def _real_queries(mask: Padding, frame: _Frame) -> Tensor:
    """(…, L) int64: 1 where the query is real."""
    rows = frame.rows()
    if mask.queries is None:
        return torch.ones_like(rows)
    given: Tensor = mask.queries
    if given.dtype == torch.bool:
        return given[..., frame.down : frame.down + frame.queries].to(torch.int64)
    return (rows < given[..., None]).to(torch.int64)


def _refusal(reason: str) -> UnavailableError:
    return UnavailableError("'triton' cannot serve this call:", {"triton": [reason]})
