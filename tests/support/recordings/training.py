"""Training runs, written as a monitor writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.recording import Alarm, Limit
from regard.recording.schema import CONTENTS
from regard.recording.training import ALARMS_NOTE, LOSS, TRAINING_NOTE, map_name, series_name


def write_training(
    store: Any,
    values: Any = None,
    statistics: Mapping[str, str] | None = None,
    *,
    steps: Any = None,
    start: int = 0,
    places: Sequence[str] = ("L0", "L1"),
    alarms: Sequence[Alarm] = (),
    limits: Mapping[str, Limit] | None = None,
    maps: Iterable[tuple[str, int, Any]] = (),
    loss: Any = None,
) -> Any:
    """A piece of a run that begins with sample `start`, with the notes of the whole run; the store.

    values       (samples, places, heads) of every statistic, or a mapping by name
    statistics   name → words about it
    steps        (samples,), counted from `start` if None
    maps         (head, step, pooled map)
    loss         (samples,), if the run gave one
    """
    words = {"peak": "heaviest key"} if statistics is None else dict(statistics)
    run: dict[str, Any] = {"places": list(places), "statistics": words}
    if limits is not None:
        run["limits"] = {name: limit.to_dict() for name, limit in limits.items()}
    store.note({"contents": CONTENTS, TRAINING_NOTE: json.dumps(run)})
    if alarms:
        store.note({ALARMS_NOTE: json.dumps([alarm.to_dict() for alarm in alarms])})
    if values is not None:
        series = values if isinstance(values, Mapping) else dict.fromkeys(words, values)
        count = len(next(iter(series.values())))
        when = np.arange(start, start + count) if steps is None else np.asarray(steps, np.int64)
        store.add(series_name("steps", start), when)
        if loss is not None:
            store.add(series_name(LOSS, start), np.asarray(loss, np.float32))
        for name in words:
            store.add(series_name(name, start), np.asarray(series[name], np.float32))
    for head, step, pooled in maps:
        store.add(map_name(head, step), np.asarray(pooled, np.float32))
    return store
