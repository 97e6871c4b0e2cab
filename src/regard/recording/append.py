"""The end of a recording, where frames are appended whole or not at all."""

from __future__ import annotations

import os
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

    def append(self, kind: bytes, head: bytes, data: bytes | memoryview) -> None:
        """One frame, in one call. What cannot be written whole is taken back."""
        head_crc = crc32(head)
        length = len(head) + len(data)
        frame = Frame(kind, self.end, len(head), length, head_crc, crc32(data, head_crc))
        self.write(frame.pack(), head, data, bytes(padding(length)))
        self.headers.append(frame.pack())
        self.heads.append(head)

    def append_index(self) -> int:
        """An index of everything so far, made durable with all before it; its size in bytes."""
        head, data = index_payload(self.end, self.headers, self.heads)
        if len(head) + len(data) > MAX_INDEX:
            return len(data)  # too many frames: opening walks the headers
        self.append(INDX, head, data)
        self.sync()
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
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            raise FileError(f"{self.name}: cannot be written ({error.strerror})") from error

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
