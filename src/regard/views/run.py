"""A training run: facts as JSON; strips and stored maps as plain numbers."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.recording import Limit, Training
from regard.recording.training import LOSS
from regard.views.encoding import as_json
from regard.views.schema import (
    AlarmAnswer,
    ExtremeAnswer,
    LimitAnswer,
    LossAnswer,
    LossAtAnswer,
    TrainedStatisticAnswer,
    TrainingFactsAnswer,
)

MOST_BINS: Final = 2048  # steps of a strip; where there are more, several make a bin
CUSTOMARY: Final = {
    "normalized_entropy": Limit("below", 0.05),
    "max_score": Limit("above", 100.0),
    "sink_mass": Limit("above", 0.95),
}  # a monitor's own limits where nobody gives others
_SPANS: Final = {  # how a statistic is coloured; others from the smallest to the largest
    "normalized_entropy": "one", "peak": "one", "sink_mass": "one",
    "grad_w_q": "decades", "grad_w_k": "decades",
}  # fmt: skip
_NONE: Final = -1.0  # in place of a step
_Array: TypeAlias = NDArray[Any]


def training_answer(training: Training, number: int = 0, revision: int = 0) -> TrainingFactsAnswer:
    """What was monitored, by recording `number` of those that are shown."""
    steps = training.steps
    alarms: list[AlarmAnswer] = [
        {
            "kind": one.kind, "head": one.head, "step": one.step, "statistic": one.statistic,
            "value": as_json(one.value), "threshold": as_json(one.threshold),
        }
        for one in training.alarms
    ]  # fmt: skip
    return {
        "recording": number,
        "revision": revision,
        "samples": len(training),
        "steps": (int(steps[0]), int(steps[-1])) if len(training) else None,
        "places": list(training.places),
        "heads": _heard(training),
        "statistics": {name: _course(training, name) for name in training.words},
        "loss": _loss(training),
        "alarms": alarms,
        "maps": dict(training.maps),
    }


def _course(training: Training, name: str) -> TrainedStatisticAnswer:
    """One statistic over the steps."""
    values = training[name]
    return {
        "words": training.words[name],
        "span": _SPANS.get(name, "spread"),  # type: ignore[typeddict-item]
        "limit": _limit(training, name),
        "median_first": as_json(_median(values[:1])),
        "median_last": as_json(_median(values[-1:])),
        "least": _extreme(training, values, is_least=True),
        "largest": _extreme(training, values, is_least=False),
    }


def _loss(training: Training) -> LossAnswer | None:
    steps, values = training.steps[training.has_loss], training.loss[training.has_loss]
    if not steps.size:
        return None
    is_finite = np.isfinite(values)
    broken, known = steps[~is_finite], np.flatnonzero(is_finite)

    def at(number: int) -> LossAtAnswer:
        return {"value": as_json(values[number]), "step": int(steps[number])}

    return {
        "samples": int(steps.size),
        "first": at(0),
        "last": at(-1),
        "least": at(known[values[known].argmin()]) if known.size else None,
        "largest": at(known[values[known].argmax()]) if known.size else None,
        "not_finite": int(broken.size),
        "first_not_finite": int(broken[0]) if broken.size else None,
    }


def _median(values: _Array) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")


def _extreme(training: Training, values: _Array, *, is_least: bool) -> ExtremeAnswer:
    is_dark = np.isnan(values)
    if is_dark.all():
        return {"value": None, "head": "", "step": -1}
    filled = np.where(is_dark, np.inf if is_least else -np.inf, values)
    flat = filled.argmin() if is_least else filled.argmax()
    step, place, head = (int(one) for one in np.unravel_index(flat, values.shape))
    where = f"{training.places[place]}H{head}"
    value = as_json(values[step, place, head])
    return {"value": value, "head": where, "step": int(training.steps[step])}


def _heard(training: Training) -> list[int]:
    """Of every place, how many heads it has: up to the last that was ever heard."""
    heard: _Array = np.zeros((len(training.places), 0), bool)
    for name in training.words:
        known = np.asarray(~np.isnan(training[name]).all(axis=0))
        heard = known if heard.shape != known.shape else heard | known
        if heard.size and heard.all():
            break
    numbers = np.arange(1, heard.shape[1] + 1)
    return [int(one) for one in (heard * numbers).max(axis=1, initial=0)]


def _limit(training: Training, statistic: str) -> LimitAnswer | None:
    """The limit that this run had: as its file says, else as its alarms tell, else the customary
    one."""
    if training.limits is not None:
        own = training.limits.get(statistic)
        return None if own is None else _told(own, customary=False)
    told = [one for one in training.alarms if one.statistic == statistic]
    if told and math.isfinite(told[-1].threshold):
        last = told[-1]
        is_below = last.value < last.threshold
        return _told(Limit("below" if is_below else "above", last.threshold), customary=False)
    return _told(CUSTOMARY[statistic], customary=True) if statistic in CUSTOMARY else None


def _told(limit: Limit, *, customary: bool) -> LimitAnswer:
    return {"side": limit.side, "value": limit.value, "customary": customary}


# ── strips ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Strips:
    """One statistic of all heads over the steps. Cells are heads, place by place."""

    first: _Array  # (bins,) the first step of each bin
    last: _Array
    planes: _Array  # (1, bins, cells): numbers; (3, bins, cells): mean, least, largest of a bin
    over: _Array  # (cells,) the first step over the limit; −1 where there is none
    over_value: _Array  # (cells,) the number at that step
    heads: int  # cells of a place

    def sizes(self) -> dict[str, int]:
        """By which the bytes are told apart."""
        planes, bins, cells = self.planes.shape
        return {"planes": planes, "bins": bins, "cells": cells, "heads": self.heads}

    def tobytes(self) -> bytes:
        """float64 first, last, over; then float32 planes, over_value."""
        wide = np.concatenate([self.first, self.last, self.over]).astype("<f8")
        narrow = np.concatenate([self.planes.ravel(), self.over_value]).astype("<f4")
        return wide.tobytes() + narrow.tobytes()


def strips_of(training: Training, statistic: str, most: int = MOST_BINS) -> Strips:
    """A statistic in at most `most` bins of equally many samples. Of `loss` the two cells are the
    number, where it is finite, and whether it was given and is not."""
    if not 0 < most <= MOST_BINS:
        raise InputError(f"bins={most}; give 1 to {MOST_BINS}")
    steps, limit = training.steps, _limit(training, statistic)
    values = _loss_cells(training) if statistic == LOSS else training[statistic]
    count, places, heads = values.shape
    flat = values.reshape(count, places * heads)
    edges = np.linspace(0, count, min(count, most) + 1).round().astype(np.int64)
    starts = edges[:-1]
    planes = flat[None] if count <= most else _binned(flat, starts)
    over, over_value = _first_over(steps, flat, limit)
    return Strips(steps[starts], steps[edges[1:] - 1], planes, over, over_value, heads)


def _loss_cells(training: Training) -> _Array:
    """(n, 1, 2) float32."""
    if not training.has_loss.any():
        raise InputError("this run has no loss; monitor.step(loss=loss) gives it one")
    is_finite = np.isfinite(training.loss)
    broken = training.has_loss & ~is_finite
    return np.stack([np.where(is_finite, training.loss, np.nan), broken], -1, dtype=np.float32)[
        :, None
    ]


def _binned(flat: _Array, starts: _Array) -> _Array:
    """(3, bins, cells): mean, least and largest of what is known; NaN where nothing is."""
    is_known = ~np.isnan(flat)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # bins in which nothing is known
        sums = np.add.reduceat(np.where(is_known, flat, 0.0), starts, dtype=np.float64)
        means = sums / np.add.reduceat(is_known, starts, dtype=np.int64)
        least, largest = np.fmin.reduceat(flat, starts), np.fmax.reduceat(flat, starts)
    return np.stack([means, least, largest]).astype(np.float32)


def _first_over(steps: _Array, flat: _Array, limit: LimitAnswer | None) -> tuple[_Array, _Array]:
    """Of each cell the first step over the limit, and the number there."""
    cells = flat.shape[1]
    if limit is None or not flat.size:
        return np.full(cells, _NONE), np.full(cells, np.nan, np.float32)
    beyond = flat < limit["value"] if limit["side"] == "below" else flat > limit["value"]
    at, is_over = beyond.argmax(axis=0), beyond.any(axis=0)
    over = np.where(is_over, steps[at], _NONE)
    return over, np.where(is_over, flat[at, np.arange(cells)], np.nan)


# ── maps ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Snapshot:
    """The pooled map of a head."""

    step: int
    pooled: _Array  # (R, C): mean weight of a cell

    def sizes(self) -> dict[str, int]:
        """By which the bytes are told apart."""
        rows, columns = self.pooled.shape
        return {"step": self.step, "rows": rows, "columns": columns}

    def tobytes(self) -> bytes:
        """(R, C) float32."""
        return self.pooled.astype("<f4").tobytes()


def snapshot_of(training: Training, head: str, step: int) -> Snapshot:
    """What was stored of a head at a step, or last before it."""
    stored = training.maps.get(head, [])
    before = bisect_right(stored, step)
    if not before:
        have = f"its first is of step {stored[0]}" if stored else "it has none"
        raise InputError(f"no map of {head} was stored up to step {step}; {have}")
    return Snapshot(stored[before - 1], training.map(head, stored[before - 1]))
