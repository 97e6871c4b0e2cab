"""A training run as a page carries it: what the server would answer, in as many bins as fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.recording import Training
from regard.recording.training import LOSS
from regard.viewer.opened import Opened
from regard.viewer.packing import deflated
from regard.views.run import MOST_BINS, Snapshot, Strips, strips_of, training_answer
from regard.views.text import count

_BITS: Final = 13  # of a rounded number: four digits
_LEAST_BYTES: Final = 0.5  # a number of a strip takes at least, rounded and deflated
_STRIPS: Final = 2 / 3  # of the room, where there are maps too
_Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class CarriedRun:
    """One run, packed."""

    facts: dict[str, Any]  # the server's, and in which blob the numbers lie
    blobs: list[bytes]
    words: list[str]  # what a reader must know of it, in sentences

    @property
    def size(self) -> str:
        """'30 sampled steps of 8 heads'."""
        told = self.facts["facts"]
        return f"{count(told['samples'], 'sampled step')} of {count(sum(told['heads']), 'head')}"


def carry_training(opened: Opened, room: int, first: int = 1) -> CarriedRun | None:
    """The run of a recording in about `room` bytes, its blobs numbered from `first`; None where
    none was monitored."""
    run = opened.recording.training
    if not len(run):
        return None
    told = training_answer(run)
    share = int(room * _STRIPS) if run.maps else room
    strips, blobs, words = _strips(run, share, first)
    stored, maps, more = _maps(run, max(room - _size(blobs), 0), first + len(blobs))
    kept = {head: [one["step"] for one in own["stored"]] for head, own in stored.items()}
    found = {"facts": told | {"maps": kept}, "strips": strips, "maps": stored}
    return CarriedRun(found, [*blobs, *maps], [*words, *more])


# ── strips ───────────────────────────────────────────────────────────────────────────────────


def _strips(run: Training, room: int, first: int) -> tuple[dict[str, Any], list[bytes], list[str]]:
    """Of the loss and every statistic, as exactly as fits."""
    samples = len(run)
    names = [*([LOSS] if run.has_loss.any() else []), *run.words]
    for bins, is_rounded in _forms(min(samples, MOST_BINS)):
        found = {name: strips_of(run, name, bins) for name in names}
        least = sum(one.planes.size for one in found.values()) * _LEAST_BYTES
        if least > room and bins > 1:
            continue
        blobs = [deflated(_content(one, is_rounded)) for one in found.values()]
        if _size(blobs) <= room or bins == 1:
            break
    told = {
        name: {"blob": first + number, "sizes": one.sizes()}
        for number, (name, one) in enumerate(found.items())
    }
    words = ["Its numbers are rounded to four digits."] if is_rounded else []
    if bins < samples:
        words = [
            f"Its {count(samples, 'sampled step')} are drawn in {count(bins, 'bin')}, of which "
            "mean, least and largest are here.",
            *words,
        ]
    return told, blobs, words


def _forms(most: int) -> Iterator[tuple[int, bool]]:
    """Bins, and whether numbers are rounded: the better first."""
    yield most, False
    bins = most
    while bins >= 1:
        yield bins, True
        bins //= 2


def _content(strips: Strips, is_rounded: bool) -> bytes:
    some = replace(strips, planes=_rounded(strips.planes)) if is_rounded else strips
    return some.tobytes()


def _rounded(values: _Array) -> _Array:
    """To a few bits each; the rest are 0 and deflate to little."""
    part, exponent = np.frexp(values.astype(np.float32))
    return np.ldexp(np.rint(part * 2**_BITS) / 2**_BITS, exponent).astype(np.float32)


# ── stored maps ──────────────────────────────────────────────────────────────────────────────


def _maps(run: Training, room: int, first: int) -> tuple[dict[str, Any], list[bytes], list[str]]:
    """A blob for each head. All of its maps, or every second, fourth … back from the last, or
    those of some heads."""
    stored = run.maps
    every = sum(map(len, stored.values()))
    stride, packed = 1, _packed(run, stored)
    while sum(len(content) for _, content in packed) > room:
        if stride >= max(map(len, stored.values())):
            packed = packed[:-1]
            continue
        stride *= 2
        packed = _packed(run, {head: own[::-stride][::-1] for head, own in stored.items()})
    told = {
        one["head"]: {"blob": first + number, "stored": one["stored"]}
        for number, (one, _) in enumerate(packed)
    }
    kept = sum(len(one["stored"]) for one in told.values())
    words = [] if kept == every else [f"{kept:,} of its {count(every, 'stored map')} are here."]
    return told, [content for _, content in packed], words


def _packed(
    run: Training, stored: Mapping[str, Sequence[int]]
) -> list[tuple[dict[str, Any], bytes]]:
    """Of each head what its maps are, and their numbers one behind the other."""
    found = []
    for head, steps in stored.items():
        maps = [Snapshot(step, run.map(head, step)) for step in steps]
        told = {"head": head, "stored": [one.sizes() for one in maps]}
        found.append((told, deflated(b"".join(one.tobytes() for one in maps))))
    return found


def _size(blobs: list[bytes]) -> int:
    return sum(map(len, blobs))
