"""Threads that take the newest request first, and forget those nobody waits for.

Work goes by lanes, each with threads and a queue of its own, so that the quick never waits for the
slow: what is only read is answered while every core computes tiles, and findings, which may take
minutes on a long prompt, hold one thread however often they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from queue import LifoQueue
from threading import Event, Thread
from typing import Any, Final, Literal, TypeAlias, TypeVar

# what is read, or a few cells; what is computed from many; what takes long, and is made once
Lane: TypeAlias = Literal["quick", "tiles", "long"]

_Made = TypeVar("_Made")
_Queue: TypeAlias = "LifoQueue[tuple[Future[Any], Callable[[], Any]] | None]"
_END: Final = None


class GivenUpError(Exception):
    """Nobody waits for the answer any more."""


class Job:
    """What a piece of work is told: whether to go on."""

    def __init__(self) -> None:
        self._over = Event()

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._over.set()

    def go_on(self) -> None:
        """GivenUpError where nobody waits any more."""
        if self._over.is_set():
            raise GivenUpError


class Pool:
    """As many threads as cores for tiles, two for what is quick and one for what is long. On a map
    that is moved, the newest tile is the one that is looked at."""

    def __init__(self, threads: int | None = None) -> None:
        counts: dict[Lane, int] = {"quick": 2, "tiles": threads or os.cpu_count() or 1, "long": 1}
        self._lanes = {lane: _Lane(count) for lane, count in counts.items()}

    def submit(self, make: Callable[[], _Made], lane: Lane = "tiles") -> Future[_Made]:
        """Its answer, some time; a future that is cancelled before its turn is skipped."""
        future: Future[_Made] = Future()
        self._lanes[lane].jobs.put((future, make))
        return future

    def close(self) -> None:
        """Let the threads end after what they are at; what waits is cancelled."""
        for lane in self._lanes.values():
            lane.close()


class _Lane:
    """Some threads, and what waits for them."""

    def __init__(self, threads: int) -> None:
        self.jobs: _Queue = LifoQueue()
        self._threads = [
            Thread(target=_work, args=(self.jobs,), daemon=True) for _ in range(threads)
        ]
        for one in self._threads:
            one.start()

    def close(self) -> None:
        while not self.jobs.empty():
            waiting = self.jobs.get()
            if waiting is not None:
                waiting[0].cancel()
        for _ in self._threads:
            self.jobs.put(_END)


def _work(jobs: _Queue) -> None:
    while (job := jobs.get()) is not None:
        future, make = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001  it belongs to whoever asked
            future.set_exception(error)
        else:
            future.set_result(made)
