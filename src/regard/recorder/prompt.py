"""The prompts that are being read: their tokens, how far each layer is, and who writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.call import Call
from regard.errors import InputError
from regard.hear.hooks import Caller, Pass
from regard.hear.inputs import sequences
from regard.hear.names import Spot, stream_of
from regard.recorder.axes import NO_GRIDS, AxesReader, PlaceSize, sights_of
from regard.recorder.background_writer import CountingStore, Store
from regard.recorder.batch import BatchNumbers
from regard.recorder.call_slice import (
    CallPlan,
    CallSlice,
    OpenSequence,
    Progress,
    laid_out,
    last_keys,
    real_parts,
    streams_of,
)
from regard.recorder.latents import step_facts
from regard.recorder.layer_writer import LayerWriter
from regard.recorder.pictures import PictureKeeper, grids_of
from regard.recorder.plan import Plan, human
from regard.recorder.reduce import Arriving
from regard.recorder.tokens import Stream
from regard.recording.format.write import Series
from regard.recording.pictures import PICTURES_NOTE
from regard.recording.positions import AXES_NOTE, Positions
from regard.recording.schema import PLACE_NOTE, PROMPT_NOTE, Place, Prompt, place_label
from regard.shapes import AttentionShape


@dataclass
class _Sequence:
    """One prompt while it is written."""

    number: int
    prompt: Prompt = field(default_factory=lambda: Prompt(0))
    streams: dict[str, Stream] = field(default_factory=dict)
    layers: dict[Spot, LayerWriter] = field(default_factory=dict)
    progress: dict[Spot, Progress] = field(default_factory=dict)
    sizes: dict[Spot, PlaceSize] = field(default_factory=dict)
    _: KW_ONLY
    read: int = 0  # tokens up to those that came with pictures; what the model writes follows


class _Batch(NamedTuple):
    """A layer of all sequences, while they are read."""

    numbers: BatchNumbers
    shape: AttentionShape
    decided: CallPlan
    streams: list[tuple[str, str]]  # of queries and keys, as the call found them


class Prompts:
    """The sequences of the batch that is being read."""

    def __init__(
        self, store: Store, tokenizer: Any, axes: AxesReader, pictures: PictureKeeper
    ) -> None:
        self._store, self._tokenizer = CountingStore(store), tokenizer
        self._axes, self._pictures = axes, pictures
        self._passes: list[Pass] = []  # of the sequences being read
        self._now: Pass | None = None
        self._open: list[_Sequence] = []
        self._number = 0
        self._read = 0  # streams of this pass
        self._order: dict[Spot, int] = {}  # layers, in the order they were first recorded
        self._plan: Plan | None = None
        self.known: dict[Any, Any] = {}  # of the tokens read so far, found once for all layers
        self.expected: int | None = None  # tokens of the prompt itself, where announced
        # of one prompt over several recordings: its tokens that stand before this one's
        self.before: NDArray[np.int64] = np.zeros(0, np.int64)
        self.steered_by: NDArray[np.int64] | None = None  # (B, S) of the text of steps to come
        self._step = -1  # of diffusion
        self.pages = 0  # slices with rows that were taken down, ever
        self._arriving: Callable[[], None] | None = None
        self._batches: dict[Spot, _Batch] = {}  # layers of all sequences together

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

    @property
    def plan(self) -> Plan | None:
        """What is kept of them, where that is decided."""
        return self._plan

    def sequences(self) -> list[OpenSequence]:
        """Those being read, as they stand."""
        return [
            OpenSequence(
                one.number,
                {name: stream.ids for name, stream in one.streams.items()},
                one.progress,
                len(self.before),
            )
            for one in self._open
        ]

    def order_of(self, spot: Spot) -> int:
        """The how manieth recorded layer this one is, or will be."""
        return self._order.get(spot, len(self._order))

    # ── beginnings and ends ──────────────────────────────────────────────────────────────────

    def begin(self, now: Pass, call: Call, caller: Caller, *, cross: bool, ours: bool) -> None:
        """The first attention of a pass tells how many sequences there are, and which of their
        tokens are real: the model may not have been given that, or ignore it."""
        path = caller.path
        if now is self._now:
            sequences(now.given, call, len(self._open), path, ours=ours)
            if len(now.streams) > self._read:
                self._read_tokens(now, self._told_by(call, caller, now, cross))
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
            self._open = [_Sequence(self._number + n) for n in range(batch)]
            self._number += batch
            self._steer(now)
            self._plan = None
        self._passes.append(now)
        self._pictures.look(now, batch, self._axes.merge)
        self._now, self._read = now, 0
        self._read_tokens(now, self._told_by(call, caller, now, cross))

    def _told_by(
        self, call: Call, caller: Caller, now: Pass, cross: bool
    ) -> dict[str, list[range]]:
        """By stream, which tokens are real by the mask of a call whose rows they are."""
        name, count = stream_of(now.streams, caller), len(self._open)
        ids = now.streams.get(name)
        if ids is None:
            return {}
        if _per_sequence(ids, count).shape != (count, call.shape.queries):
            return {}
        layout = laid_out(now.streams, count, caller, now, call, cross=cross)
        return {name: [rows for rows, _, _ in layout]}

    def _steer(self, now: Pass) -> None:
        """What is known of a step of diffusion before its first attention: when it is, and the
        tokens of the text, where they were told."""
        rows = self.steered_by
        if now.given.timesteps:
            self._step += 1
        for number, one in enumerate(self._open):
            facts = step_facts(now.given, self._step, number, len(self._open))
            one.prompt = replace(one.prompt, facts=facts)
            if rows is not None and len(rows):
                one.streams["encoder"] = Stream(one.number, "encoder", self._tokenizer)
                one.streams["encoder"].extend(rows[number % len(rows)])

    def keep_by(self, plan: Plan) -> None:
        """What is kept of the sequences that were begun."""
        self._plan = plan

    def _read_tokens(self, now: Pass, told: dict[str, list[range]]) -> None:
        """The streams of this pass that were not read yet: a decoder's come after its encoder.
        `told`: which of their tokens are real, by the call whose rows they are."""
        self.settle()
        self.known.clear()
        for name, ids in list(now.streams.items())[self._read :]:
            rows = _per_sequence(ids, len(self._open))
            parts = told.get(name) or real_parts(
                now.padding.get(name), len(self._open), rows.shape[1]
            )
            for number, (one, row) in enumerate(zip(self._open, rows, strict=False)):
                if name not in one.streams:
                    one.streams[name] = Stream(one.number, name, self._tokenizer, self.before)
                one.streams[name].extend(row[parts[number].start : parts[number].stop])
        self._read = len(now.streams)
        new: list[Series] = []
        noted: list[_Sequence] = []
        for one in self._open:
            main = one.streams.get("tokens") or next(iter(one.streams.values()), None)
            tokens = 0 if main is None else len(main.ids)
            one.prompt = replace(one.prompt, tokens=tokens, streams=tuple(one.streams))
            if not one.read or now.given.pixels or now.given.film_pixels:
                one.read = tokens
            pieces = [piece for stream in one.streams.values() for piece in stream.take()]
            new += pieces
            if pieces or not one.progress:
                noted.append(one)
        self._write(new, noted)

    def finish(self, complete: bool = True) -> None:
        """The sequences that are open are at their end."""
        self.settle()
        complete = complete and not (self._now is not None and self._now.failed)
        for spot, batch in self._batches.items():
            self._write_batch(spot, batch)
        self._batches.clear()
        rest: list[Series] = []
        for one in self._open:
            rest += [p for stream in one.streams.values() for p in stream.take(last=True)]
            for spot, layer in one.layers.items():
                layer.finish(one.progress[spot].rows, one.progress[spot].keys)
            if not one.prompt.tokens and one.progress:
                most = max(progress.rows for progress in one.progress.values())
                one.prompt = replace(one.prompt, tokens=most)
            one.prompt = replace(one.prompt, finished=complete)
        self._write(rest, self._open)
        self._note_axes()
        self._open, self._now, self._passes = [], None, []
        self.known.clear()

    def _note_axes(self) -> None:
        """What the positions of the sequences that are at their end stand for."""
        sights = [one for now in self._passes for one in sights_of(now)]
        # a cache goes on with the same grids and without pictures
        read = [
            now for now in self._passes if now.given.pixels or now.given.film_pixels
        ] or self._passes[:1]
        grids = grids_of(*read)
        even = self._is_even()
        for number, one in enumerate(self._open):
            ids = {name: stream.ids for name, stream in one.streams.items()}
            places = [
                replace(size, queries=one.progress[spot].rows, keys=one.progress[spot].keys)
                for spot, size in one.sizes.items()
            ]
            own = [seen.of(len(self._open)) for seen in sights] if even else []
            told = grids if len(self._open) == 1 else NO_GRIDS
            found = self._axes.positions(places, ids, own, told, _texts(self._passes), one.read)
            if found.places:
                self._store.note({f"{AXES_NOTE}{one.number}": found.to_json()})
            if not even:
                continue
            series, note = self._pictures.written(number, one.number, _frames(found))
            if series:
                self._store.add_many(series)
                self._store.note({f"{PICTURES_NOTE}{one.number}": note})
        if self._open:  # else what is there is that of the next
            self._pictures.forget()

    def _is_even(self) -> bool:
        """Whether every sequence has as many tokens for pictures: else nobody knows whose pictures
        are whose."""
        found = {
            self._axes.image_tokens(one.streams["tokens"].ids[: one.read])
            for one in self._open
            if "tokens" in one.streams
        }
        return len(found) <= 1

    def _write(self, tokens: list[Series], told: list[_Sequence]) -> None:
        """Tokens of any sequences, and what is said of these."""
        if tokens:
            self._store.add_many(tokens)
        if told:
            self._store.note({f"{PROMPT_NOTE}{one.number}": one.prompt.to_json() for one in told})

    def say(self, number: int, **facts: Any) -> None:
        """More about an open prompt: its title, the model's own next tokens …"""
        self.settle()
        for one in self._open:
            if one.number == number:
                one.prompt = replace(one.prompt, **facts)
                self._write([], [one])

    # ── calls ────────────────────────────────────────────────────────────────────────────────

    def take(
        self,
        call: Call,
        decided: CallPlan,
        numbers: list[Arriving] | Callable[[], BatchNumbers],
        *,
        late: bool,
    ) -> None:
        """What was measured of a call, for each sequence or for the whole batch; `late`: it is
        written not before the next one or the next question, so that a GPU works while its host
        does."""
        self.settle()
        spot = decided.spot
        self._order.setdefault(spot, len(self._order))
        self._separate(spot)
        last = last_keys(call.key, decided.slices)
        for one, part, key in zip(self._open, decided.slices, last, strict=True):
            if isinstance(numbers, list) and spot not in one.layers:
                place = place_of(call.shape, decided, part, _streams(one, decided, part))
                one.layers[spot] = self._layer(one, place, decided.plan)
            one.progress[spot] = part.after(one.progress.get(spot), key)
            if spot not in one.sizes:
                label, path = place_label(spot.stack, spot.layer), decided.caller.path
                one.sizes[spot] = PlaceSize(
                    label, path, 0, 0, _streams(one, decided, part), part.count,
                    cross=part.kind == "cross", occurrence=decided.caller.occurrence,
                )  # fmt: skip
        if isinstance(numbers, list):
            self._arriving = partial(self._take_each, spot, numbers)
        else:
            parts = zip(self._open, decided.slices, strict=True)
            streams = [_streams(one, decided, part) for one, part in parts]
            self._arriving = partial(self._take_batch, numbers, call.shape, decided, streams)
        self.pages += sum(len(part.kept) > 0 for part in decided.slices)
        if not late:
            self.settle()

    def _take_each(self, spot: Spot, numbers: list[Arriving]) -> None:
        for one, arrived in zip(self._open, numbers, strict=True):
            one.layers[spot].take(arrived())

    def _take_batch(
        self,
        arrived: Callable[[], BatchNumbers],
        shape: AttentionShape,
        decided: CallPlan,
        streams: list[tuple[str, str]],
    ) -> None:
        """Held until the documents are at their end, as a layer holds the rows of a short one."""
        numbers = arrived()
        self._batches[decided.spot] = _Batch(numbers, shape, decided, streams)
        if any(rules.arrays for rules in numbers.rules):
            self._separate(decided.spot)

    def _separate(self, spot: Spot) -> None:
        """A batch that goes on is so many sequences by themselves."""
        batch = self._batches.pop(spot, None)
        if batch is not None:
            shape, decided = batch.shape, batch.decided
            for number, (one, part) in enumerate(zip(self._open, decided.slices, strict=True)):
                place = place_of(shape, decided, part, batch.streams[number])
                one.layers[spot] = self._layer(one, place, decided.plan)
                one.layers[spot].take(batch.numbers.page(number))

    def _write_batch(self, spot: Spot, batch: _Batch) -> None:
        """One layer of every document."""
        numbers, slices = batch.numbers, batch.decided.slices
        prompts = [one.number for one in self._open]
        place = place_of(batch.shape, batch.decided, slices[0], batch.streams[0])
        self._store.add_many(numbers.series(prompts, place.label), numbers.facts())
        texts = place.texts(
            (
                numbers.rules[number].segment((0, len(part.rows)), (0, len(part.keys))),
                numbers.rules[number].why_not,
                batch.streams[number],
            )
            for number, part in enumerate(slices)
        )
        labels = [f"{PLACE_NOTE}{number}/{place.label}" for number in prompts]
        self._store.note(dict(zip(labels, texts, strict=True)))

    def _layer(self, one: _Sequence, place: Place, plan: Plan) -> LayerWriter:
        return LayerWriter(one.number, place, plan, self._store, len(self.before))

    def settle(self) -> None:
        """Write what is still on its way."""
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            arriving()


def _texts(passes: list[Pass]) -> list[int]:
    """How long the texts are that steer a model of diffusion."""
    return list(dict.fromkeys(count for now in passes for count in now.given.texts))


def _frames(positions: Positions) -> int:
    """Of the film that a grid lies on; 1 of pictures."""
    axes = [axis for pair in positions.places.values() for axis in pair if axis is not None]
    return max((grid.frames for axis in axes for _, grid in axis.grids()), default=1)


def _streams(one: _Sequence, decided: CallPlan, part: CallSlice) -> tuple[str, str]:
    ids = {name: stream.ids for name, stream in one.streams.items()}
    return streams_of(ids, decided.caller, part)


def place_of(
    shape: AttentionShape, decided: CallPlan, part: CallSlice, streams: tuple[str, str]
) -> Place:
    """Of a sequence whose rows are yet to come."""
    plan, spot = decided.plan, decided.spot
    why_not = "" if part.exact else f"it did not fit the budget of {human(plan.budget)}"
    return Place(
        name=decided.caller.path,
        stack=spot.stack,
        layer=spot.layer,
        kind=part.kind,
        heads=part.heads,
        total_heads=shape.query_heads * part.count,
        key_heads=shape.key_heads * part.count,
        dim=shape.dim,
        value_dim=shape.value_dim,
        rows=(0, 0),
        queries=0,
        keys=0,
        exact=part.exact,
        why_not=why_not,
        query_tokens=streams[0],
        key_tokens=streams[1],
        row_bin=plan.row_bin,
        key_bin=plan.key_bin,
        top_every=plan.top_every,
        pool_cell=plan.pool_cell,
    )


def _per_sequence(ids: Tensor, count: int) -> NDArray[Any]:
    """(B, L) from ids (B, L) or (L, B); nothing from others, which are no tokens of these."""
    rows = ids.cpu().numpy()
    return rows if len(rows) == count else rows.T if rows.shape[1] == count else rows[:0]
