"""Every model type in a process that may die or hang without ending the run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from typing import Any

from regard.testing.families.examination import examine
from regard.testing.families.outcome import Outcome

_PROCESSES = 2
_SECONDS = 60.0  # of processor time for one model type, so that a busy machine fails none
_PATIENCE = 600.0  # seconds on the clock, for one that waits for something

_Examine = Callable[[Any], Outcome]


def outcomes(
    names: Iterable[Any],
    examine: _Examine = examine,
    *,
    processes: int = _PROCESSES,
    seconds: float = _SECONDS,
    patience: float = _PATIENCE,
) -> Iterator[Outcome]:
    """The outcomes of model types as they come in; a process is given one at a time."""
    left = [*names][::-1]
    workers = [_Worker(examine, seconds, patience) for _ in range(min(processes, len(left)))]
    try:
        for worker in workers:
            worker.give(left.pop())
        while busy := [worker for worker in workers if worker.is_busy]:
            wait([worker.pipe for worker in busy], timeout=min(patience, 1.0))
            yield from filter(None, (worker.result() for worker in busy))
            for worker in busy:
                if left and not worker.is_busy:
                    worker.give(left.pop())
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that is replaced when it dies or hangs."""

    def __init__(self, examine: _Examine, seconds: float, patience: float) -> None:
        self._examine, self._seconds, self._patience = examine, seconds, patience
        self._process: Any = None
        self.is_busy = False

    def give(self, name: Any) -> None:
        """Let it begin with another model type."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            given = (other, self._examine, self._seconds)
            self._process = context.Process(target=_work, args=given, daemon=True)
            self._process.start()
            other.close()  # so that the end of the process ends the pipe
        self._name, self._since, self.is_busy = name, time.monotonic(), True
        self.pipe.send(name)

    def result(self) -> Outcome | None:
        """The outcome, if there is one by now."""
        late = time.monotonic() - self._since > self._patience
        if not self.pipe.poll() and not late:
            return None
        self.is_busy = False
        try:
            if self.pipe.poll():
                found: Outcome = self.pipe.recv()
                return found
            said = f"no answer within {self._patience:g} s"
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            spent = status == -signal.SIGPROF
            said = f"the process ended with status {status}{' (out of time)' if spent else ''}"
        self.stop()
        return Outcome(str(self._name), "crashed", said)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.pipe.close()
            self._process = None


def _work(pipe: Any, examine: _Examine, seconds: float) -> None:
    """A process's life: names come in, outcomes go out; one that takes too long ends it."""
    import torch
    import transformers

    os.dup2(2, 1)  # some models print; standard output is the caller's table
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF, which nobody handles
        found = examine(name)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(found)
