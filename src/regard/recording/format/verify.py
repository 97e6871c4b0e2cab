"""Every byte of a recording checked; a torn tail cut off, a missing index written."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import FileError
from regard.recording.format.frames import (
    Catalogue,
    Damage,
    Source,
    index_rows,
    lock,
    names_in,
)
from regard.recording.format.layout import BLOCK, INDX, META, TAIL, VOID, Frame
from regard.recording.format.log import Log
from regard.recording.schema import PROMPT_NOTE, Prompt

_SILENT = (INDX, VOID)  # frames that say nothing which others do not say


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a file holds and what is wrong with it."""

    file: str
    size: int  # bytes
    frames: int  # good ones, of any type
    tensors: int
    prompts: int  # begun, as far as their notes can be read
    finished: int  # prompts that were read to their end
    is_closed: bool  # an index ends it, so that it opens at once
    is_live: bool  # somebody is writing it
    damage: tuple[Damage, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every byte is as it was written."""
        return not self.damage

    @property
    def was_stopped(self) -> bool:
        """Whether its writer went away without closing it: what was to follow is missing."""
        return not self.is_closed and not self.is_live


def check(path: str | os.PathLike[str]) -> Report:
    """Read the whole file. FileError only where it is no recording, or cannot be read at all."""
    source = Source(Path(path))
    try:
        return _report(source, _examine(source))
    finally:
        source.close()


def repair(path: str | os.PathLike[str]) -> Report:
    """Cut off a torn tail and write the index anew; the report is of what is left.

    An index is written from the frames wherever it is missing, damaged or disagrees with them: the
    one that ends the file anew, one before that is made void. Other good frames are never touched,
    nor is damage between them: nothing could replace it. A crash at any moment leaves a file that
    can be read.
    """
    source = Source(Path(path), writable=True)
    try:
        lock(source.file.fileno(), source.name)
        good = _examine(source)
        if _make_void(source, good):
            good = _examine(source)
        if good.end != source.size() or not good.frames or good.frames[-1].frame.kind != INDX:
            _close_anew(source, good)
        return _report(source, _examine(source), ours=True)
    finally:
        source.close()


def _examine(source: Source) -> Catalogue:
    """The frames whose every byte holds."""
    walked = Catalogue(source)
    walked.walk()
    good = Catalogue(source)
    good.damage = list(walked.damage)
    before: set[Frame] = set()
    for found in walked.frames:
        frame = found.frame
        try:
            if source.checksum(frame) != frame.crc:
                raise FileError("a frame with a wrong checksum")
            if frame.kind == INDX:
                _check_index(source, frame, before, good.damage)
        except FileError as error:
            good.note(frame.offset, frame.end, str(error))
            continue
        stop = frame.payload + frame.length
        if any(source.read(stop, frame.end - stop)):
            good.note(stop, frame.end, "stray bytes behind a frame")
        good.frames.append(found)
        good.end = frame.end
        if frame.kind not in _SILENT:
            before.add(frame)
    good.damage.sort(key=lambda one: one.offset)
    return good


def _check_index(source: Source, frame: Frame, before: set[Frame], damage: list[Damage]) -> None:
    """An index lists every good frame before it that says something; others only where there is
    damage now."""
    tail = Frame(TAIL, frame.offset)
    rows = index_rows(source, tail)[1]
    if source.read(frame.payload + frame.length - BLOCK, BLOCK) != tail.pack():
        raise FileError("an index without its tail")
    offsets = [one.frame.offset for one in rows]
    listed = {one.frame for one in rows if one.frame.kind not in _SILENT}
    parts = sorted((one.offset, one.offset + one.length) for one in damage)
    agrees = (
        offsets == sorted(set(offsets))
        and len(before) <= len(listed)  # cheap where somebody wrote a thousand false ones
        and before <= listed
        and all(_lies_in(parts, one.offset) for one in listed - before)
    )
    if not agrees:
        raise FileError("an index that disagrees with the file")


def _lies_in(parts: list[tuple[int, int]], offset: int) -> bool:
    at = bisect_right(parts, (offset, 1 << 63)) - 1
    return at >= 0 and offset < parts[at][1]


def _close_anew(source: Source, good: Catalogue) -> None:
    """What lies behind the last good frame goes; an index of the good ones follows."""
    descriptor = source.file.fileno()
    try:
        os.ftruncate(descriptor, good.end)
        os.fsync(descriptor)
    except OSError as error:
        raise FileError(f"{source.name}: cannot be repaired ({error.strerror})") from None
    Log.behind(source, good).append_index()


def _make_void(source: Source, good: Catalogue) -> bool:
    """Whether there were indices, before the end, that are damaged or disagree with the frames.
    Their bytes stay, under a header that gives them no meaning: the frames say all they said."""
    made = False
    for one in good.damage:
        with suppress(FileError):
            frame = Frame.parse(source.read(one.offset, BLOCK))
            if frame.kind == INDX and frame.offset == one.offset and frame.end <= good.end:
                _write_header(source, replace(frame, kind=VOID, head_length=0, head_crc=0))
                made = True
    return made


def _write_header(source: Source, frame: Frame) -> None:
    """Over the one that is there, with the checksum of the payload as it is."""
    sealed = replace(frame, crc=source.checksum(frame)).pack()
    try:
        os.pwrite(source.file.fileno(), sealed, frame.offset)
    except OSError as error:
        raise FileError(f"{source.name}: cannot be repaired ({error.strerror})") from None


def _report(source: Source, good: Catalogue, ours: bool = False) -> Report:
    is_live = not ours and source.is_live()
    damage = good.damage
    if is_live:  # the frame that is being written is no damage
        damage = [one for one in damage if one.offset < good.end]
    prompts = _prompts(good)
    return Report(
        file=source.name,
        size=source.size(),
        frames=len(good.frames),
        tensors=sum(len(names_in(one)) for one in good.frames),
        prompts=len(prompts),
        finished=sum(prompts),
        is_closed=Catalogue(source).load_index(),
        is_live=is_live,
        damage=tuple(damage),
    )


def _prompts(good: Catalogue) -> list[bool]:
    """Of every prompt whether its note says that it was read to its end; the last note counts.
    Notes that say nothing of the kind are passed over: their bytes are what is checked here."""
    notes: dict[str, str] = {}
    for one in good.frames:
        if one.frame.kind == META:
            notes |= one.document.metadata
    told = []
    for name, text in notes.items():
        if name.startswith(PROMPT_NOTE):
            with suppress(FileError):
                told.append(Prompt.from_json(text).finished)
    return told
