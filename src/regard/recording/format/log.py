"""The end of a recording's file: frames are appended whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Hashable
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

from regard.errors import FileError
from regard.recording.format.frames import Catalogue, Source, index_payload, names_in
from regard.recording.format.layout import BLOCK, INDX, MAX_INDEX, Frame, padding

_SYNC_EVERY = 64_000_000  # bytes


class Unplaced(NamedTuple):
    """A frame before it has a place in a file; whatever depends on its bytes alone is known."""

    kind: bytes
    head: bytes
    data: tuple[bytes | memoryview, ...]
    head_crc: int
    crc: int
    names: tuple[str, ...] = ()  # of its tensors

    @classmethod
    def of(
        cls, kind: bytes, head: bytes, *data: bytes | memoryview, names: tuple[str, ...] = ()
    ) -> Unplaced:
        """With its checksums, which is what takes long."""
        head_crc = crc = crc32(head)
        for part in data:
            crc = crc32(part, crc)
        return cls(kind, head, data, head_crc, crc, names)

    def at(self, offset: int) -> Frame:
        """Its header there."""
        length = len(self.head) + sum(map(len, self.data))
        return Frame(self.kind, offset, len(self.head), length, self.head_crc, self.crc)


class Noted(NamedTuple):
    """A frame that is in the file, as an index lists it."""

    header: bytes
    head: bytes
    end: int


class Log:
    """A descriptor, and the frames of its file by the names of their tensors; those without any
    by their offsets.

    The file may hold more than is noted: a signal can end `append` between any two steps. A frame
    counts once it is noted, in one step, and where the next one begins follows from the notes. So
    what was written without being noted is cut off before the next frame.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self.frames: dict[Hashable, Noted] = {}
        self._size: int | None = None  # of the file, unless a write was interrupted
        self._syncing: threading.Thread | None = None
        self._asked = BLOCK  # how much of the file somebody was asked to sync
        self._trouble: OSError | None = None  # that the thread met

    @classmethod
    def behind(cls, source: Source, there: Catalogue) -> Log:
        """Of a file that holds these frames."""
        log = cls(source.file.fileno(), source.name)
        for one in there.frames:
            log._note(names_in(one), one.frame, one.head)
        log._asked = log.end
        return log

    @property
    def end(self) -> int:
        """Where the last noted frame ends."""
        return next(reversed(self.frames.values())).end if self.frames else BLOCK

    def append(self, one: Unplaced) -> None:
        """One frame, in one call. What cannot be written whole is taken back."""
        offset = self.end
        frame = one.at(offset)
        self.write(offset, frame.pack(), one.head, *one.data, bytes(padding(frame.length)))
        self._note(one.names, frame, one.head)

    def _note(self, names: Collection[str], frame: Frame, head: bytes) -> None:
        """Under all its names in one step."""
        noted = Noted(frame.pack(), head, frame.end)
        self.frames.update(dict.fromkeys(names or (frame.offset,), noted))

    def append_index(self, wait: bool = True) -> int:
        """An index of everything so far, made durable with all before it; its size in bytes.
        Without waiting for the disk, more can be written meanwhile."""
        listed = dict.fromkeys(self.frames.values())
        headers, heads = [one.header for one in listed], [one.head for one in listed]
        head, data = index_payload(self.end, headers, heads)
        if len(head) + len(data) > MAX_INDEX:
            return len(data)  # too many frames: opening walks the headers
        self.append(Unplaced.of(INDX, head, data))
        if wait:
            self.sync()
        else:
            self.sync_soon()
        return len(data)

    def write(self, offset: int, *parts: bytes | memoryview) -> None:
        """The parts at the end of the file, which is there, or none of them."""
        rest = [memoryview(part) for part in parts if len(part)]
        size, self._size = self._size, None
        try:
            if size != offset:
                if os.fstat(self.descriptor).st_size > offset:
                    os.ftruncate(self.descriptor, offset)
                os.lseek(self.descriptor, offset, os.SEEK_SET)
            while rest:
                rest = _behind(rest, _write_some(self.descriptor, rest))
            self._size = offset + sum(map(len, parts))
        except BaseException as error:
            with suppress(OSError):  # else the next frame does it
                os.ftruncate(self.descriptor, offset)
            if not isinstance(error, OSError):
                raise
            raise FileError(
                f"{self.name}: cannot be written ({error.strerror}); all before byte {offset} "
                "is whole and can be read"
            ) from error

    def sync(self) -> None:
        """On the disk, as far as the system can promise."""
        self._settle()
        self._sync()
        self._settle()

    def sync_soon(self) -> None:
        """The same in a thread, one at a time; the next of these calls tells what went wrong."""
        self._settle()
        self._asked = self.end
        self._syncing = threading.Thread(target=self._sync, name="regard-sync", daemon=True)
        self._syncing.start()

    def keep_syncing(self) -> None:
        """Likewise where enough has come since, unless the disk is still at it: whoever closes the
        file waits for its last part alone."""
        busy = self._syncing is not None and self._syncing.is_alive()
        if not busy and self.end - self._asked >= _SYNC_EVERY:
            self.sync_soon()

    def close(self) -> None:
        """Close the file."""
        try:
            self._settle()  # nobody may sync a descriptor that is another file's by then
        finally:
            os.close(self.descriptor)

    def _sync(self) -> None:
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            self._trouble = error  # the system tells of it once

    def _settle(self) -> None:
        if self._syncing is not None and self._syncing.is_alive():  # a signal may have come first
            self._syncing.join()
        trouble, self._syncing, self._trouble = self._trouble, None, None
        if trouble is not None:
            raise FileError(f"{self.name}: cannot be written ({trouble.strerror})") from trouble


def _write_some(descriptor: int, parts: list[memoryview]) -> int:
    if hasattr(os, "writev"):
        return os.writev(descriptor, parts)
    return os.write(descriptor, b"".join(parts))


def _behind(parts: list[memoryview], count: int) -> list[memoryview]:
    """What is left of the parts after so many bytes; one call may take at most 2 GB."""
    while parts and count >= len(parts[0]):
        count -= len(parts[0])
        parts = parts[1:]
    return [parts[0][count:], *parts[1:]] if parts else []
