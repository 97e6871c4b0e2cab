"""Processes that each load the model once and then do one task after another.

The parent hands out tasks and knows who has which. A worker that dies closes its end of the pipe:
the run then ends with an error that names it and its task. A parent that dies takes its workers
along. Ctrl-C is the parent's business alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from types import TracebackType
from typing import Any, Generic, TypeVar

from regard.errors import FileError, InputError, RegardError

_PATIENCE = 10  # seconds that a worker has to end when it is told to

_Tool = TypeVar("_Tool")  # what a worker makes once, and every task uses
_Answer = TypeVar("_Answer")
_Progress = Callable[[float], None]


@dataclass(frozen=True)
class Task(Generic[_Tool, _Answer]):
    """A function of a module, called in a worker as function(tool, given, advanced)."""

    name: str  # as errors tell it
    function: Callable[[_Tool, Any, _Progress], _Answer]
    given: Any


class _Worker:
    """One process, seen from the parent."""

    def __init__(self, number: int, make: Callable[[int], Any], threads: int) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would copy torch's threads half
        self.number = number
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_work, args=(theirs, make, number, threads), daemon=True, name=f"worker {number}"
        )
        with _deaf_to_interrupts():
            self.process.start()
        theirs.close()  # so that its death is seen as the end of the pipe

    def answer(self, task: str) -> Any:
        """The next thing it says; an error names the worker and what it was doing."""
        try:
            said = self.pipe.recv()
        except (EOFError, ConnectionError):
            raise RegardError(f"{task}: worker {self.number} {self._end()}") from None
        if isinstance(said, RegardError):
            raise _named(said, task)
        return said

    def _end(self) -> str:
        self.process.join(_PATIENCE)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"(process {self.process.pid}) was killed by {signal.Signals(-code).name}"
        return f"(process {self.process.pid}) ended with status {code}"

    def end(self) -> None:
        """Let it go, and wait until it has gone."""
        self.pipe.close()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Workers(Generic[_Tool]):
    """So many processes in a with block. `make(number)` is called once in each of them."""

    def __init__(self, count: int, make: Callable[[int], _Tool]) -> None:
        if count < 1:
            raise InputError(f"--jobs {count}: give a number of processes ≥ 1")
        self.count, self._make = count, make
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers[_Tool]:
        threads = max(cores() // self.count, 1)
        try:
            for number in range(self.count):
                self._workers.append(_Worker(number, self._make, threads))
            for worker in self._workers:
                worker.answer("loading the model")
        except BaseException:
            self._end(at_once=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._end(at_once=kind is not None)

    def _end(self, at_once: bool) -> None:
        if at_once:  # all before any is waited for: they may speak with one another
            for worker in self._workers:
                worker.process.terminate()
        for worker in self._workers:
            worker.end()

    def run(
        self,
        tasks: Iterable[Task[_Tool, _Answer]],
        advanced: _Progress = lambda _: None,
    ) -> Iterator[tuple[Task[_Tool, _Answer], _Answer]]:
        """Each task with its answer, as they are done; `advanced` hears of every step of any."""
        waiting, idle = iter(tasks), list(self._workers)
        busy: dict[Any, tuple[_Worker, Task[_Tool, _Answer]]] = {}
        while True:
            while idle and (task := next(waiting, None)) is not None:
                worker = idle.pop(0)
                self._hand(worker, task)
                busy[worker.pipe] = worker, task
            if not busy:
                return
            for pipe in connection.wait(list(busy)):
                worker, task = busy[pipe]
                said = worker.answer(task.name)
                if isinstance(said, _Advance):
                    advanced(said.size)
                    continue
                del busy[pipe]
                idle.append(worker)
                yield task, said.value

    def _hand(self, worker: _Worker, task: Task[_Tool, _Answer]) -> None:
        try:
            worker.pipe.send((task.function, task.given))
        except ConnectionError:
            worker.answer(task.name)  # it is gone, and this says how


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ── in the worker ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Advance:
    size: float


@dataclass(frozen=True)
class _Done:
    value: Any


def _work(
    pipe: connection.Connection, make: Callable[[int], Any], number: int, threads: int
) -> None:
    """Make the tool, say so, then task after task until the pipe ends."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # this process is ours: all of them together are to use the machine once
    torch.set_num_threads(min(torch.get_num_threads(), threads))
    try:
        tool = make(number)
        pipe.send(_Done(None))
        while True:
            try:
                function, given = pipe.recv()
            except EOFError:
                return
            pipe.send(_Done(function(tool, given, lambda size: pipe.send(_Advance(size)))))
    except RegardError as error:
        pipe.send(error)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """What is started here does not hear Ctrl-C, which a terminal sends to all processes at once;
    this process hears of it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the first process and unblocks it all
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _named(error: RegardError, task: str) -> RegardError:
    """The error with what was being done in front, and the exit status it had."""
    for kind in (FileError, InputError):
        if isinstance(error, kind):
            return kind(f"{task}: {error}")
    return RegardError(f"{task}: {error}")
