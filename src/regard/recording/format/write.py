"""Writing a recording: frames are appended whole or not at all, to a new file or behind a finished
one, by one writer."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, count, repeat
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import DTypeError, FileError, InputError
from regard.files import check_regular, create_new, is_folder, real, reason, replace, shown
from regard.recording.format.frames import Catalogue, Source, lock, rank_files
from regard.recording.format.layout import (
    DTYPES,
    MANY,
    MAX_HEAD,
    META,
    TENS,
    Tensor,
    encode_head,
    file_header,
)
from regard.recording.format.log import Log, Unplaced

_INDEX_EVERY = 256_000_000  # bytes
_INDEX_SHARE = 16  # an index waits until it is at most this part of what came since
_LONG_RUN = 64_000  # bytes; shorter ones are quicker copied together than written apart
_MOST_RUNS = 1000  # one call of the system takes 1024 pieces
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


class Series(NamedTuple):
    """Tensors of one dtype that lie in an array one after another."""

    names: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    data: npt.NDArray[Any]  # all their numbers, in C order
    dtype: str | None = None

    def sizes(self, itemsize: int = 1) -> list[int]:
        """Bytes of each tensor, or how many numbers it has."""
        known = {shape: math.prod(shape) * itemsize for shape in set(self.shapes)}
        return [known[shape] for shape in self.shapes]

    def parts(self) -> list[npt.NDArray[Any]]:
        """Each tensor by itself."""
        ends = np.cumsum(self.sizes())
        pieces = np.split(self.data.reshape(-1), ends[:-1])
        return [one.reshape(shape) for one, shape in zip(pieces, self.shapes, strict=True)]


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
        return Unplaced.of(TENS, head, *data, names=(name,))

    def add_many(self, series: Sequence[Series], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors under new names, in one frame; the metadata is said of each of them."""
        self.append(self.prepare_many(series, metadata))

    @staticmethod
    def prepare_many(
        series: Sequence[Series], metadata: Mapping[str, str] | None = None
    ) -> Unplaced:
        """The first half of `add_many`, as `prepare` is that of `add`."""
        stored = stored_order(series)
        names: list[str] = []
        tensors: list[Tensor] = []
        end = 0
        for one, words, kind in stored:
            ends = list(accumulate(one.sizes(words.itemsize), initial=end))
            kinds = repeat(kind, len(one.names))
            tensors += map(Tensor, one.names, kinds, one.shapes, ends, ends[1:])
            names += one.names
            end = ends[-1]
        if end != sum(words.nbytes for _, words, _ in stored):
            raise InputError(f"tensors of {end} bytes in arrays of another size")
        for name in {"", "__metadata__"}.intersection(names):
            check_name(name)
        data = [words.reshape(-1).view(np.uint8).data for _, words, _ in stored]
        return Unplaced.of(MANY, _head(tensors, metadata), *data, names=tuple(names))

    def append(self, one: Unplaced) -> None:
        """What was prepared, behind all that is there."""
        with self._guard:
            log = self._opened()
            taken = next((name for name in one.names if name in log.frames), None)
            if taken is not None or len(set(one.names)) < len(one.names):
                name = one.names[0] if taken is None else taken
                raise InputError(f"the name {name!r} is in the recording already; give another")
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
            descriptor = create_new(real(path))
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
    target = real(path) if path.is_symlink() else path
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


def stored_order(series: Sequence[Series]) -> list[tuple[Series, npt.NDArray[Any], str]]:
    """The series as they lie in a frame, with their words and the format's name for them: those of
    larger items first, so that every tensor is aligned."""
    stored = [(one, *as_words(one.data, one.dtype)) for one in series]
    return sorted(stored, key=lambda found: -found[1].itemsize)


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
