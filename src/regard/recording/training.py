"""Training: what a monitor wrote down of every head, step by step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from regard.errors import FileError, InputError
from regard.recording.schema import read_json, read_object
from regard.recording.stores import Array, Listed, Store

TRAINING_NOTE: Final = "training"
ALARMS_NOTE: Final = "training/alarms"
LOSS: Final = "loss"  # beside the statistics, which are of heads

_NAME: Final = re.compile(r"(?:rank-[0-9]{4}/)?training/([a-z_0-9]+)/([0-9]{1,15})")
_MAP: Final = re.compile(r"(?:rank-[0-9]{4}/)?training/map/([^/]+)/([0-9]{1,15})")
_MOST_CELLS: Final = 2**28  # of a statistic over all steps
_MOST_PLACES: Final = 2**16


def series_name(what: str, start: int) -> str:
    """`training/max_score/64`: the piece that begins with sample 64."""
    return f"training/{what}/{start}"


def map_name(head: str, step: int) -> str:
    """`training/map/L5H1/1000`: the pooled map of a head at a step."""
    return f"training/map/{head}/{step}"


@dataclass(frozen=True)
class Alarm:
    """A head that went over a limit."""

    kind: str  # "entropy collapse", "score growth", "inactive head", "scores not finite"
    head: str  # L5H1
    step: int  # the first one over the limit
    statistic: str
    value: float  # at that step
    threshold: float

    def __str__(self) -> str:
        side = "below" if self.value < self.threshold else "above"
        return (
            f"{self.kind}: {self.head} at step {self.step}, {self.statistic} {self.value:.4g}, "
            f"{side} {self.threshold:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As the note has it."""
        return asdict(self)


@dataclass(frozen=True)
class Limit:
    """Where a statistic begins to be too little or too much."""

    side: Literal["above", "below"]  # which causes an alarm
    value: float

    def to_dict(self) -> dict[str, Any]:
        """As the note has it."""
        return asdict(self)


class Training:
    """Statistics of heads over the steps of a training run; empty where none was monitored.

        t = regard.open("run.regard").training
        t.steps                     (n,)
        t["max_score"]              (n, places, heads) float32, NaN where a head was not heard
        t.loss, t.has_loss          (n,) float32, as the run gave it, NaN where it gave none; (n,)
                                    booleans
        t.places, t.alarms          ("L0", "L1", …), what went over its limit
        t.limits                    {"max_score": Limit("above", 100.0), …}, as the run had them;
                                    None where its file does not say

    A place is a layer; those of all stacks of a model stand one after another.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        said = read_object(store.metadata.get(TRAINING_NOTE, "{}"), "training")
        self.places = _texts(said.get("places", []))
        self.words = _words(said.get("statistics", {}))  # what each statistic means, by name
        self.limits = _limits(said.get("limits"))
        self.alarms = _alarms(store.metadata.get(ALARMS_NOTE, "[]"))
        self._pieces = _pieces(store, ("steps", *self.words))
        order = self._joined("steps", 1).astype(np.int64)
        # a run that was resumed from a checkpoint tells some steps again: the last word counts
        last = {int(step): at for at, step in enumerate(order)}
        self._kept = np.array([last[step] for step in sorted(last)], np.int64)
        self.steps: Array = order[self._kept]
        self._known: dict[str, Array] = {}

    @cached_property
    def loss(self) -> Array:
        """(n,) float32; NaN too where none was given."""
        parts = [
            np.full(piece["steps"].shape, np.nan, np.float32)
            if LOSS not in piece
            else self._store.array(piece[LOSS].name)
            for piece in self._pieces
        ]
        return np.concatenate([np.zeros(0, np.float32), *parts])[self._kept]

    @cached_property
    def has_loss(self) -> Array:
        """(n,) booleans: which sampled steps have a loss, be it NaN."""
        counts = [piece["steps"].shape[0] for piece in self._pieces]
        given = np.repeat([LOSS in piece for piece in self._pieces], counts).astype(bool)
        return given[self._kept]

    def __len__(self) -> int:
        return self.steps.size

    def __getitem__(self, statistic: str) -> Array:
        """(n, places, heads) float32."""
        if statistic not in self.words:
            have = ", ".join(self.words) or "none: no training was monitored"
            raise InputError(f"there is no statistic {statistic!r} of training; there are: {have}")
        if statistic not in self._known:
            self._known[statistic] = self._joined(statistic, 3)[self._kept]
        return self._known[statistic]

    @property
    def statistics(self) -> dict[str, Array]:
        """Every statistic, by name."""
        return {name: self[name] for name in self.words}

    @property
    def maps(self) -> dict[str, list[int]]:
        """The steps that each head has a pooled map of."""
        found: dict[str, list[int]] = {}
        for head, step in sorted(self._stored, key=lambda one: one[1]):
            found.setdefault(head, []).append(step)
        return found

    def map(self, head: str, step: int) -> Array:
        """(R, C): mean weight in cells of the matrix, of one sequence of that step's batch."""
        name = self._stored.get((head, step))
        if name is None:
            raise InputError(
                f"there is no map of {head} at step {step}; `maps` lists what there is"
            )
        entry = self._store.entries[name]
        if entry.dtype != "F32" or len(entry.shape) != 2:
            raise FileError(f"{name}: {entry.dtype} {entry.shape} is no pooled map")
        return self._store.array(name)

    @cached_property
    def _stored(self) -> dict[tuple[str, int], str]:
        """Names of pooled maps, by head and step."""
        found = ((_MAP.fullmatch(name), name) for name in self._store.entries)
        return {(match[1], int(match[2])): name for match, name in found if match}

    def _joined(self, what: str, axes: int) -> Array:
        """The pieces one after another; places and heads that an early piece lacks are NaN."""
        parts = [self._store.array(piece[what].name) for piece in self._pieces]
        if axes == 1:
            return np.concatenate([np.zeros(0, np.int64), *parts])
        heads = max((part.shape[2] for part in parts), default=0)
        count = sum(part.shape[0] for part in parts)
        if count * len(self.places) * heads > _MOST_CELLS:
            raise FileError(f"training: {count} steps of {len(self.places)} × {heads} heads")
        made = np.full((count, len(self.places), heads), np.nan, np.float32)
        at = 0
        for part in parts:
            steps, places, width = part.shape
            if places > len(self.places):
                raise FileError(f"training/{what}: {places} places, {len(self.places)} named")
            made[at : at + steps, :places, :width] = part
            at += steps
        return made


def _pieces(store: Store, names: tuple[str, ...]) -> list[dict[str, Listed]]:
    """Groups of tensors by their first sample, in order; a group that a crash left incomplete is
    left out."""
    found: dict[int, dict[str, Listed]] = {}
    for name, entry in store.entries.items():
        match = _NAME.fullmatch(name)
        if match and match[1] in (*names, LOSS):
            found.setdefault(int(match[2]), {})[match[1]] = entry
    groups = [found[start] for start in sorted(found)]
    return [group for group in groups if group.keys() >= set(names) and _agree(group)]


def _agree(group: Mapping[str, Listed]) -> bool:
    """Whether the pieces of one group are what they should be, and equally long."""
    steps, loss = group["steps"], group.get(LOSS)
    if steps.dtype != "I64" or len(steps.shape) != 1:
        return False
    if loss is not None and (loss.dtype, loss.shape) != ("F32", steps.shape):
        return False
    of_heads = [entry for what, entry in group.items() if what not in ("steps", LOSS)]
    shapes, kinds = {entry.shape for entry in of_heads}, {entry.dtype for entry in of_heads}
    return (
        kinds == {"F32"}
        and len(shapes) == 1
        and all(len(shape) == 3 and shape[0] == steps.shape[0] for shape in shapes)
    )


def _texts(value: Any) -> tuple[str, ...]:
    fine = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not fine or len(value) > _MOST_PLACES:
        raise FileError("training whose places are no list of names")
    return tuple(value)


def _words(value: Any) -> dict[str, str]:
    fine = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if not fine or "steps" in value or LOSS in value:
        raise FileError("training whose statistics are no names with their meaning")
    return dict(value)


def _limits(value: Any) -> dict[str, Limit] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise FileError("training whose limits are no JSON object")
    return {name: _limit(name, one) for name, one in value.items()}


def _limit(name: str, value: Any) -> Limit:
    given = value if isinstance(value, dict) else {}
    side, number = given.get("side"), _number(given.get("value"))
    if side not in ("above", "below") or number is None or math.isinf(number):
        raise FileError(f"training whose limit of {name!r:.40} is no side and number")
    return Limit(side, number)


def _number(value: Any) -> float | None:
    """As a float; None where it is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON may have whole numbers of any length
        return None
    return None if math.isnan(number) else number


def _alarms(text: str) -> tuple[Alarm, ...]:
    value = read_json(text, "training")
    if not isinstance(value, list):
        raise FileError("training whose alarms are no list")
    return tuple(_alarm(one) for one in value)


def _alarm(value: Any) -> Alarm:
    kinds: dict[str, Any] = {
        "kind": str, "head": str, "step": int, "statistic": str, "value": float,
        "threshold": float,
    }  # fmt: skip
    if not isinstance(value, dict):
        raise FileError("an alarm that is no JSON object")
    given = {}
    for name, kind in kinds.items():
        one = _number(value.get(name)) if kind is float else value.get(name)
        if not isinstance(one, kind) or isinstance(one, bool):
            raise FileError(f"an alarm without its {name}")
        given[name] = one
    return Alarm(**given)
