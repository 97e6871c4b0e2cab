"""PromptView: one text that went through the model, its tokens and its heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from regard.axes import Axis
from regard.display import as_html
from regard.errors import FileError, InputError
from regard.recording.head import Head
from regard.recording.layer import Held
from regard.recording.notes import Notes
from regard.recording.pictures import picture_bytes
from regard.recording.pieces import Sorted, Stream
from regard.recording.positions import Positions
from regard.recording.schema import Place, Prompt, place_label
from regard.recording.statistics import PlaceStatistics, Statistic, find_statistic, statistic_kinds
from regard.recording.stores import Array, Store
from regard.recording.token_text import readable

_LABEL: Final = re.compile(
    r"(?:(?P<stack>.+)\.)?[lL](?P<layer>[0-9]{1,16})(?:[hH](?P<head>[0-9]{1,16}))?", re.DOTALL
)
_MOST: Final = 4096  # layers and heads that a model's own word is taken for
_MOST_CELLS: Final = 2**24  # of a grid of all heads


class PromptView:
    """One text that went through the model, its tokens and its heads."""

    def __init__(
        self, store: Store, number: int, notes: Notes, pieces: Sorted, before: int = 0
    ) -> None:
        self.filed = number  # in its own file
        self.number = before + number  # where other files hold so many texts before
        self._store, self._model = store, notes.facts["model"]
        self.note = notes.prompts.get(number, Prompt(tokens=0, streams=()))
        self.knocked = notes.knocked.get(number, {})  # what knock-outs changed, where it was kept
        self.pictures = notes.pictures.get(number, ())  # what it was read from
        self._positions = notes.positions.get(number, Positions())
        self.places = dict(sorted(notes.places.get(number, {}).items(), key=_order))
        self._all_places = notes.places
        self._pieces = pieces
        self._heads: dict[str, Head] = {}
        self._held: dict[str, Held] = {}
        self._statistics: dict[str, PlaceStatistics] = {}

    # ── tokens ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def streams(self) -> dict[str, Stream]:
        """Its sequences of tokens by name: "tokens", "encoder" …"""
        return {name: self._stream(name) for name in self.note.streams}

    def _stream(self, name: str) -> Stream:
        return Stream(self._store, self._pieces, self.filed, name)

    @cached_property
    def _main(self) -> Stream:
        name = next(iter(self.note.streams), "tokens")
        return self.streams[name] if name in self.streams else self._stream(name)

    @property
    def tokens(self) -> list[str]:
        """The texts of the tokens; empty where they were not recorded."""
        return self._main.tokens

    @property
    def length(self) -> int:
        """How many tokens there are, whether their texts were recorded or not."""
        return max(self.note.tokens, len(self.tokens))

    @property
    def ids(self) -> Array:
        """(tokens,): the ids."""
        return self._main.ids

    @property
    def flags(self) -> Array:
        """(tokens,) uint8: DELIMITER, SPECIAL."""
        return self._main.flags

    @property
    def title(self) -> str:
        """A short title of the text."""
        return self.note.title

    @property
    def bos(self) -> str:
        """What the tokenizer put in front of the text; "" for nothing."""
        return self.note.bos

    @property
    def generated(self) -> int:
        """The number of tokens that the model generated."""
        return self.note.generated

    @property
    def next(self) -> tuple[tuple[str, float], ...]:
        """The most likely next tokens and their probabilities."""
        return tuple((readable([text])[0], share) for text, share in self.note.next)

    @property
    def finished(self) -> bool:
        """Whether every place is complete."""
        return self.note.finished

    # ── heads ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def stacks(self) -> dict[str, tuple[int, int]]:
        """Each stack's (layers, heads)."""
        found: dict[str, tuple[int, int]] = {}
        for place in self.places.values():
            layers, heads = found.get(place.stack, (0, 0))
            found[place.stack] = max(layers, place.layer + 1), max(heads, place.total_heads)
        if len(found) == 1:
            ((name, (layers, heads)),) = found.items()
            found[name] = max(layers, self._said("layers")), max(heads, self._said("heads"))
        return found

    def _said(self, what: str) -> int:
        count = self._model.get(what)
        return count if type(count) is int and 0 < count <= _MOST else 0

    @property
    def why_not(self) -> str:
        """Why it has no heads, and which texts have some; "" where it has."""
        if self.places:
            return ""
        stopped = "" if self.finished else ": the recording was stopped before the first"
        when = " so far" if self._store.is_live else stopped
        before = self.number - self.filed
        others = sorted(before + n for n, places in self._all_places.items() if places)
        some = "s" if len(others) > 1 else ""
        have = f"; those of prompt{some} {listed(others)} were" if others else ""
        return f"no head of prompt {self.number} was recorded{when}{have}"

    def labels(self) -> list[str]:
        """Every recorded head: L0H0, L0H1 …"""
        return [f"{label}H{head}" for label, place in self.places.items() for head in place.heads]

    def __getitem__(self, which: Any) -> Head:
        """By label, or by (stack,) layer and head."""
        stack, layer, head = self._meant(which)
        place = self._place(stack, layer)
        self.held(place.label)  # which doubts the note, before its heads are believed
        own = head + place.total_heads if head < 0 else head
        if not 0 <= own < place.total_heads:
            raise InputError(
                f"head {head} does not exist; {place.label} has 0–{place.total_heads - 1}"
            )
        if own not in place.heads:
            raise InputError(
                f"{place.label}H{own} was not recorded; of {place.label} there are heads "
                f"{listed(place.heads)}"
            )
        return self._head(place, own)

    def _head(self, place: Place, head: int) -> Head:
        label = f"{place.label}H{head}"
        if label not in self._heads:

            def sibling(other: int) -> Head:
                return self[place.stack, place.layer, other]

            self._heads[label] = Head(
                self.held(place.label), head, self.streams, sibling, self.axes(place.label)
            )
        return self._heads[label]

    def axes(self, label: str) -> tuple[Axis, Axis]:
        """What the queries and the keys of one place stand for."""
        place = self.places[label]
        return self._positions.of(label, place.queries, place.keys, place.total_heads)

    def picture(self, number: int = 0) -> bytes:
        """One of `pictures`, encoded as its type says."""
        if not 0 <= number < len(self.pictures):
            have = f"it has {len(self.pictures)}" if self.pictures else "it has none"
            raise InputError(f"prompt {self.number} has no picture {number}; {have}")
        kind = self.pictures[number].type
        return picture_bytes(self._store, self._pieces, self.filed, number, kind)

    def held(self, label: str) -> Held:
        """What the recording holds of one place."""
        if label not in self._held:
            sizes = {name: len(stream) for name, stream in self.streams.items()}
            place = self.places[label]
            self._held[label] = Held(self._store, self._pieces, self.filed, place, sizes)
        return self._held[label]

    @cached_property
    def statistic_kinds(self) -> Mapping[str, Statistic]:
        """The statistics that heads have here, and what they mean."""
        return statistic_kinds(self._store.metadata)

    def grid(self, statistic: str, stack: str | None = None) -> Array:
        """(layers, heads) float64 of one of `statistic_kinds`; NaN where it is not known."""
        wanted = find_statistic(statistic, self.statistic_kinds)
        name = self._stack(stack or "")
        layers, heads = self.stacks[name]
        if layers * heads > _MOST_CELLS:
            raise FileError(f"a stack of {layers} layers of {heads} heads")
        found = np.full((layers, heads), np.nan)
        for label, place in self.places.items():
            if place.stack == name:
                found[place.layer, list(place.heads)] = self.statistics(label)[wanted]
        return found

    def statistics(self, label: str) -> PlaceStatistics:
        """The statistics of the heads of one place."""
        if label not in self._statistics:
            self._statistics[label] = PlaceStatistics(self.held(label), self.streams)
        return self._statistics[label]

    _repr_html_ = as_html

    def __repr__(self) -> str:
        tokens = f"{self.note.tokens} token{'' if self.note.tokens == 1 else 's'}"
        return f"PromptView({self.number}, {self.title!r}, {tokens})"

    def __len__(self) -> int:
        return len(self.labels())

    def __iter__(self) -> Iterator[Head]:
        return (self[label] for label in self.labels())

    def _meant(self, which: Any) -> tuple[str, int, int]:
        """stack, layer, head; the numbers may be negative."""
        if isinstance(which, str):
            return self._read_label(which)
        if isinstance(which, tuple) and len(which) in (2, 3):
            layer, head = (_whole(one) for one in which[-2:])
            stack = which[0] if len(which) == 3 else ""
            if isinstance(stack, str) and layer is not None and head is not None:
                return stack, layer, head
        raise InputError(f"{which!r} names no head; give 'L5H1', or layer and head: [5, 1]")

    def _read_label(self, label: str) -> tuple[str, int, int]:
        match = _LABEL.fullmatch(label) or _LABEL.fullmatch(label.strip())
        if match is None or match["head"] is None:
            more = ", or layer and head: [5, 1]" if match is None else ""
            known = self.labels()
            raise InputError(
                f"{label!r} names no head; give one such as {known[0] if known else 'L5H1'!r}{more}"
            )
        return match["stack"] or "", int(match["layer"]), int(match["head"])

    def _stack(self, name: str) -> str:
        """A stack as the recording spells it; without a name, the only one."""
        names = list(self.stacks)
        if not names:
            raise InputError(self.why_not)
        if not name and "" not in names:
            if len(names) == 1:
                return names[0]
            raise InputError(
                f"this recording has the stacks {', '.join(names)}; give one, as in "
                "['cross', 0, 0] or 'cross.L0H0'"
            )
        spelt = {one.lower(): one for one in names}
        if name in names:
            return name
        if name.lower() not in spelt:
            named = ", ".join(one or "one without a name" for one in names)
            raise InputError(f"there is no stack {name!r}; this recording has {named}")
        return spelt[name.lower()]

    def _place(self, stack: str, layer: int) -> Place:
        stack = self._stack(stack)
        count = self.stacks[stack][0]
        own = layer + count if layer < 0 else layer
        place = self.places.get(place_label(stack, own))
        if place is not None:
            return place
        have = listed(sorted(one.layer for one in self.places.values() if one.stack == stack))
        verb = "was not recorded" if 0 <= own < count else "does not exist"
        raise InputError(f"layer {layer} {verb}; this recording has {have}")


def _order(item: tuple[str, Place]) -> tuple[str, int]:
    return item[1].stack, item[1].layer


def _whole(value: Any) -> int | None:
    fine = hasattr(value, "__index__") and not isinstance(value, bool)
    return int(value) if fine else None


def listed(numbers: Sequence[int]) -> str:
    """Numbers for people: 0–3, 5, 7–9."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], n]
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
