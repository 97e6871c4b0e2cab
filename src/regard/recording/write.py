"""Writing a recording: frame after frame at the end of one file, by one writer."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import DTypeError, FileError, InputError
from regard.recording.append import Log
from regard.recording.document import DTYPES, Tensor, encode_head
from regard.recording.layout import MAX_HEAD, META, TENS, file_header
from regard.recording.source import Source, lock, shown

__all__ = ["Writer", "as_words", "check_facts", "check_name", "note_head"]

_INDEX_EVERY = 256_000_000  # bytes
_INDEX_SHARE = 16  # an index waits until it is at most this part of what came since
_LONG_RUN = 64_000  # bytes; shorter ones are quicker copied together than written apart
_MOST_RUNS = 1000  # one call of the system takes 1024 pieces
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


class Writer:
    """A new recording at `path`, open until `close()` or the end of the `with` block.

    Each `add` and `note` is in the file when it returns, so a process that dies loses at most the
    frame it was writing. An existing file is refused unless `overwrite` is true; then the new
    recording takes its place at once, and whoever reads the old one keeps it.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._guard = threading.Lock()
        self._names: set[str] = set()
        self._since_index = 0
        self._wait = _INDEX_EVERY
        self._log: Log | None = _create(self.path, overwrite)

    @classmethod
    def behind(cls, path: Path, log: Log, names: set[str]) -> Writer:
        """A writer of a recording that is there already, with tensors of these names."""
        made = cls.__new__(cls)
        made.path, made._guard, made._names = path, threading.Lock(), names
        made._since_index, made._wait, made._log = 0, _INDEX_EVERY, log
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
        given = np.asarray(array)
        data, kind = _as_runs(given, dtype)
        size = sum(map(len, data))
        head = _head([Tensor(check_name(name), kind, given.shape, 0, size)], metadata)
        with self._guard:
            if name in self._names:
                raise InputError(f"the name {name!r} is in the recording already; give another")
            self._append(TENS, head, *data)
            self._names.add(name)
            self._index_when_due()

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole recording; a later value of a key replaces an earlier one."""
        head = note_head(metadata)
        with self._guard:
            self._append(META, head)
            self._index_when_due()

    def close(self) -> None:
        """Write the index, make everything durable, let the file go. Again: nothing happens."""
        with self._guard:
            log, self._log = self._log, None
            if log is None:
                return
            try:
                log.append_index()
            finally:
                log.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FileError:
            if kind is None:  # else the first error is the one to tell
                raise

    def _append(self, kind: bytes, head: bytes, *data: memoryview) -> None:
        if self._log is None:
            raise InputError(f"{shown(self.path)}: this writer is closed; open a new one")
        before = self._log.end
        self._log.append(kind, head, *data)
        self._since_index += self._log.end - before

    def _index_when_due(self) -> None:
        if self._log is not None and self._since_index >= self._wait:
            size = self._log.append_index(wait=False)
            self._wait = max(_INDEX_EVERY, _INDEX_SHARE * size)
            self._since_index = 0


def _create(path: Path, overwrite: bool) -> Log:
    """A file of our own with the first header in it. What was there goes only once that is done."""
    name = shown(path)
    try:
        if overwrite:
            _refuse_live(path)
            descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=".regard-", suffix=".part")
            Path(made).chmod(0o666 & ~_umask())
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            descriptor, made = os.open(path, flags, 0o666), str(path)
    except FileExistsError:
        raise FileError(f"{name}: exists already; give another name, or overwrite=True") from None
    except FileError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{name}: cannot be created ({reason})") from None
    try:
        lock(descriptor, name)
        log = Log(descriptor, name, 0)
        log.write(file_header())
        if overwrite:
            Path(made).replace(path)
    except BaseException as error:
        os.close(descriptor)
        Path(made).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise FileError(f"{name}: cannot be created ({error.strerror})") from None
        raise
    return log


def _refuse_live(path: Path) -> None:
    """A recording that is being written may not be pulled away; anything else may go."""
    try:
        old = Source(path)
    except FileError:
        return
    is_live = old.is_live()
    old.close()
    if is_live:
        raise FileError(
            f"{shown(path)}: being written by another process; wait for it, or give another name"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
