"""A pool of threads that takes the newest request first, and forgets those nobody waits for."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from queue import LifoQueue
from threading import Event, Thread
from typing import Any, Final, TypeVar

__all__ = ["GivenUpError", "Job", "Pool"]

_Made = TypeVar("_Made")
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
    """At most as many threads as cores. On a map that is moved, the newest tile is the one that
    is looked at."""

    def __init__(self, threads: int | None = None) -> None:
        self._jobs: LifoQueue[tuple[Future[Any], Callable[[], Any]] | None] = LifoQueue()
        count = threads or os.cpu_count() or 1
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(count)]
        for one in self._threads:
            one.start()

    def submit(self, make: Callable[[], _Made]) -> Future[_Made]:
        """Its answer, some time; a future that is cancelled before its turn is skipped."""
        future: Future[_Made] = Future()
        self._jobs.put((future, make))
        return future

    def close(self) -> None:
        """Let the threads end after what they are at; what waits is cancelled."""
        while not self._jobs.empty():
            waiting = self._jobs.get()
            if waiting is not None:
                waiting[0].cancel()
        for _ in self._threads:
            self._jobs.put(_END)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, make = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                made = make()
            except BaseException as error:  # noqa: BLE001  it belongs to whoever asked
                future.set_exception(error)
            else:
                future.set_result(made)
