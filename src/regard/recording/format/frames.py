"""A recording's file, opened as what it is and locked by its one writer, and which frames it holds:
taken from its closing index, or found by walking the headers."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from zlib import crc32

from regard.errors import FileError
from regard.files import check_regular, reason, shown
from regard.recording.format.layout import (
    BLOCK,
    FRAME_MAGIC,
    INDX,
    MANY,
    MAX_INDEX,
    META,
    TAIL,
    TENS,
    Document,
    Frame,
    Tensor,
    check_file_header,
    decode_head,
    encode_head,
)

_READ_AT_ONCE = 8 << 20
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
        while position < end and (piece := self.read(position, min(_READ_AT_ONCE, end - position))):
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
        """Close the file."""
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


_CHUNK = 1 << 20
_TENSORS = {META: 0, TENS: 1, MANY: None, INDX: 3}  # None: any number


@dataclass(frozen=True)
class Damage:
    """A part of a file that cannot be read, and why."""

    file: str
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason} at byte {self.offset} ({self.length} bytes)"


@dataclass(frozen=True, slots=True)
class Found:
    """A frame that is there, with the head of its document."""

    frame: Frame
    head: bytes
    document: Document


class Catalogue:
    """The good frames in the order of the file, and what lies between and after them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.frames: list[Found] = []
        self.damage: list[Damage] = []
        self.end = BLOCK  # of the last good frame
        self._names: set[str] = set()

    def load_index(self) -> bool:
        """Fill from the index that ends the file; False where there is none to be trusted."""
        size = self.source.size()
        try:
            found, rows = index_rows(
                self.source, Frame.parse(self.source.read(size - BLOCK, BLOCK))
            )
            if found.frame.end != size:
                return False
            fresh = Catalogue(self.source)
            for one in (*rows, found):
                fresh.admit(one)
        except FileError:
            return False
        self.frames, self.damage, self.end = fresh.frames, fresh.damage, fresh.end
        self._names = fresh._names
        return True

    def walk(self) -> None:
        """Go on from the last good frame to the end of the file, header by header."""
        self.damage = [one for one in self.damage if one.offset < self.end]
        known, size, position = len(self.frames), self.source.size(), self.end
        while position < size:
            position = self._step(position, size)
        if len(self.frames) > known:
            last = self.frames[-1].frame
            try:
                if self.source.checksum(last) != last.crc:
                    raise FileError("a frame with a wrong checksum")
            except FileError as error:
                self._take_back(str(error))

    def admit(self, found: Found) -> None:
        """One more good frame; FileError where it overlaps another or repeats its name."""
        frame = found.frame
        if frame.offset < self.end or frame.offset % BLOCK:
            raise FileError("frames that overlap")
        names = names_in(found)
        if names & self._names:
            raise FileError("a name that was used before")
        is_noted = self.damage and self.damage[-1].offset >= self.end
        if frame.offset > self.end and not is_noted:
            self.note(self.end, frame.offset, "bytes that are in no frame")
        self.frames.append(found)
        self._names |= names
        self.end = frame.end

    def note(self, start: int, end: int, reason: str) -> None:
        """These bytes cannot be read."""
        self.damage.append(Damage(self.source.name, start, end - start, reason))

    def _step(self, position: int, size: int) -> int:
        """Take in or note what starts here; where to go on."""
        try:
            frame = Frame.parse(self.source.read(position, BLOCK))
            if frame.offset != position:
                raise FileError("a frame that belongs elsewhere")
        except FileError as error:
            following = self._next_header(position + 1, size)
            self.note(position, following, str(error))
            return following
        if frame.end > size:
            self.note(position, size, "a frame that was not finished")
            return size
        try:
            self.admit(_found(frame, self.source.read(frame.payload, frame.head_length)))
        except FileError as error:
            self.note(position, frame.end, str(error))
        return frame.end

    def _next_header(self, position: int, size: int) -> int:
        """Where the next sound frame header lies that names its own offset; else the end."""
        while (position := self.source.next_data(position)) < size:
            chunk = self.source.read(position, _CHUNK + BLOCK)
            at = chunk.find(FRAME_MAGIC)
            while at >= 0:
                if _is_header(chunk[at : at + BLOCK], position + at):
                    return position + at
                at = chunk.find(FRAME_MAGIC, at + 1)
            position += _CHUNK
        return size

    def _take_back(self, reason: str) -> None:
        """The last frame is no good after all."""
        found = self.frames.pop()
        self._names -= names_in(found)
        tail = [one for one in self.damage if one.offset >= found.frame.end]
        self.damage = [one for one in self.damage if one.offset < found.frame.end]
        self.note(found.frame.offset, found.frame.end, reason)
        self.damage += tail
        self.end = self.frames[-1].frame.end if self.frames else BLOCK


def index_payload(
    offset: int, headers: Sequence[bytes], heads: Sequence[bytes]
) -> tuple[bytes, bytes]:
    """Head and data of the index frame at `offset` for the frames before it."""
    parts = b"".join(headers), b"".join(heads), Frame(TAIL, offset).pack()
    shapes = (len(headers), BLOCK), (len(parts[1]),), (BLOCK,)
    tensors, start = [], 0
    for name, part, shape in zip(("frames", "heads", "tail"), parts, shapes, strict=True):
        tensors.append(Tensor(name, "U8", shape, start, start + len(part)))
        start += len(part)
    return encode_head(tensors, {}), b"".join(parts)


def index_rows(source: Source, tail: Frame) -> tuple[Found, list[Found]]:
    """The index frame a tail points at, and the frames it lists; FileError where it is unsound."""
    frame = Frame.parse(source.read(tail.offset, BLOCK))
    if tail.kind != TAIL or frame.kind != INDX or frame.offset != tail.offset:
        raise FileError("no index")
    if frame.length > MAX_INDEX or frame.end > source.size():
        raise FileError("an index larger than possible")
    payload = source.read(frame.payload, frame.length)
    found = _found(frame, payload[: frame.head_length])
    if crc32(payload) != frame.crc:
        raise FileError("an index with a wrong checksum")
    rows, heads, last = found.document.tensors
    named = {"frames": rows, "heads": heads, "tail": last}
    if any(name != one.name for name, one in named.items()) or rows.shape[1:] != (BLOCK,):
        raise FileError("an index of another form")
    data = payload[frame.head_length :]
    return found, _listed(data[: rows.end], data[heads.start : heads.end], frame.offset)


def _listed(rows: bytes, heads: bytes, end: int) -> list[Found]:
    listed, position = [], 0
    for start in range(0, len(rows), BLOCK):
        frame = Frame.parse(rows[start : start + BLOCK])
        if frame.end > end:
            raise FileError("an index of frames beyond it")
        listed.append(_found(frame, heads[position : position + frame.head_length]))
        position += frame.head_length
    return listed


def _found(frame: Frame, head: bytes) -> Found:
    """The frame with its document, once the head is known to be whole."""
    if len(head) != frame.head_length or crc32(head) != frame.head_crc:
        raise FileError("a frame with a wrong checksum in its head")
    if frame.kind not in _TENSORS:
        return Found(frame, head, Document((), {}))
    document = decode_head(head, frame.length - frame.head_length)
    if _TENSORS[frame.kind] not in (None, len(document.tensors)):
        raise FileError("a frame with another number of tensors")
    return Found(frame, head, document)


def names_in(found: Found) -> set[str]:
    """What the frame calls its tensors; an index's own have no name in the recording."""
    if found.frame.kind not in (TENS, MANY):
        return set()
    return {one.name for one in found.document.tensors}


def _is_header(raw: bytes, offset: int) -> bool:
    if offset % BLOCK:
        return False
    try:
        return Frame.parse(raw).offset == offset
    except FileError:
        return False


_RANK_FILE = re.compile(r"rank-([0-9]{1,9})\.regard")


def rank_files(path: Path) -> dict[int, Path]:
    """The folder's recordings by rank, in order."""
    found: dict[int, Path] = {}
    try:
        for file in sorted(path.iterdir()):
            match = _RANK_FILE.fullmatch(file.name)
            if match and int(match[1]) in found:
                raise FileError(f"{shown(path)}: two files of rank {int(match[1])}; remove one")
            if match:
                found[int(match[1])] = file
    except FileError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{shown(path)}: cannot be opened ({reason})") from None
    if not found:
        raise FileError(f"{shown(path)}: a folder without rank-0000.regard; give a recording")
    return dict(sorted(found.items()))
