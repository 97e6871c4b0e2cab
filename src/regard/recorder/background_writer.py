"""What goes on while the model does: copies from a GPU to its host, and writing to the file.

A GPU makes numbers faster than a host can checksum and write them. At once, the two take the longer
of their times instead of the sum: one thread writes to the file, in order, what a few others have
made frames of. A process that dies loses what had not been written yet, at most `ROOM` bytes; all
before it is whole, as always.

Copies go by way of memory that is kept for them, since fresh pages cost more than the copy itself:
torch keeps pinned ones and gives them out again when the last array over them is gone. From there
the GPU copies while its host goes on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.recorder.jobs import cores
from regard.recording import Writer
from regard.recording.format.log import Unplaced
from regard.recording.format.write import Series

ROOM = 512_000_000  # bytes that may wait
_LARGE = 1_000_000  # bytes of a tensor that is worth another thread
# A checksum is computed at 1 to 3 GB/s and written at 2 to 3, so that a few threads are ahead of
# the file; one core is left to whoever drives the GPU.
_MOST_THREADS = 4
_FRAME = 448  # bytes of a file besides the numbers of a tensor or the text of a note, about
_NAMED = 160  # those of each tensor in a frame of many: in its head and again in the index


class Store(Protocol):
    """Where a recording goes: a file's Writer, or memory."""

    def add(
        self,
        name: str,
        array: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor."""
        ...

    def add_many(self, series: Sequence[Series], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors in one frame."""
        ...

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole."""
        ...

    def close(self) -> None:
        """No more."""
        ...


class CountingStore:
    """A store that counts the bytes which went into it; who made the store closes it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.spent = 0

    def add(
        self,
        name: str,
        array: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor."""
        self._store.add(name, array, metadata, dtype=dtype)
        self.spent += int(array.nbytes) + _FRAME

    def add_many(self, series: Sequence[Series], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors in one frame."""
        self._store.add_many(series, metadata)
        self.spent += _FRAME + sum(one.data.nbytes + _NAMED * len(one.names) for one in series)

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole."""
        self._store.note(metadata)
        self.spent += _FRAME + sum(map(len, metadata.values()))

    def close(self) -> None:
        """Nothing: see above."""


class _PendingWrite(NamedTuple):
    write: Callable[[], None]
    ahead: Future[Unplaced] | None = None  # what `write` waits for


class BackgroundWriter:
    """Takes what a store takes, in the same order. What is added must not change afterwards.

    An error of a thread is raised by the next call; whatever came behind it is not written.
    """

    def __init__(self, store: Store, room: int = ROOM) -> None:
        self._store, self._room = store, room
        self._waiting: deque[tuple[_PendingWrite, int]] = deque()
        self._held = 0  # bytes, of those that wait and of the one being written
        self._error: BaseException | None = None
        self._ending = False
        self._changed = threading.Condition()
        # threads that start when there is something for them to do
        self._pool = ThreadPoolExecutor(max(min(_MOST_THREADS, cores() - 1), 1), "regard-checksum")
        # a daemon: an interpreter that ends in an error does not wait for it
        self._thread = threading.Thread(target=self._work, name="regard-writer", daemon=True)
        self._thread.start()

    def add(
        self,
        name: str,
        array: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        dtype: str | None = None,
    ) -> None:
        """One tensor, as soon as there is room."""
        store, size = self._store, int(array.nbytes)

        def begin() -> _PendingWrite:
            if size < _LARGE or not isinstance(store, Writer):
                return _PendingWrite(partial(store.add, name, array, metadata, dtype=dtype))
            ahead = self._pool.submit(store.prepare, name, array, metadata, dtype=dtype)
            return _PendingWrite(lambda: store.append(ahead.result()), ahead)

        self._put(begin, size)

    def add_many(self, series: Sequence[Series], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors in one frame, as soon as there is room."""
        store, size = self._store, sum(int(one.data.nbytes) for one in series)

        def begin() -> _PendingWrite:
            if not isinstance(store, Writer):
                return _PendingWrite(partial(store.add_many, series, metadata))
            ahead = self._pool.submit(store.prepare_many, series, metadata)
            return _PendingWrite(lambda: store.append(ahead.result()), ahead)

        self._put(begin, size)

    def note(self, metadata: Mapping[str, str]) -> None:
        """Facts about the whole."""
        task = _PendingWrite(partial(self._store.note, dict(metadata)))
        self._put(lambda: task, 0)

    def flush(self) -> None:
        """Return when everything so far is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._is_idle())
            self._complain()

    def close(self) -> None:
        """Write what waits, then close the store. Again: nothing happens."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()
        self._pool.shutdown()
        try:
            with self._changed:
                self._complain()
        finally:
            self._store.close()

    def _is_idle(self) -> bool:
        return not self._waiting and self._held == 0

    def _has_room(self, size: int) -> bool:
        """Whatever its size, something fits when nothing else waits."""
        return self._error is not None or self._is_idle() or self._held + size <= self._room

    def _complain(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _put(self, begin: Callable[[], _PendingWrite], size: int) -> None:
        size += 1  # so that a note counts as something to wait for
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size))
            self._complain()
            self._waiting.append((begin(), size))
            self._held += size
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._ending)
                if not self._waiting:
                    return
                task, size = self._waiting.popleft()
            try:
                task.write()
            except BaseException as error:  # noqa: BLE001 - raised by the next call
                self._fail(error)
                continue
            finally:
                del task  # with the memory of its array
            with self._changed:
                self._held = max(self._held - size, 0)
                self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            for task, _ in self._waiting:
                if task.ahead is not None:
                    task.ahead.cancel()
            self._error, self._held = error, 0
            self._waiting.clear()
            self._changed.notify_all()


# ── from a GPU to its host ─────────────────────────────────────────────────────────────────────


def bring(tensors: Mapping[str, Tensor]) -> Callable[[], dict[str, NDArray[Any]]]:
    """Tensors without gradients as arrays. From a GPU the copies begin now, and whoever calls what
    is returned waits for them; on the host the arrays are the tensors themselves."""
    copies: dict[str, Tensor] = {}
    gpus: set[torch.device] = set()
    for name, tensor in tensors.items():
        device = tensor.device
        if device.type == "cuda":
            gpus.add(device)
            there = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
            copies[name] = there.copy_(tensor.contiguous(), non_blocking=True)
        else:
            copies[name] = tensor if device.type == "cpu" else tensor.cpu()
    # behind the copies, which run in the current stream of the GPU they come from
    done = [torch.cuda.current_stream(gpu).record_event() for gpu in gpus]

    def arrived() -> dict[str, NDArray[Any]]:
        for event in done:
            event.synchronize()
        return {name: copy.numpy() for name, copy in copies.items()}

    return arrived


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A host's tensor on a device; a GPU does not have to stop for it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
