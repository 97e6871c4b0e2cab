"""Worlds of real processes that talk by gloo, started once per size and used by many tests.

    run(3, function, *args)        calls function(*args) on three ranks; their answers in rank order
    launched(3, function, *args)   the same, in ranks as torchrun starts them

`function` is a module-level function of a test file; inside it torch.distributed is initialised.
What it returns is pickled. Where a rank fails, its traceback is in the error that `run` raises;
where ranks do not come back in time, all are killed. Either way the next `run` gets fresh ones.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

from forked import context

__all__ = ["WORLDS", "close", "launched", "run"]

WORLDS = (1, 2, 3, 4)
_PATIENCE = 30.0  # seconds after which a rank gives up on another
_GRACE = 5.0  # seconds left to the others once one rank has failed

_worlds: dict[tuple[int, float], _World] = {}


def run(
    size: int,
    function: Callable[..., Any],
    *args: Any,
    dying: Sequence[int] = (),
    disturbed: bool = False,
    timeout: float = 120.0,
    patience: float = _PATIENCE,
) -> list[Any]:
    """What function(*args) returns on each rank.

    dying      ranks whose process is expected to end on the way; their answer is None
    disturbed  whether messages may be left on the wires: the next `run` gets fresh ranks
    timeout    seconds until every rank is killed
    patience   seconds of the process group's own timeout
    """
    name = (size, patience)
    if name not in _worlds:
        _worlds[name] = _World(size, patience)
    try:
        answers = _worlds[name].ask(function, args, set(dying), timeout)
    except BaseException:
        _worlds.pop(name).kill()
        raise
    if dying or disturbed:
        _worlds.pop(name).kill()
    return answers


def launched(size: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """`run` for what makes a process group of its own: ranks know who they are from torchrun's
    variables and are in no group yet. They are not used again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return run(size, _launched, function, args, port, disturbed=True)


def close() -> None:
    """End every world."""
    while _worlds:
        _worlds.popitem()[1].kill()


atexit.register(close)


class _World:
    """Ranks that wait for work."""

    def __init__(self, size: int, patience: float) -> None:
        self.folder = tempfile.mkdtemp(prefix="regard-world-")
        self.lines: list[Connection] = []
        self.ranks = []
        for rank in range(size):
            here, there = context.Pipe()
            given = (rank, size, self.folder, patience, there)
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            there.close()
            self.lines.append(here)
            self.ranks.append(process)

    def ask(
        self, function: Callable[..., Any], args: tuple[Any, ...], dying: set[int], timeout: float
    ) -> list[Any]:
        work = pickle.dumps((function, args))
        for line in self.lines:
            line.send_bytes(work)
        answers: dict[int, Any] = {}
        failures: dict[int, str] = {}
        until = time.monotonic() + timeout
        while len(answers) + len(failures) < len(self.lines):
            open_lines = [line for n, line in enumerate(self.lines) if n not in answers | failures]
            ready = wait(open_lines, max(0.0, until - time.monotonic()))
            if not ready:
                break
            for line in ready:
                rank = self.lines.index(line)
                self._hear(rank, answers, failures, dying)
                if rank in failures:
                    until = min(until, time.monotonic() + _GRACE)
        return self._judge(answers, failures, timeout)

    def _hear(
        self, rank: int, answers: dict[int, Any], failures: dict[int, str], dying: set[int]
    ) -> None:
        try:
            fine, said = pickle.loads(self.lines[rank].recv_bytes())
        except (EOFError, ConnectionError):
            self.ranks[rank].join(1.0)
            if rank in dying:
                answers[rank] = None
            else:
                failures[rank] = f"the process ended with code {self.ranks[rank].exitcode}"
            return
        if fine:
            answers[rank] = said
        else:
            failures[rank] = said

    def _judge(
        self, answers: dict[int, Any], failures: dict[int, str], timeout: float
    ) -> list[Any]:
        if failures:
            said = "\n".join(f"── rank {n} ──\n{text}" for n, text in sorted(failures.items()))
            raise AssertionError(f"{len(failures)} of {len(self.lines)} ranks failed\n{said}")
        silent = [n for n in range(len(self.lines)) if n not in answers]
        if silent:
            raise AssertionError(f"ranks {silent} did not come back within {timeout:.0f} s")
        return [answers[n] for n in range(len(self.lines))]

    def kill(self) -> None:
        for process in self.ranks:
            process.kill()
        for process in self.ranks:
            process.join(5.0)
        for line in self.lines:
            line.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _serve(rank: int, size: int, folder: str, patience: float, line: Connection) -> None:
    """One rank: join the others, then do as told until the line is closed."""
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "USE_LIBUV": "0"}
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(f"{folder}/store", size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=patience),
    )
    while True:
        try:
            work = line.recv_bytes()
        except (EOFError, ConnectionError):
            return
        line.send_bytes(_answer(work))


def _answer(work: bytes) -> bytes:
    try:
        function, args = pickle.loads(work)
        return pickle.dumps((True, function(*args)))
    except Exception:  # noqa: BLE001  whatever went wrong reaches the test
        return pickle.dumps((False, traceback.format_exc()))


def _launched(function: Callable[..., Any], args: tuple[Any, ...], port: int) -> Any:
    import torch.distributed as dist

    rank, size = str(dist.get_rank()), str(dist.get_world_size())
    dist.destroy_process_group()
    os.environ |= {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
        "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "tests",
    }  # fmt: skip
    return function(*args)
