"""Which rows and keys of a call belong to which prompt, and what is measured of them.

Everything here is computed from values and changes nothing:
call + progress → `CallSlice` per sequence → `CallPlan`, from which the numbers are made.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.call import Call
from regard.errors import InputError
from regard.hear.follows import hides_padding
from regard.hear.hooks import Caller, Pass
from regard.hear.inputs import inside, margins, real_in
from regard.hear.names import Spot, stream_of
from regard.recorder.measure import CallMeasures, matchings
from regard.recorder.plan import Choice, Plan
from regard.shapes import AttentionShape
from regard.summary import Matching, Summary

_Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Progress:
    """How far the calls of one layer have come in one sequence."""

    rows: int  # shown so far
    kept: int  # those of them that are recorded
    keys: int
    length: int  # rows of the first call, or those that were announced
    last_key: Tensor | None  # (K, D)


@dataclass(frozen=True)
class OpenSequence:
    """A sequence that is being read: its number, tokens by stream, and how far each layer is."""

    number: int
    ids: Mapping[str, _Ids]
    progress: Mapping[Spot, Progress]
    first_key: int = 0  # keys before it are in another recording


@dataclass(frozen=True, kw_only=True)
class CallSlice:
    """One prompt's part of a call: batch entries first … first + count − 1, and of each the rows
    and keys that are real tokens."""

    first: int
    count: int  # more than one where a module looks at several windows: they become heads
    rows: range  # in the call
    keys: range
    row_start: int  # of rows[0] in the prompt
    key_start: int  # of keys[0]
    known_keys: int  # keys of the prompt that earlier calls have shown
    kept: range  # those of `rows` that are recorded
    begins: bool  # the first of them begins a bin
    heads: tuple[int, ...]  # recorded, of count × heads
    kind: Literal["self", "cross"]
    exact: bool
    whole: bool  # every real row is recorded, and no other row saw anything
    length: int  # of the prompt, as far as known

    @property
    def entries(self) -> slice:
        """In the batch."""
        return slice(self.first, self.first + self.count)

    @property
    def fresh(self) -> slice:
        """The keys of the call that earlier calls have not shown."""
        new = min(self.key_start + len(self.keys) - self.known_keys, len(self.keys))
        return slice(self.keys.stop - max(new, 0), self.keys.stop)

    def is_short(self, rows: int) -> bool:
        """Whether it begins with its prompt, and has some rows but fewer than so many."""
        return (
            self.count == 1
            and self.row_start == self.key_start == self.known_keys == 0
            and 0 < len(self.rows) < rows
            and len(self.keys) > 0
        )

    def is_aligned(self, cell: int) -> bool:
        """Whether the sweep's own cells are the prompt's: nothing cut off in front, and both begin
        with a whole cell."""
        return (
            self.rows.start == self.keys.start == 0
            and self.row_start % cell == 0
            and self.key_start % cell == 0
        )

    def after(self, before: Progress | None, last_key: Tensor | None) -> Progress:
        """How far the layer is when this call is done."""
        kept, keys, last = (before.kept, before.keys, before.last_key) if before else (0, 0, None)
        return Progress(
            rows=self.row_start + len(self.rows),
            kept=kept + len(self.kept),
            keys=max(keys, self.key_start + len(self.keys)),
            length=self.length,
            last_key=last if last_key is None else last_key,
        )


def last_keys(key: Tensor, slices: Sequence[CallSlice]) -> list[Tensor | None]:
    """(K, D) of each slice whose keys are its own tokens: a copy of its last key."""
    some = [n for n, part in enumerate(slices) if len(part.keys) and part.kind == "self"]
    found: list[Tensor | None] = [None] * len(slices)
    if some:
        entries = [slices[n].first for n in some]
        copies = _flat(key)[entries, :, [slices[n].keys.stop - 1 for n in some]]
        for n, copy in zip(some, copies.unbind(), strict=True):
            found[n] = copy
    return found


@dataclass(frozen=True)
class CallPlan:
    """What a recorder decides about a call before it is computed."""

    caller: Caller
    spot: Spot
    slices: tuple[CallSlice, ...]  # one per sequence
    measures: CallMeasures
    plan: Plan

    def summaries(self) -> tuple[Summary, ...]:
        """What the engine is to measure on its way."""
        if not any(part.kept for part in self.slices):
            return ()
        whole = all(part.whole for part in self.slices)
        return self.measures.summaries() if whole else tuple(self.measures.matches.values())

    @property
    def is_batch(self) -> bool:
        """Whether these are short documents side by side, each from its first token on, padded on
        the right if at all, of which every row and key is kept: `batch` records them together."""
        plan = self.plan
        return (
            len(self.slices) > 1
            and self.measures.cell > 0  # so that all are whole, and begin with the call
            and plan.row_bin == plan.key_bin == plan.top_every == 1
            and not plan.distances
            and all(part.is_short(plan.write_rows) for part in self.slices)
        )


def slice_call(
    call: Call,
    caller: Caller,
    spot: Spot,
    now: Pass,
    sequences: list[OpenSequence],
    *,
    cross: bool,
    choice: Choice,
    plan: Plan,
    exact: bool,
    announced: int | None,
    known: dict[Any, Any],
) -> tuple[CallSlice, ...]:
    """Each sequence's part of the call; `announced` is the length of the prompts, where known.
    `known` are those of other layers, while the tokens stay the same."""
    per = math.prod(call.shape.batch) // len(sequences)
    heads = choice.heads_of(call.shape.query_heads * per)
    layout = laid_out(sequences[0].ids, len(sequences), caller, now, call, cross=cross)
    first = all(spot not in one.progress for one in sequences)
    key = (CallSlice, stream_of(sequences[0].ids, caller), per, heads, cross, exact, *layout)
    if first and key in known:
        return known[key]
    made: list[CallSlice] = []
    for number, (one, (rows, keys, hidden)) in enumerate(zip(sequences, layout, strict=True)):
        before = one.progress.get(spot)
        behind = 0 if cross else max(len(keys) - len(rows), 0)
        start = behind if before is None else before.rows
        if before is None:
            is_main = stream_of(one.ids, caller) == _main_stream(one.ids)
            length = max((announced if is_main else None) or 0, start + len(rows))
        else:
            length = before.length
        kept = choice.rows(start, start + len(rows), length)
        local = range(kept.start - start + rows.start, kept.stop - start + rows.start)
        done = 0 if before is None else before.kept
        made.append(
            CallSlice(
                first=number * per,
                count=per,
                rows=rows,
                keys=keys,
                row_start=start,
                key_start=0 if cross else max(start + len(rows) - len(keys), 0),
                known_keys=one.first_key if before is None else before.keys,
                kept=local,
                begins=done % math.lcm(plan.row_bin, plan.top_every) == 0,
                heads=heads,
                kind="cross" if cross else "self",
                exact=exact,
                whole=local == rows and hidden,
                length=length,
            )
        )
        if not cross:
            _check_cache(before, call.key, made[-1])
    if first:
        known[key] = tuple(made)
    return tuple(made)


Matches: TypeAlias = tuple[Matching | None, Matching | None]


def matches_in(
    call: Call,
    caller: Caller,
    sequences: list[OpenSequence],
    slices: tuple[CallSlice, ...],
    known: dict[Any, Any],
) -> Matches:
    """Earlier copies of each token, and what followed them; nothing without tokens. `known` are
    those of other layers, while the tokens stay the same."""
    names = [stream_of(one.ids, caller) for one in sequences]
    if not all(names) or any(s.count > 1 or s.kind == "cross" for s in slices):
        return None, None
    ids = [one.ids[name] for one, name in zip(sequences, names, strict=True)]
    if any(len(i) != s.row_start + len(s.rows) for i, s in zip(ids, slices, strict=True)):
        return None, None
    rows, keys = tuple(s.rows for s in slices), tuple(s.keys for s in slices)
    where = ("matches", *names, rows, keys, call.shape, call.query.device)
    if where not in known:
        known[where] = matchings(ids, rows, keys, call.shape, call.query.device)
    found: Matches = known[where]
    return found


def looks_across(now: Pass, call: Call) -> bool:
    """Whether a call's keys are another sequence's, judged by its size alone. Fewer queries than
    keys are a step behind a cache of the model's own, where it was given as many tokens; else they
    are a probe that pools what it looks at."""
    queries, keys, given = call.shape.queries, call.shape.keys, now.given.data
    if now.cached or queries == keys:
        return False
    if queries > keys:
        return not now.padding
    tokens = [s[0] if len(s) == 2 and not whole else s[1] for s, whole in given]
    return bool(given) and queries not in tokens


def entry_of(call: Call, number: int) -> tuple[int, ...]:
    """Where a batch entry stands among the batch's axes."""
    batch = call.shape.batch
    return tuple(int(n) for n in np.unravel_index(number, batch)) if batch else ()


def real_parts(padding: Tensor | None, sequences: int, count: int) -> list[range]:
    """Which of the last `count` tokens of each sequence are real: all but a margin of padding."""
    if padding is None or padding.shape[1] < count:
        return [range(count)] * sequences
    return margins(padding[:sequences, padding.shape[1] - count :].cpu().numpy())


def streams_of(ids: Mapping[str, _Ids], caller: Caller, part: CallSlice) -> tuple[str, str]:
    """Which tokens the queries and the keys of a place stand for: as many as there are."""
    own = stream_of(ids, caller)
    if own and len(ids[own]) != part.row_start + len(part.rows):
        own = ""
    if part.kind == "self":
        return own, own
    read = ids.get("encoder")
    return own, "encoder" if read is not None and len(read) == len(part.keys) else ""


def _main_stream(names: Collection[str]) -> str:
    return "tokens" if "tokens" in names else next(iter(names), "")


def laid_out(
    names: Collection[str], count: int, caller: Caller, now: Pass, call: Call, *, cross: bool
) -> list[tuple[range, range, bool]]:
    """Of each of `count` sequences the rows and keys of a call that are real tokens, and whether
    the mask keeps its other rows from seeing anything.

    names   the streams of tokens that are known
    """
    shape, per = call.shape, math.prod(call.shape.batch) // count
    told = real_in(call.mask, shape.extent)
    queries, seen = (None if real is None else real[::per] for real in (told.queries, told.keys))
    given = now.padding.get(stream_of({*names, *now.padding}, caller))
    if given is not None and not _is_about(given, shape.queries, now.cached):
        given = None
    if seen is not None:
        keys = margins(seen)
    elif cross:
        keys = [range(shape.keys)] * count
    else:  # not the empty rest of a cache of fixed size
        filled = min(shape.keys, now.cached + shape.queries) if now.cached else shape.keys
        keys = real_parts(given, count, filled)
        if not hides_padding(call, real_parts(given, count, shape.queries), keys, filled):
            given, keys = None, [range(filled)] * count
    if given is not None or (queries is None and (cross or seen is None)):
        rows = real_parts(given, count, shape.queries)
    elif queries is not None:
        rows = margins(queries)
    else:
        rows = [_own_rows(part, shape) for part in keys]
    if not cross:
        rows, keys = _same_tokens(rows, keys, shape)
    hidden = [part == range(shape.queries) for part in rows]
    if queries is not None:
        seeing: list[bool] = np.any(queries & ~inside(rows, shape.queries), 1).tolist()
        hidden = [every or not some for every, some in zip(hidden, seeing, strict=True)]
    return list(zip(rows, keys, hidden, strict=True))


def _own_rows(keys: range, shape: AttentionShape) -> range:
    """The real queries, where the mask tells of keys alone: query i is key S − L + i. Behind caches
    that are filled to different lengths, whose last keys are padding, all of them are real."""
    ahead = shape.keys - shape.queries
    if ahead > 0 and 0 < keys.stop < shape.keys:
        return range(shape.queries)
    return range(max(keys.start - ahead, 0), max(keys.stop - ahead, 0))


def _same_tokens(
    rows: list[range], keys: list[range], shape: AttentionShape
) -> tuple[list[range], list[range]]:
    """Queries and keys that are the same tokens count alike: what is real as either is a token,
    and the mask says what it may see. The first queries of so many more keys are behind them."""
    ahead = shape.keys - shape.queries
    if ahead < 0:
        return rows, keys
    own = [range(max(k.start - ahead, 0), max(k.stop - ahead, 0)) for k in keys]
    rows = [_hull(*both) for both in zip(rows, own, strict=True)]
    return rows, rows if ahead == 0 else keys


def _hull(one: range, other: range) -> range:
    """From the first of both to the last."""
    if not one or not other:
        return one or other
    return range(min(one.start, other.start), max(one.stop, other.stop))


def _check_cache(before: Progress | None, key: Tensor, part: CallSlice) -> None:
    """The keys of earlier calls are still where they were: beam search moves them about."""
    keys = part.keys
    if part.key_start + len(keys) != part.row_start + len(part.rows):
        raise InputError(
            f"{len(keys)} keys and {part.row_start + len(part.rows)} tokens so far: there is "
            "padding between them; pad prompts on the left"
        )
    if before is None or before.last_key is None:
        return
    place = before.keys - 1 - part.key_start + keys.start
    if 0 <= place < keys.stop - 1 and not torch.equal(
        _flat(key)[part.first, :, place], before.last_key
    ):
        raise InputError(
            "the cache holds other keys than were recorded: sequences were reordered or the "
            "cache was changed; generate with num_beams=1, and begin each prompt anew"
        )


def _flat(key: Tensor) -> Tensor:
    """(E, K, S, D)."""
    return key.reshape(-1, *key.shape[-3:]).detach()


def _is_about(padding: Tensor, queries: int, cached: int) -> bool:
    """Whether padding (B, N) can be that of a call's rows: of all tokens, or of the last ones
    where a cache holds the others."""
    return padding.shape[1] == queries or (cached > 0 and padding.shape[1] > queries)
