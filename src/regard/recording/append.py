"""The end of a recording, where frames are appended whole or not at all."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from zlib import crc32

from regard.errors import FileError
from regard.recording.catalogue import index_payload
from regard.recording.layout import INDX, MAX_INDEX, Frame, padding

__all__ = ["Log"]


class Log:
    """A descriptor, where the last whole frame ends, and what an index would have to list."""

    def __init__(self, descriptor: int, name: str, end: int) -> None:
        self.descriptor = descriptor
        self.name = name
        self.end = end
        self.headers: list[bytes] = []
        self.heads: list[bytes] = []
        self._syncing: threading.Thread | None = None
        self._trouble: OSError | None = None  # that the thread met

    def append(self, kind: bytes, head: bytes, *data: bytes | memoryview) -> None:
        """One frame, in one call. What cannot be written whole is taken back."""
        head_crc = crc = crc32(head)
        for part in data:
            crc = crc32(part, crc)
        length = len(head) + sum(map(len, data))
        frame = Frame(kind, self.end, len(head), length, head_crc, crc)
        self.write(frame.pack(), head, *data, bytes(padding(length)))
        self.headers.append(frame.pack())
        self.heads.append(head)

    def append_index(self, wait: bool = True) -> int:
        """An index of everything so far, made durable with all before it; its size in bytes.
        Without waiting for the disk, more can be written meanwhile."""
        head, data = index_payload(self.end, self.headers, self.heads)
        if len(head) + len(data) > MAX_INDEX:
            return len(data)  # too many frames: opening walks the headers
        self.append(INDX, head, data)
        if wait:
            self.sync()
        else:
            self.sync_soon()
        return len(data)

    def write(self, *parts: bytes | memoryview) -> None:
        """The parts at the end of the file, or none of them."""
        rest = [memoryview(part) for part in parts if len(part)]
        total = sum(map(len, rest))
        try:
            while rest:
                rest = _behind(rest, _write_some(self.descriptor, rest))
        except BaseException as error:
            self._cut_back()
            if not isinstance(error, OSError):
                raise
            raise FileError(
                f"{self.name}: cannot be written ({error.strerror}); all before byte {self.end} "
                "is whole and can be read"
            ) from error
        self.end += total

    def sync(self) -> None:
        """On the disk, as far as the system can promise."""
        self._settle()
        self._sync()
        self._settle()

    def sync_soon(self) -> None:
        """The same in a thread, one at a time; the next of these calls tells what went wrong."""
        self._settle()
        self._syncing = threading.Thread(target=self._sync, name="regard-sync", daemon=True)
        self._syncing.start()

    def close(self) -> None:
        """Let the file go."""
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
        if self._syncing is not None:
            self._syncing.join()
        trouble, self._syncing, self._trouble = self._trouble, None, None
        if trouble is not None:
            raise FileError(f"{self.name}: cannot be written ({trouble.strerror})") from trouble

    def _cut_back(self) -> None:
        with suppress(OSError):  # else the next frame is written over the torn one
            os.ftruncate(self.descriptor, self.end)
        os.lseek(self.descriptor, self.end, os.SEEK_SET)


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
