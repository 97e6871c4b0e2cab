"""Writing a recording: frames are appended whole or not at all, to a new file or behind a finished
one, by one writer."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from regard.errors import DTypeError, FileError, InputError
from regard.files import check_regular, create_new, is_folder, reason, replace, shown
from regard.recording.format.frames import (
    Catalogue,
    Source,
    index_payload,
    lock,
    names_in,
    rank_files,
)
from regard.recording.format.layout import (
    BLOCK,
    DTYPES,
    INDX,
    MAX_HEAD,
    MAX_INDEX,
    META,
    TENS,
    Frame,
    Tensor,
    encode_head,
    file_header,
    padding,
)


class Unplaced(NamedTuple):
    """A frame before it has a place in a file; whatever depends on its bytes alone is known."""

    kind: bytes
    head: bytes
    data: tuple[bytes | memoryview, ...]
    head_crc: int
    crc: int
    name: str | None  # of its tensor

    @classmethod
    def of(
        cls, kind: bytes, head: bytes, *data: bytes | memoryview, name: str | None = None
    ) -> Unplaced:
        """With its checksums, which is what takes long."""
        head_crc = crc = crc32(head)
        for part in data:
            crc = crc32(part, crc)
        return cls(kind, head, data, head_crc, crc, name)

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
    """A descriptor, and the frames of its file by the names of their tensors; those without one
    by their offsets.

    The file may hold more than is noted: a signal can end `append` between any two steps. A frame
    counts once it is noted, in one step, and where the next one begins follows from the notes. So
    what was written without being noted is cut off before the next frame.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self.frames: dict[Hashable, Noted] = {}
        self._syncing: threading.Thread | None = None
        self._asked = BLOCK  # how much of the file somebody was asked to sync
        self._trouble: OSError | None = None  # that the thread met

    @classmethod
    def behind(cls, source: Source, there: Catalogue) -> Log:
        """Of a file that holds these frames."""
        log = cls(source.file.fileno(), source.name)
        for one in there.frames:
            name = next(iter(names_in(one)), one.frame.offset)
            log.frames[name] = Noted(one.frame.pack(), one.head, one.frame.end)
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
        noted = Noted(frame.pack(), one.head, frame.end)
        self.write(offset, noted.header, one.head, *one.data, bytes(padding(frame.length)))
        self.frames[offset if one.name is None else one.name] = noted

    def append_index(self, wait: bool = True) -> int:
        """An index of everything so far, made durable with all before it; its size in bytes.
        Without waiting for the disk, more can be written meanwhile."""
        listed = self.frames.values()
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
        try:
            if os.fstat(self.descriptor).st_size > offset:
                os.ftruncate(self.descriptor, offset)
            os.lseek(self.descriptor, offset, os.SEEK_SET)
            while rest:
                rest = _behind(rest, _write_some(self.descriptor, rest))
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


_SYNC_EVERY = 64_000_000  # bytes
_INDEX_EVERY = 256_000_000  # bytes
_INDEX_SHARE = 16  # an index waits until it is at most this part of what came since
_LONG_RUN = 64_000  # bytes; shorter ones are quicker copied together than written apart
_MOST_RUNS = 1000  # one call of the system takes 1024 pieces
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


class Writer:
    """A new recording at `path`, open until `close()` or the end of the `with` block.

    Each `add` and `note` is in the file when it returns, so a process that dies loses at most the
    frame it was writing. An existing file is refused unless `overwrite` is true; then the new
    recording is written beside it, as NAME.partial, and takes its place when it is closed. After
    an error inside the `with` block, or `abandon()`, the old file stays, and what was written
    stays beside it. `path` is where the recording is now.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._target = Path(path)  # where the recording is when it is closed
        self._guard = threading.Lock()
        self._indexed = 0  # how much of the file the last index lists
        self._wait = _INDEX_EVERY
        self._log: Log | None
        self._log, self.path = _create(self._target, overwrite)

    @classmethod
    def behind(cls, path: Path, log: Log) -> Writer:
        """A writer of a recording that is there already."""
        made = cls.__new__(cls)
        made.path = made._target = path
        made._guard, made._log = threading.Lock(), log
        made._indexed, made._wait = log.end, _INDEX_EVERY
        return made

    def add(
        self,
        name: str,
        array: npt.ArrayLike,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor under a new name. `dtype="BF16"` takes the 16-bit words of a bf16 tensor."""
        self.append(self.prepare(name, array, metadata, dtype=dtype))

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole recording; a later value of a key replaces an earlier one."""
        self.append(Unplaced.of(META, note_head(metadata)))

    @staticmethod
    def prepare(
        name: str,
        array: npt.ArrayLike,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> Unplaced:
        """The first half of `add`, which touches no file: several threads may each prepare some.
        The array must not change until `append`, the second half."""
        given = np.asarray(array)
        data, kind = _as_runs(given, dtype)
        size = sum(map(len, data))
        head = _head([Tensor(check_name(name), kind, given.shape, 0, size)], metadata)
        return Unplaced.of(TENS, head, *data, name=name)

    def append(self, one: Unplaced) -> None:
        """What was prepared, behind all that is there."""
        with self._guard:
            log = self._opened()
            if one.name in log.frames:
                raise InputError(f"the name {one.name!r} is in the recording already; give another")
            log.append(one)
            self._index_when_due(log)

    def close(self) -> None:
        """Write the index, make everything durable, take the place of an older file, let the file
        go. Again: nothing happens."""
        with self._guard:
            log = self._log
            if log is None:
                return
            try:
                log.append_index()
                if self.path != self._target:
                    self._take_place()
            finally:
                self._log = None
                log.close()

    def abandon(self, error: BaseException | None = None) -> None:
        """What is written is not whole: closed, it stays beside the older file. A note on the
        error says so."""
        if error is not None and self.path != self._target:
            error.add_note(
                f"what was recorded until then is in {shown(self.path)}; {shown(self._target)} is "
                "as it was"
            )
        self._target = self.path

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon(error)
        try:
            self.close()
        except FileError:
            if kind is None:  # else the first error is the one to tell
                raise

    def _take_place(self) -> None:
        try:
            replace(self.path, self._target)
        except OSError as error:
            raise FileError(
                f"{shown(self._target)}: cannot be replaced ({reason(error)}); the recording is in "
                f"{shown(self.path)}"
            ) from None
        self.path = self._target

    def _opened(self) -> Log:
        if self._log is None:
            raise InputError(f"{shown(self.path)}: this writer is closed; open a new one")
        return self._log

    def _index_when_due(self, log: Log) -> None:
        if log.end - self._indexed >= self._wait:
            size = log.append_index(wait=False)
            self._wait = max(_INDEX_EVERY, _INDEX_SHARE * size)
            self._indexed = log.end
        log.keep_syncing()


def _create(path: Path, overwrite: bool) -> tuple[Log, Path]:
    """A file of our own with the first header in it, and its name: the path itself where that is
    free, else one beside it."""
    name, made = shown(path), path
    try:
        try:
            descriptor = create_new(Path(os.path.realpath(path)))
        except FileExistsError:
            if not overwrite:
                raise
            _check_replaceable(path)
            descriptor, made = _beside(path)
    except FileExistsError:
        raise FileError(f"{name}: exists already; give another name, or overwrite=True") from None
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{name}: cannot be created ({reason(error)})") from None
    try:
        lock(descriptor, name)
        log = Log(descriptor, shown(made))
        log.write(0, file_header())
    except BaseException as error:
        os.close(descriptor)
        made.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise FileError(f"{name}: cannot be created ({error.strerror})") from None
        raise
    return log, made


def _beside(path: Path) -> tuple[int, Path]:
    """A new file in the folder of the one that is to be replaced: run.regard.partial, or with a
    number where an earlier run left one."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    for number in count(1):
        name = f"{target.name}.partial{'' if number == 1 else number}"
        with suppress(FileExistsError):
            return create_new(target.with_name(name)), target.with_name(name)
    raise AssertionError  # count never ends


def _check_replaceable(path: Path) -> None:
    """FileError where the path names no regular file, or a recording that is being written."""
    check_regular(path)
    try:
        old = Source(path)
    except FileError:
        return  # any other file may go
    is_live = old.is_live()
    old.close()
    if is_live:
        raise FileError(
            f"{shown(path)}: being written by another process; wait for it, or give another name"
        )


def as_words(array: npt.ArrayLike, dtype: str | None) -> tuple[npt.NDArray[Any], str]:
    """The array as it is stored, C order and little-endian, and the format's name for it."""
    given = np.asarray(array)
    words = np.asarray(given, dtype=given.dtype.newbyteorder("<"), order="C")
    kind = _NAMES.get(words.dtype)
    if dtype == "BF16" and kind == "U16":
        return words, dtype
    if kind is None or dtype not in (None, kind):
        raise DTypeError(
            f"an array of {given.dtype} cannot be recorded{f' as {dtype}' if dtype else ''}; "
            f"numpy arrays of {', '.join(sorted(_NAMES.values()))} can, and uint16 as BF16"
        )
    return words, kind


def _as_runs(array: npt.NDArray[Any], dtype: str | None) -> tuple[list[memoryview], str]:
    """The bytes as they are stored, in the runs in which they lie where those are long: a slice of
    the second axis is not copied."""
    rows = [array]
    if array.ndim > 1 and not array.flags.c_contiguous and 0 < len(array) <= _MOST_RUNS:
        first = array[0]
        rows = list(array) if first.flags.c_contiguous and first.nbytes >= _LONG_RUN else rows
    words = [as_words(row, dtype) for row in rows]
    return [one.reshape(-1).view(np.uint8).data for one, _ in words], words[0][1]


def check_name(name: str) -> str:
    """The name, or InputError where it cannot name a tensor."""
    if not isinstance(name, str) or name in ("", "__metadata__"):
        raise InputError(f"{name!r} cannot name a tensor; give a text such as 'L5/lse'")
    return name


def check_facts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of the metadata, or DTypeError where it is not text to text."""
    facts = dict(metadata or {})
    wrong = [k for k, v in facts.items() if not (isinstance(k, str) and isinstance(v, str))]
    if wrong:
        raise DTypeError(f"metadata {wrong[0]!r} is not text to text; give str(value)")
    return facts


def note_head(metadata: Mapping[str, str]) -> bytes:
    """The head of a frame of notes."""
    return _head([], metadata)


def _head(tensors: list[Tensor], metadata: Mapping[str, str] | None) -> bytes:
    try:
        head = encode_head(tensors, check_facts(metadata))
    except UnicodeEncodeError:
        raise InputError("a name or metadata is not Unicode text; remove lone surrogates") from None
    if len(head) > MAX_HEAD:
        raise InputError(
            f"metadata of {len(head)} bytes; a frame takes {MAX_HEAD}: add a U8 tensor instead"
        )
    return head


def annotate(path: str | os.PathLike[str], notes: Mapping[str, str]) -> None:
    """Append notes and a new index; no byte that is there is touched. Of a folder of ranks the
    lowest takes them: its word counts."""
    given = Path(path)
    file = next(iter(rank_files(given).values())) if is_folder(given) else given
    head = note_head(notes)
    source = Source(file, writable=True)
    try:
        lock(source.file.fileno(), source.name)
        log = end_of(source)
        log.append(Unplaced.of(META, head))
        log.append_index()
    finally:
        source.close()


def end_of(source: Source) -> Log:
    """Where to go on; FileError where something behind it would be written over."""
    frames = Catalogue(source)
    if not frames.load_index():
        frames.walk()
    if frames.damage or frames.end != source.size():
        raise FileError(
            f"{source.name}: damaged, so nothing is added to it; "
            "`regard verify --repair` cuts off a torn tail"
        )
    return Log.behind(source, frames)


def extend(path: str | os.PathLike[str]) -> Writer:
    """A writer that goes on where the last one stopped; no byte that is there is touched."""
    source = Source(Path(path), writable=True)
    try:
        lock(source.file.fileno(), source.name)
        log = end_of(source)
        log.descriptor = os.dup(source.file.fileno())  # the lock is the file's: both hold it
    finally:
        source.close()
    return Writer.behind(Path(path), log)
