"""A recording's file: opened as what it is, read at offsets, locked by its one writer."""

from __future__ import annotations

import errno
import os
import time
from importlib import import_module
from pathlib import Path
from zlib import crc32

from regard.errors import FileError
from regard.files import check_regular, reason, shown
from regard.recording.layout import BLOCK, Frame, check_file_header

_CHUNK = 8 << 20
_HUGE = 1 << 30  # bytes
_DENSEST = 1000  # bytes of a file to one on the disk, where file systems compress
_fcntl = import_module("fcntl") if os.name == "posix" else None  # elsewhere without locks


class Source:
    """An open recording. Reads never go beyond the file, so a short answer is a short file."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.name = shown(path)
        try:
            check_regular(path)
            self.file = path.open("r+b" if writable else "rb", buffering=0)
        except FileNotFoundError:
            raise FileError(f"{self.name}: no such file; give a .regard recording") from None
        except (OSError, ValueError) as error:
            raise FileError(f"{self.name}: cannot be opened ({reason(error)})") from None
        try:
            check_file_header(self.read(0, BLOCK))
        except FileError as error:
            self.file.close()
            raise FileError(f"{self.name}: {error}") from None

    def size(self) -> int:
        """How long the file is now."""
        return os.fstat(self.file.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        """These bytes, or as many of them as there are."""
        pieces = []
        try:
            self.file.seek(offset)
            while length > 0 and (piece := self.file.read(length)):
                pieces.append(piece)
                length -= len(piece)
        except OSError as error:
            raise FileError(f"{self.name}: cannot be read ({error.strerror})") from None
        return b"".join(pieces)

    def next_data(self, offset: int) -> int:
        """The first place from here on that is no hole of a sparse file; the file's end where only
        holes follow."""
        try:
            return os.lseek(self.file.fileno(), offset, os.SEEK_DATA) // BLOCK * BLOCK
        except AttributeError:
            return offset  # a system that does not tell
        except OSError as error:
            return self.size() if error.errno == errno.ENXIO else offset

    def check_present(self, frame: Frame) -> None:
        """FileError where the disk holds next to nothing of a huge frame: it is a hole of a sparse
        file, which would take hours to read."""
        held = getattr(os.fstat(self.file.fileno()), "st_blocks", frame.length) * 512
        if frame.length > max(_HUGE, _DENSEST * held):
            raise FileError(f"a frame of {frame.length} bytes, of which the disk holds {held}")

    def checksum(self, frame: Frame) -> int:
        """crc32 of the frame's payload, from the disk, in pieces."""
        self.check_present(frame)
        value, position, end = 0, frame.payload, frame.payload + frame.length
        while position < end and (piece := self.read(position, min(_CHUNK, end - position))):
            value = crc32(piece, value)
            position += len(piece)
        return value

    def is_live(self) -> bool:
        """Whether a writer holds the file."""
        if _fcntl is None:
            return False
        try:
            _fcntl.flock(self.file, _fcntl.LOCK_SH | _fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # a file system without locks
        _fcntl.flock(self.file, _fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let the file go."""
        self.file.close()


def lock(descriptor: int, name: str) -> None:
    """Hold the file until it is closed. A reader's glance at the lock is waited for, no writer."""
    if _fcntl is None:
        return
    for _ in range(20):
        try:
            _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return  # a file system without locks
    raise FileError(f"{name}: being written by another process; wait for it, or give another name")
