"""The prompts that are being read: their tokens, their ledgers, and where each call belongs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.call import Call
from regard.errors import InputError
from regard.recorder.call_slice import CallSlice, Coming, entry_of
from regard.recorder.choice import Choice
from regard.recorder.hooks import Caller, Pass
from regard.recorder.layer_names import Spot, part_of
from regard.recorder.layer_writer import LayerWriter, Store
from regard.recorder.marks import matchings
from regard.recorder.padding import margin, real_in
from regard.recorder.plan import Plan, human
from regard.recorder.sequences import sequences
from regard.recorder.tokens import Stream
from regard.recording.contents import PROMPT_NOTE, Place, Prompt
from regard.summary import Matching

_FRAME = 448  # bytes of a file besides the numbers of a tensor or the text of a note, about


class _Counted:
    """A store that counts what went into it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.spent = 0

    def add(
        self,
        name: str,
        array: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor."""
        self._store.add(name, array, metadata, dtype=dtype)
        self.spent += int(array.nbytes) + _FRAME

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole."""
        self._store.note(metadata)
        self.spent += _FRAME + sum(map(len, metadata.values()))

    def close(self) -> None:
        """The session closes it."""


class _One:
    """One sequence."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.streams: dict[str, Stream] = {}
        self.ledgers: dict[Spot, LayerWriter] = {}
        self.rows: dict[Spot, int] = {}  # rows of each place that calls have shown so far
        self.kept: dict[Spot, int] = {}  # those of them that are recorded
        self.keys: dict[Spot, int] = {}
        self.last_key: dict[Spot, Tensor] = {}  # (K, D): the last key of each place so far
        self.lengths: dict[Spot, int] = {}  # rows of each place's first call, or those to come
        self.prompt = Prompt(0)


class Prompts:
    """The sequences of the batch that is being read."""

    def __init__(self, store: Store, tokenizer: Any) -> None:
        self._store, self._tokenizer = _Counted(store), tokenizer
        self._now: Pass | None = None
        self._open: list[_One] = []
        self._number = 0
        self._read = 0  # streams of this pass
        self._order: dict[Spot, int] = {}  # places, in the order they were first heard
        self.plan: Plan | None = None
        self.expected: int | None = None  # tokens of the prompt itself, where announced
        # of one prompt over several recordings: its tokens that stand before this one's
        self.before: NDArray[np.int64] = np.zeros(0, np.int64)
        self.pages = 0  # how much was taken down, ever
        self._coming: tuple[Spot, list[Coming]] | None = None

    @property
    def spent(self) -> int:
        """Bytes written."""
        return self._store.spent

    @property
    def begun(self) -> int:
        """How many sequences were begun, ever."""
        return self._number

    @property
    def count(self) -> int:
        """Sequences being read."""
        return max(len(self._open), 1)

    # ── beginnings and ends ──────────────────────────────────────────────────────────────────

    def begin(self, now: Pass, call: Call, path: str, ours: bool) -> None:
        """The first attention of a pass tells how many sequences there are."""
        if now is self._now:
            sequences(now.given, call, len(self._open), path, ours=ours)
            if len(now.streams) > self._read:
                self._read_tokens(now)
            return
        batch = sequences(now.given, call, now.batch, path, ours=ours)
        goes_on = now.cached > 0 or (now.encoded and bool(self._open))
        if goes_on and self._open and len(self._open) != batch:
            raise InputError(
                f"{batch} sequences go on where {len(self._open)} were begun; a recording follows "
                "each sequence by itself: generate with num_beams=1, num_return_sequences=1"
            )
        if not (goes_on and self._open):
            self.finish()
            self._open = [_One(self._number + n) for n in range(batch)]
            self._number += batch
            self.plan = None
        self._now, self._read = now, 0
        self._read_tokens(now)

    def _read_tokens(self, now: Pass) -> None:
        """The streams of this pass that were not read yet: a decoder's come after its encoder."""
        self.settle()
        for name, ids in list(now.streams.items())[self._read :]:
            rows = _per_sequence(ids, len(self._open))
            for number, (one, row) in enumerate(zip(self._open, rows, strict=False)):
                if name not in one.streams:
                    one.streams[name] = Stream(
                        one.number, name, self._store, self._tokenizer, self.before
                    )
                real = _real(now.padding.get(name), number, len(row))
                one.streams[name].extend(row[real.start : real.stop])
        self._read = len(now.streams)
        for one in self._open:
            main = one.streams.get("tokens") or next(iter(one.streams.values()), None)
            tokens = 0 if main is None else len(main.ids)
            one.prompt = replace(one.prompt, tokens=tokens, streams=tuple(one.streams))
            written = [stream.write() for stream in one.streams.values()]
            if any(written) or not one.rows:
                self._note(one)

    def finish(self, complete: bool = True) -> None:
        """The sequences that are open are at their end."""
        self.settle()
        complete = complete and not (self._now is not None and self._now.failed)
        for one in self._open:
            for stream in one.streams.values():
                stream.write(last=True)
            for spot, ledger in one.ledgers.items():
                ledger.finish(one.rows[spot], one.keys[spot])
            if not one.prompt.tokens and one.rows:
                one.prompt = replace(one.prompt, tokens=max(one.rows.values()))
            one.prompt = replace(one.prompt, finished=complete)
            self._note(one)
        self._open, self._now = [], None

    def _note(self, one: _One) -> None:
        self._store.note({f"{PROMPT_NOTE}{one.number}": one.prompt.to_json()})

    def say(self, number: int, **facts: Any) -> None:
        """More about an open prompt: its title, the model's own next tokens …"""
        self.settle()
        for one in self._open:
            if one.number == number:
                one.prompt = replace(one.prompt, **facts)
                self._note(one)

    # ── calls ────────────────────────────────────────────────────────────────────────────────

    def is_cross(self, now: Pass, call: Call) -> bool:
        """Whether a call's keys are another sequence's, judged by its size alone. Fewer queries
        than keys are a step behind a cache of the model's own, where it was given as many tokens;
        else they are a probe that pools what it looks at."""
        queries, keys, given = call.shape.queries, call.shape.keys, now.given.data
        if now.cached or queries == keys:
            return False
        if queries > keys:
            return not now.padding
        tokens = [s[0] if len(s) == 2 and not whole else s[1] for s, whole in given]
        return bool(given) and queries not in tokens

    def matches(
        self, caller: Caller, call: Call, shares: list[CallSlice]
    ) -> tuple[Matching | None, Matching | None]:
        """Earlier copies of each token, and what followed them; nothing without tokens."""
        names = [_own_stream(one, caller) for one in self._open]
        if not all(names) or any(s.count > 1 or s.kind == "cross" for s in shares):
            return None, None
        ids = []
        for one, name, share in zip(self._open, names, shares, strict=True):
            ids.append(one.streams[name].ids)
            if len(ids[-1]) != share.row_start + len(share.rows):
                return None, None
        rows, keys = [s.rows for s in shares], [s.keys for s in shares]
        return matchings(ids, rows, keys, call.shape, call.query.device)

    def shares(
        self,
        caller: Caller,
        spot: Spot,
        now: Pass,
        call: Call,
        cross: bool,
        choice: Choice,
        plan: Plan,
    ) -> list[CallSlice]:
        """Each sequence's part of the call."""
        per = math.prod(call.shape.batch) // len(self._open)
        exact = plan.is_exact(self._order.setdefault(spot, len(self._order)))
        heads = choice.heads_of(call.shape.query_heads * per)
        made = []
        for number, one in enumerate(self._open):
            rows, keys, hidden = _laid_out(one, caller, now, call, cross, number, per)
            behind = 0 if cross else max(len(keys) - len(rows), 0)
            start = one.rows.get(spot, behind)
            key_start = 0 if cross else max(start + len(rows) - len(keys), 0)
            length = one.lengths.setdefault(spot, self._length(start + len(rows), one, caller))
            kept = choice.rows(start, start + len(rows), length)
            local = range(kept.start - start + rows.start, kept.stop - start + rows.start)
            known = one.keys.get(spot, len(self.before))
            begins = one.kept.get(spot, 0) % math.lcm(plan.row_bin, plan.top_every) == 0
            share = CallSlice(
                number * per, per, rows, keys, start, key_start, known, local, begins,
                heads, "cross" if cross else "self", exact, local == rows and hidden,
            )  # fmt: skip
            made.append(share)
            if spot not in one.ledgers:
                one.ledgers[spot] = self._ledger(one, caller, spot, call, share, plan)
            if not cross:
                _check_cache(one, spot, call.key, share)
            one.rows[spot] = start + len(rows)
            one.kept[spot] = one.kept.get(spot, 0) + len(local)
            one.keys[spot] = max(one.keys.get(spot, 0), key_start + len(keys))
        return made

    def _length(self, rows: int, one: _One, caller: Caller) -> int:
        """How long a prompt is: as long as announced, or as its first call."""
        announced = self.expected if _own_stream(one, caller) == _main_stream(one) else None
        return max(announced or 0, rows)

    def _ledger(
        self, one: _One, caller: Caller, spot: Spot, call: Call, share: CallSlice, plan: Plan
    ) -> LayerWriter:
        shape = call.shape
        why_not = "" if share.exact else f"it did not fit the budget of {human(plan.budget)}"
        streams = _streams_of(one, caller, share)
        return LayerWriter(
            one.number,
            Place(
                name=caller.path,
                stack=spot.stack,
                layer=spot.layer,
                kind=share.kind,
                heads=share.heads,
                total_heads=shape.query_heads * share.count,
                key_heads=shape.key_heads * share.count,
                dim=shape.dim,
                value_dim=shape.value_dim,
                rows=(0, 0),
                queries=0,
                keys=0,
                exact=share.exact,
                why_not=why_not,
                query_tokens=streams[0],
                key_tokens=streams[1],
                row_bin=plan.row_bin,
                key_bin=plan.key_bin,
                top_every=plan.top_every,
                pool_cell=plan.pool_cell,
            ),
            plan,
            self._store,
            len(self.before),
        )

    def take(self, spot: Spot, pages: list[Coming], late: bool) -> None:
        """What was measured, one page for each sequence; `late`: not before the next one or the
        next question, so that a GPU works while its host does."""
        self.settle()
        self._coming = spot, pages
        self.pages += sum(page.rows > 0 for page in pages)
        if not late:
            self.settle()

    def settle(self) -> None:
        """Enter what is still on its way."""
        coming, self._coming = self._coming, None
        if coming is not None:
            spot, pages = coming
            for one, page in zip(self._open, pages, strict=True):
                one.ledgers[spot].take(page.arrived())


def _laid_out(
    one: _One, caller: Caller, now: Pass, call: Call, cross: bool, number: int, per: int
) -> tuple[range, range, bool]:
    """Which rows and keys of a call are real tokens of one sequence, and whether the mask keeps
    the other rows from seeing anything."""
    shape = call.shape
    told = real_in(call.mask, entry_of(call, number * per), shape.queries, shape.keys)
    given = now.padding.get(_stream_among({*one.streams, *now.padding}, caller))
    if given is not None and not _is_about(given, shape.queries, now.cached):
        given = None
    if given is not None:
        rows = _real(given, number, shape.queries)
    else:
        rows = range(shape.queries) if told.queries is None else margin(told.queries)
    if told.keys is not None:
        keys = margin(told.keys)
    elif cross:
        keys = range(shape.keys)
    else:  # not the empty rest of a cache of fixed size
        filled = min(shape.keys, now.cached + shape.queries) if now.cached else shape.keys
        keys = _real(given, number, filled)
    hidden = rows == range(shape.queries)
    if told.queries is not None and not hidden:
        outside = told.queries.copy()
        outside[rows.start : rows.stop] = False
        hidden = not outside.any()
    return rows, keys, hidden


def _check_cache(one: _One, spot: Spot, key: Tensor, share: CallSlice) -> None:
    """The keys of earlier calls are still where they were: beam search moves them about."""
    keys, known = share.keys, one.keys.get(spot, 0)
    if share.key_start + len(keys) != share.row_start + len(share.rows):
        raise InputError(
            f"{len(keys)} keys and {share.row_start + len(share.rows)} tokens so far: there is "
            "padding between them; pad prompts on the left"
        )
    flat = key.reshape(-1, *key.shape[-3:])[share.first].detach()  # (K, S, D)
    before = one.last_key.get(spot)
    place = known - 1 - share.key_start + keys.start
    if (
        before is not None
        and 0 <= place < keys.stop - 1
        and not torch.equal(flat[:, place], before)
    ):
        raise InputError(
            "the cache holds other keys than were recorded: sequences were reordered or the "
            "cache was changed; generate with num_beams=1, and begin each prompt anew"
        )
    if len(keys):
        one.last_key[spot] = flat[:, keys.stop - 1].clone()


def _main_stream(one: _One) -> str:
    return "tokens" if "tokens" in one.streams else next(iter(one.streams), "")


def _own_stream(one: _One, caller: Caller) -> str:
    """Which tokens the queries of a place may stand for."""
    return _stream_among(one.streams, caller)


def _stream_among(names: Collection[str], caller: Caller) -> str:
    if part_of(caller.path) in ("vision", "image", "audio"):
        return ""
    in_encoder = any("encoder" in piece for piece in caller.path.split(".")[:-2])
    if in_encoder and "encoder" in names:
        return "encoder"
    return "tokens" if "tokens" in names and (not in_encoder or len(names) == 1) else ""


def _streams_of(one: _One, caller: Caller, share: CallSlice) -> tuple[str, str]:
    """Which tokens the queries and the keys of a place stand for: as many as there are."""
    own = _own_stream(one, caller)
    if own and len(one.streams[own].ids) != share.row_start + len(share.rows):
        own = ""
    if share.kind == "self":
        return own, own
    read = one.streams.get("encoder")
    return own, "encoder" if read is not None and len(read.ids) == len(share.keys) else ""


def _is_about(padding: Tensor, queries: int, cached: int) -> bool:
    """Whether padding (B, N) can be that of a call's rows: of all tokens, or of the last ones
    where a cache holds the others."""
    return padding.shape[1] == queries or (cached > 0 and padding.shape[1] > queries)


def _per_sequence(ids: Tensor, count: int) -> NDArray[Any]:
    """(B, L) from ids (B, L) or (L, B); nothing from others, which are no tokens of these."""
    rows = ids.cpu().numpy()
    return rows if len(rows) == count else rows.T if rows.shape[1] == count else rows[:0]


def _real(padding: Tensor | None, number: int, count: int) -> range:
    """Which of the last `count` tokens of a sequence are real: all but a margin of padding."""
    if padding is None or padding.shape[1] < count:
        return range(count)
    return margin(padding[number, padding.shape[1] - count :].cpu().numpy())
