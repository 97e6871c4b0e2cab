"""The prompts that are being read: their tokens, their ledgers, and where each call belongs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engine.problem import Call
from regard.errors import InputError
from regard.recorder.atlas import Spot
from regard.recorder.choice import Choice
from regard.recorder.ledger import Ledger, Page, Store
from regard.recorder.plan import Plan, human
from regard.recorder.tokens import Stream
from regard.recorder.turn import Share
from regard.recorder.whereabouts import Caller, Pass
from regard.recording.contents import PROMPT_NOTE, Place, Prompt
from regard.summary import Matching

__all__ = ["Prompts"]


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
        self.spent += int(array.nbytes) + 256

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole."""
        self._store.note(metadata)

    def close(self) -> None:
        """The session closes it."""


class _One:
    """One sequence."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.streams: dict[str, Stream] = {}
        self.ledgers: dict[Spot, Ledger] = {}
        self.rows: dict[Spot, int] = {}  # rows of each place that calls have shown so far
        self.keys: dict[Spot, int] = {}
        self.last_key: dict[Spot, Tensor] = {}  # (K, D): the last key of each place so far
        self.length = 0  # rows of the first call
        self.prompt = Prompt(0)


class Prompts:
    """The sequences of the batch that is being read."""

    def __init__(self, store: Store, tokenizer: Any) -> None:
        self._store, self._tokenizer = _Counted(store), tokenizer
        self._now: Pass | None = None
        self._open: list[_One] = []
        self._number = 0
        self._order: dict[Spot, int] = {}  # places, in the order they were first heard
        self.plan: Plan | None = None
        self.pages = 0  # how much was taken down, ever

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

    def begin(self, now: Pass, call: Call, cross: bool) -> None:
        """The first attention of a pass tells how many sequences there are."""
        if now is self._now:
            return
        entries = int(np.prod(call.shape.batch, dtype=np.int64))
        batch = now.batch if entries % max(now.batch, 1) == 0 and now.batch <= entries else entries
        goes_on = now.cached > 0 or (now.encoded and bool(self._open))
        if goes_on and self._open and len(self._open) != batch:
            raise InputError(
                f"{batch} sequences go on where {len(self._open)} were begun; a recording follows "
                "each sequence by itself: generate with num_beams=1"
            )
        if not (goes_on and self._open):
            self.finish()
            self._open = [_One(self._number + n) for n in range(batch)]
            self._number += batch
            self.plan = None
        self._now = now
        self._read_tokens(now)

    def _read_tokens(self, now: Pass) -> None:
        for name, ids in now.streams.items():
            for one, row in zip(self._open, ids.cpu().numpy(), strict=False):
                if name not in one.streams:
                    stream = Stream(one.number, name, self._store, self._tokenizer)
                    one.streams[name] = stream
                real = _real(now.padding, one.number - self._open[0].number, len(row), name)
                one.streams[name].extend(row[real.start : real.stop])
                one.streams[name].write()
        for one in self._open:
            main = one.streams.get("tokens") or next(iter(one.streams.values()), None)
            tokens = 0 if main is None else len(main.ids)
            one.length = one.length or tokens
            one.prompt = replace(one.prompt, tokens=tokens, streams=tuple(one.streams))
            self._note(one)

    def finish(self, complete: bool = True) -> None:
        """The sequences that are open are at their end."""
        for one in self._open:
            for ledger in one.ledgers.values():
                ledger.finish()
            if not one.prompt.tokens and one.rows:
                one.prompt = replace(one.prompt, tokens=max(one.rows.values()))
            one.prompt = replace(one.prompt, finished=complete)
            self._note(one)
        self._open, self._now = [], None

    def _note(self, one: _One) -> None:
        self._store.note({f"{PROMPT_NOTE}{one.number}": one.prompt.to_json()})

    def say(self, number: int, **facts: Any) -> None:
        """More about an open prompt: its title, the model's own next tokens …"""
        for one in self._open:
            if one.number == number:
                one.prompt = replace(one.prompt, **facts)
                self._note(one)

    # ── calls ────────────────────────────────────────────────────────────────────────────────

    def is_cross(self, spot: Spot, now: Pass, call: Call) -> bool:
        """Whether a call's keys are another sequence's, judged by its size alone."""
        shape = call.shape
        seen = now.cached
        return (
            shape.keys != shape.queries
            and seen == 0
            and now.padding is None
            and (shape.queries > shape.keys)
        )

    def matches(
        self, now: Pass, call: Call, cross: bool
    ) -> tuple[Matching | None, Matching | None]:
        """Earlier copies of each token, and what followed them; nothing without tokens."""
        shape = call.shape
        ids = [one.streams.get("tokens") for one in self._open]
        entries = int(np.prod(shape.batch, dtype=np.int64))
        if cross or any(s is None or not len(s.ids) for s in ids) or entries != len(self._open):
            return None, None
        queries: list[Any] = []
        keys: list[Any] = []
        after: list[Any] = []
        for number, stream in enumerate(ids):
            assert stream is not None
            q, k, f = _marks(stream.ids, _real(now.padding, number, shape.keys, "tokens"), shape)
            for to, marks in ((queries, q), (keys, k), (after, f)):
                to.append(marks)
        if any(marks is None for marks in keys):
            return None, None
        lead = shape.batch
        stack = [torch.from_numpy(np.stack(m)).reshape(*lead, -1) for m in (queries, keys, after)]
        return Matching(stack[0], stack[1]), Matching(stack[0], stack[2])

    def shares(
        self,
        caller: Caller,
        spot: Spot,
        now: Pass,
        call: Call,
        cross: bool,
        choice: Choice,
        plan: Plan,
    ) -> list[Share]:
        """Each sequence's part of the call."""
        shape = call.shape
        entries = int(np.prod(shape.batch, dtype=np.int64))
        if entries % len(self._open):
            raise InputError(
                f"{caller.path} attends over {entries} batch entries, the model was given "
                f"{len(self._open)} sequences; record them one by one"
            )
        per = entries // len(self._open)
        index = self._order.setdefault(spot, len(self._order))
        made = []
        for number, one in enumerate(self._open):
            rows = _real(now.padding, number, shape.queries, "tokens" if not cross else "")
            start = one.rows.get(spot, 0)
            keys = range(shape.keys)
            key_start = 0
            if not cross:
                keys = _real_keys(now, number, shape.queries, shape.keys, start + len(rows))
                key_start = max(start + len(rows) - len(keys), 0)
            kept = choice.rows(start, start + len(rows), one.length or len(rows))
            local = range(kept.start - start + rows.start, kept.stop - start + rows.start)
            made.append(
                Share(
                    number * per, per, rows, keys, start, key_start, one.keys.get(spot, 0), local,
                    choice.heads_of(shape.query_heads * per), "cross" if cross else "self",
                    plan.is_exact(index),
                )
            )  # fmt: skip
            if spot not in one.ledgers and len(local):
                one.ledgers[spot] = self._ledger(one, caller, spot, call, made[-1], plan)
            if not cross:
                _check_cache(one, spot, call.key, number * per, keys, key_start)
            one.rows[spot] = start + len(rows)
            one.keys[spot] = max(one.keys.get(spot, 0), key_start + len(keys))
        return made

    def _ledger(
        self, one: _One, caller: Caller, spot: Spot, call: Call, share: Share, plan: Plan
    ) -> Ledger:
        shape = call.shape
        why_not = "" if share.exact else f"it did not fit the budget of {human(plan.budget)}"
        streams = _streams_of(one, caller, share.kind)
        return Ledger(
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
        )

    def take(self, spot: Spot, pages: list[Page]) -> None:
        """What was measured, one page for each sequence."""
        for one, page in zip(self._open, pages, strict=True):
            if page.normalized.shape[1]:
                one.ledgers[spot].take(page)
                self.pages += 1


def _check_cache(
    one: _One, spot: Spot, key: Tensor, entry: int, keys: range, key_start: int
) -> None:
    """The keys of earlier calls are still where they were: beam search moves them about."""
    flat = key.reshape(-1, *key.shape[-3:])[entry].detach()  # (K, S, D)
    before = one.last_key.get(spot)
    place = one.keys.get(spot, 0) - 1 - key_start + keys.start
    if before is not None and 0 <= place < flat.shape[1] and key_start + len(keys) > place + 1:
        if not torch.equal(flat[:, place], before):
            raise InputError(
                "the cache holds other keys than were recorded: sequences were reordered or the "
                "cache was changed; generate with num_beams=1, and begin each prompt anew"
            )
    if len(keys):
        one.last_key[spot] = flat[:, keys.stop - 1].clone()


def _streams_of(one: _One, caller: Caller, kind: str) -> tuple[str, str]:
    """Which tokens the queries and the keys of a place stand for."""
    names = one.streams
    in_encoder = any("encoder" in piece for piece in caller.path.split(".")[:-2])
    own = "encoder" if in_encoder and "encoder" in names else "tokens" if "tokens" in names else ""
    if in_encoder and "encoder" not in names and len(names) != 1:
        own = ""
    if kind == "self":
        return own, own
    return own, "encoder" if "encoder" in names else ""


def _real(padding: Tensor | None, number: int, count: int, stream: str) -> range:
    """Which of the last `count` tokens of a sequence are real: all but a margin of padding."""
    if padding is None or stream != "tokens" or padding.shape[1] < count:
        return range(count)
    flags = padding[number, padding.shape[1] - count :].cpu().numpy()
    return _margin(flags)


def _margin(flags: np.ndarray[Any, Any]) -> range:
    """From the first real token to the last; holes inside are left to the mask."""
    real = np.flatnonzero(flags)
    return range(int(real[0]), int(real[-1]) + 1) if len(real) else range(0)


def _real_keys(now: Pass, number: int, queries: int, keys: int, total: int) -> range:
    """Which keys of a self-attention are real tokens: not padding, and not the empty rest of a
    cache of fixed size."""
    filled = min(keys, now.cached + queries) if now.cached or keys > queries else keys
    padding = now.padding
    if padding is None or padding.shape[1] < filled:
        return range(filled)
    flags = padding[number, padding.shape[1] - filled :].cpu().numpy()
    return _margin(flags)


def _marks(ids: np.ndarray[Any, Any], real: range, shape: Any) -> tuple[Any, Any, Any]:
    """Token ids of queries and keys, and of the token before each key; −1 where there is none."""
    count = len(real)
    known = ids[max(len(ids) - count, 0) :]
    if len(known) != count:
        return None, None, None
    before = ids[len(ids) - count - 1] if len(ids) > count else -1
    keys = np.full(shape.keys, -1, np.int64)
    keys[real.start : real.stop] = known
    after = np.full(shape.keys, -1, np.int64)
    after[real.start : real.stop] = np.concatenate([[before], known[:-1]]) if count else known
    queries = np.full(shape.queries, -2, np.int64)
    tail = keys[shape.keys - shape.queries :] if shape.keys >= shape.queries else keys
    queries[: len(tail)] = tail
    return np.where(queries < 0, -2, queries), keys, after
