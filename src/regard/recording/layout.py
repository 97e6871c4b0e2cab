"""The bytes between the tensors: the file header and the frame header. SPEC.md is the page."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

from regard.errors import FileError

VERSION = 1
BLOCK = 64  # bytes; everything starts at a multiple of it
FRAME_MAGIC = b"RGDF"
META, TENS, INDX, TAIL, VOID = b"META", b"TENS", b"INDX", b"TAIL", b"VOID"
MAX_HEAD = 16 << 20
MAX_INDEX = 1 << 30

_MAGIC = b"\x89REGARD\n"
_FILE = struct.Struct("<8sI48x")
_FRAME = struct.Struct("<4s4sIIQIIQ20x")
_CRC = struct.Struct("<I")
_MAX_LENGTH = 1 << 62


def padding(length: int) -> int:
    """How many bytes lead from `length` to a multiple of BLOCK."""
    return -length % BLOCK


def file_header(version: int = VERSION) -> bytes:
    """The first 64 bytes of a file."""
    return _sealed(_FILE.pack(_MAGIC, version))


def check_file_header(raw: bytes) -> None:
    """Refuse what is not a recording, is damaged at the front, or is newer than this reader."""
    if raw[: len(_MAGIC)] != _MAGIC[: len(raw)] or not raw:
        raise FileError("not a regard recording; give a file that regard has written")
    if len(raw) < BLOCK or not _holds(raw):
        raise FileError("the file header is damaged")
    version = _FILE.unpack(raw[: _FILE.size])[1]
    if version > VERSION:
        raise FileError(
            f"a recording of format version {version}; this regard reads up to version "
            f"{VERSION}: upgrade it"
        )
    if raw != file_header(version) or version == 0:
        raise FileError("the file header is damaged")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as its header describes it."""

    kind: bytes
    offset: int
    head_length: int = 0
    length: int = 0  # of the payload
    head_crc: int = 0
    crc: int = 0

    @property
    def payload(self) -> int:
        """Where the payload starts."""
        return self.offset + BLOCK

    @property
    def data(self) -> int:
        """Where the tensor data starts."""
        return self.payload + self.head_length

    @property
    def end(self) -> int:
        """Where the next frame starts."""
        return self.payload + self.length + padding(self.length)

    def pack(self) -> bytes:
        """The header, 64 bytes."""
        numbers = self.head_length, self.length, self.head_crc, self.crc, self.offset
        return _sealed(_FRAME.pack(FRAME_MAGIC, self.kind, 0, *numbers))

    @classmethod
    def parse(cls, raw: bytes) -> Frame:
        """The header read back. Only what is sound in itself; the file's size is not known here."""
        if len(raw) < BLOCK:
            raise FileError(f"{len(raw)} stray bytes")
        magic, kind, flags, head_length, length, head_crc, crc, offset = _FRAME.unpack(
            raw[: _FRAME.size]
        )
        if magic != FRAME_MAGIC or not _holds(raw):
            raise FileError("no readable frame header")
        if flags or head_length % BLOCK or head_length > min(MAX_HEAD, length):
            raise FileError("a frame header with impossible fields")
        if max(length, offset) > _MAX_LENGTH:
            raise FileError("a frame header with impossible sizes")
        return cls(kind, offset, head_length, length, head_crc, crc)


def _sealed(body: bytes) -> bytes:
    return body + _CRC.pack(crc32(body))


def _holds(raw: bytes) -> bool:
    return _CRC.pack(crc32(raw[: BLOCK - 4])) == raw[BLOCK - 4 : BLOCK]
