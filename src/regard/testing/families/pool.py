"""Every model type in a process that may die or hang without ending the run."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from regard.testing.families.outcome import Outcome

__all__ = ["PROCESSES", "SECONDS", "outcomes"]

PROCESSES = 2
SECONDS = 180.0  # for one model type


def outcomes(names: Iterable[str], processes: int = PROCESSES) -> Iterator[Outcome]:
    """The outcomes as they come in."""
    left = list(reversed(list(names)))
    workers = [_Worker() for _ in range(min(processes, len(left)))]
    try:
        for worker in workers:
            worker.give(left.pop())
        while busy := [one for one in workers if one.name is not None]:
            wait([one.pipe for one in busy], timeout=1.0)
            for worker in busy:
                if (found := worker.result()) is not None:
                    yield found
                    if left:
                        worker.give(left.pop())
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that is given one name at a time, and is replaced when it dies or hangs."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def give(self, name: str) -> None:
        self.name, self._since = name, time.monotonic()
        self.pipe.send(name)

    def result(self) -> Outcome | None:
        """The outcome if there is one by now."""
        assert self.name is not None
        said = None
        try:
            found = self.pipe.recv() if self.pipe.poll() else None
        except EOFError:
            self._process.join()
            found, said = None, f"the process ended with status {self._process.exitcode}"
        if found is None and said is None and time.monotonic() - self._since > SECONDS:
            said = f"no answer within {SECONDS:.0f} s"
        if said is not None:
            self.stop()
            found = Outcome(self.name, "crashed", said)
            self._start()
        if found is not None:
            self.name = None
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Connection[Any, Any]) -> None:
    """A worker's life: a name comes in, an outcome goes out."""
    import torch
    import transformers

    from regard.testing.families.examine import examine

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(examine(name))
