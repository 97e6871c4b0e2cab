"""A region of a picture that nobody may look at: which keys of which place that is, told while the
model runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.axes import Axis, Box, Patches, Region
from regard.engine.call import Call
from regard.errors import InputError
from regard.hear.hooks import Caller, Pass
from regard.hear.names import Spot, is_cross, stream_of
from regard.intervene.edges import cut_keys
from regard.intervene.here import Here
from regard.intervene.names import Heads
from regard.mask import Mask, Table
from regard.recorder.axes import (
    NO_GRIDS,
    AxesReader,
    PlaceSize,
    Sighted,
    declared_axes,
    nearest,
    sights_of,
)
from regard.recorder.pictures import Grids, grids_of

_Flags = NDArray[np.bool_]  # (batch entries, keys)


class HiddenRegion:
    """The patches of a region, hidden as keys from every query of every place that sees them.

    hidden   by place, how many keys were hidden in its last pass without a cache
    unknown  places that read no text and whose keys nobody can tell to be patches: not hidden there
    """

    def __init__(self, model: nn.Module, region: Region, picture: int | None, axes: Any) -> None:
        if not isinstance(region, Box | Patches):
            raise InputError(
                f"region={region!r}; give regard.axes.Box(top, left, bottom, right) or "
                "regard.axes.Patches([(row, column), …], of=(rows, columns))"
            )
        self.region, self.picture = region, picture
        self.hidden: dict[str, int] = {}
        self.unknown: set[str] = set()
        self._reader = AxesReader(model, declared_axes(axes))
        self._known: dict[Spot, _Flags] = {}  # of the pass that filled the cache
        self._seen: Pass | None = None  # the last one in which a picture was read

    def without(self, call: Call, here: Here, spot: Spot) -> Mask | None:
        """The call's mask less the region."""
        now, caller = here.now, here.caller()
        if now is None or caller is None:
            return call.mask
        flags = self._flags(call, now, caller, spot)
        if flags is None or not flags.any():
            return call.mask
        flags = _resized(flags, here.starts(call)[1], call.shape.keys)
        device = call.query.device
        if (flags == flags[:1]).all():
            cut: Mask = cut_keys(flags[0], call.shape.queries, device)
        else:
            shape = (*call.shape.batch, 1, 1, call.shape.keys)
            cut = Table(torch.from_numpy(~flags).to(device).reshape(shape))
        return cut if call.mask is None else call.mask & cut

    def _flags(self, call: Call, now: Pass, caller: Caller, spot: Spot) -> _Flags | None:
        if now.cached and spot in self._known:
            return self._known[spot]
        label = Heads(spot.stack, spot.layer, None).label
        axes = list(self._axes(call, now, caller, label))
        if all(not axis.grids() for axis, _, _ in axes):
            if _reads(call, now, caller) is None and now.laid_out:
                self.unknown.add(label)
            return None
        flags = np.stack([self._covered(*one) for one in axes])
        if flags.any():
            self._known[spot], self.hidden[label] = flags, int(flags.sum())
        return flags

    def _covered(self, axis: Axis, first: int, window: int) -> NDArray[np.bool_]:
        """(keys,) of one batch entry, whose first picture has the number `first`."""
        found = np.zeros(len(axis), np.bool_)
        for start, grid in axis.grids():
            within = self.region.covers(grid.centres(window))
            if self.picture is not None:
                within &= first + grid.picture + grid.places[:, 0] == self.picture
            found[start + grid.prefix : start + grid.count] = within
        return found

    # ── axes ─────────────────────────────────────────────────────────────────────────────────

    def _axes(
        self, call: Call, now: Pass, caller: Caller, label: str
    ) -> Iterator[tuple[Axis, int, int]]:
        """Of each batch entry: its keys, the number of its first picture, its window."""
        entries = math.prod(call.shape.batch)
        if now.laid_out or self._seen is None:  # else the tower was run before, by itself
            self._seen = now
        sights, grids = sights_of(self._seen), grids_of(self._seen)
        grids = grids if grids.all else grids_of(now)
        size = PlaceSize(label, caller.path, call.shape.queries, call.shape.keys, ("", ""))
        ids = _reads(call, now, caller)
        if ids is not None:
            share = sum(one.pictures for one in sights) // max(len(ids), 1)
            for number in range(entries):
                row = ids[number * len(ids) // entries]
                own = [one.of(len(ids)) for one in sights]
                told = replace(size, streams=("tokens", "tokens"))
                axis = self._axis(told, row, own, grids if len(ids) == 1 else NO_GRIDS)
                yield axis, number * len(ids) // entries * share, 0
            return
        near = nearest(caller.path, sights)
        pictures = 1 if near is None else near.pictures
        together = max(pictures // entries, 1)  # pictures of one entry
        windows = max(entries // pictures, 1)
        one = [replace(sight, pictures=together) for sight in sights]
        axis = self._axis(replace(size, windows=windows), None, one, grids)
        for number in range(entries):
            yield axis, number // windows * together, number % windows

    def _axis(
        self,
        place: PlaceSize,
        ids: NDArray[np.int64] | None,
        sights: Sequence[Sighted],
        grids: Grids,
    ) -> Axis:
        streams = {} if ids is None else {"tokens": ids}
        found = self._reader.positions([place], streams, sights, grids)
        return found.of(place.label, place.queries, place.keys, place.windows)[1]


def _reads(call: Call, now: Pass, caller: Caller) -> NDArray[np.int64] | None:
    """(B, L) the tokens that the keys of a place stand for, as many as there are; else None."""
    name = "" if is_cross(caller.path) else stream_of(now.streams, caller)
    if not name or now.streams[name].shape[1] != call.shape.keys:
        return None
    found: NDArray[np.int64] = now.streams[name].cpu().numpy()
    return found


def _resized(flags: _Flags, start: int, count: int) -> _Flags:
    """Of the keys start … start + count − 1; those that came later are no patches."""
    part = flags[:, start : start + count]
    return np.pad(part, ((0, 0), (0, count - part.shape[1])))
