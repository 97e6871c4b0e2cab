"""The command typed in a process of its own, for signals: forked from one that has its imports.

process = typed(folder, words, prepare)     starts it in a folder; `prepare` runs there before
ended(process, folder)                      status, stdout, stderr, once it has ended
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

from forked import context

__all__ = ["ended", "forked_workers", "typed", "until"]


def typed(folder: Path, words: Sequence[object], prepare: Callable[[], None]) -> BaseProcess:
    """The running process; what it writes is kept in files beside `folder`."""
    process = context.Process(target=_type, args=(folder, [*map(str, words)], prepare))
    process.start()
    return process


def _type(folder: Path, words: list[str], prepare: Callable[[], None]) -> None:
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    os.chdir(folder)
    sys.argv = ["regard", *words]
    prepare()
    from regard.cli import main

    main()


def ended(process: BaseProcess, folder: Path) -> tuple[int | None, str, str]:
    """Waits for the end."""
    process.join(300)
    out, err = (Path(f"{folder}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
    return process.exitcode, out, err


def forked_workers() -> None:
    """Workers of the process are forked too, and wait a little for every answer; their numbers go
    into the file `workers`."""
    import regard.recorder.jobs as jobs

    jobs.multiprocessing.get_context = lambda _: context  # type: ignore[assignment, misc]
    wait = jobs.connection.wait

    def slowly(*given: Any) -> Any:
        time.sleep(0.02)
        return wait(*given)

    jobs.connection.wait = slowly

    def watch() -> None:
        until(lambda: len(multiprocessing.active_children()) == 2)
        pids = [str(child.pid) for child in multiprocessing.active_children()]
        Path("workers.part").write_text(" ".join(pids))
        Path("workers.part").rename("workers")

    Thread(target=watch, daemon=True).start()


def until(holds: Callable[[], object], seconds: float = 300) -> bool:
    """Waits for it; whether it came to hold."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.005)
    return bool(held)
