"""Run students' files one process each, under limits, from a server that has imported once.

The limits keep accidents away from the machine that grades: loops, memory, files, processes. They
are no sandbox against an attacker; for files of strangers use a container around the command.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

_FILES: Final = 64 << 20  # bytes a file may be written
_POLL: Final = 0.005
_JUDGE_SECONDS: Final = 120.0
_REFUSED: Final = {
    "os.fork": "another process", "os.forkpty": "another process", "os.exec": "another program",
    "os.posix_spawn": "another program", "os.system": "another program", "os.kill": "a signal",
    "subprocess.Popen": "another program", "socket.connect": "a network connection",
    "socket.bind": "a network connection", "os.killpg": "a signal",
}  # fmt: skip
_WRITES: Final = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.truncate",
                  "os.link", "os.symlink", "os.chmod", "os.chown")  # fmt: skip


def serve(job: dict[str, Any]) -> None:
    """Observe, then judge every file; the verdicts are written beside the job, INDEX.verdict."""
    if job["torch"]:
        _warm()
    folder = Path(job["folder"])
    waiting: list[tuple[int, str]] = [(at, "observe") for at in range(len(job["files"]))][::-1]
    running: dict[int, tuple[int, str, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < job["processes"]:
                at, stage = waiting.pop()
                seconds = job["seconds"] if stage == "observe" else _JUDGE_SECONDS
                running[_start(at, stage, job)] = (at, stage, time.monotonic() + seconds)
            ended = _ended(running)
            for pid, status, late in ended:
                at, stage, _ = running.pop(pid)
                if (folder / f"{at}.json").exists() and stage == "observe" and not late:
                    waiting.append((at, "judge"))
                elif not (folder / f"{at}.verdict").exists():
                    _give_up(folder, at, stage, status, late, job["seconds"])
            if not ended:
                time.sleep(_POLL)
    finally:
        for pid in running:
            _kill(pid)


def _warm() -> None:
    try:
        import torch
    except ImportError:  # each file says so itself, with its line
        return
    torch.set_num_threads(1)
    _ = torch.nn.functional.scaled_dot_product_attention


def _start(at: int, stage: str, job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        work: Callable[[int, dict[str, Any]], None] = _observe if stage == "observe" else _judge
        work(at, job)
        status = 0
    finally:
        os._exit(status)  # nothing of the server's runs in the child
    return 0


def _ended(running: dict[int, tuple[int, str, float]]) -> list[tuple[int, int, bool]]:
    found = []
    for pid, (_, _, deadline) in running.items():
        late = time.monotonic() > deadline
        if late:
            _kill(pid)
        done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
        if done:
            _kill(pid)  # what it left behind in its group
            found.append((pid, status, late))
    return found


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _give_up(folder: Path, at: int, stage: str, status: int, late: bool, seconds: float) -> None:
    if late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        problem = f"it did not finish within {seconds:g} seconds"
    elif os.WIFSIGNALED(status):
        problem = f"it crashed ({signal.Signals(os.WTERMSIG(status)).name})"
    else:
        problem = f"it ended the process (exit status {os.waitstatus_to_exitcode(status)})"
    if stage == "judge":
        problem = "its result could not be judged"
    (folder / f"{at}.verdict").write_text(json.dumps({"problem": problem}))


def _observe(at: int, job: dict[str, Any]) -> None:
    from regard.learn.programs.observation import save
    from regard.learn.programs.observe import observe

    folder = Path(job["folder"])
    home = folder / f"home{at}"
    home.mkdir()
    guard = _confined(home, job)
    seen = observe(Path(job["files"][at]), job["entry"])
    guard["on"] = False
    os.chdir(folder)
    save(seen, folder / str(at))


def _confined(home: Path, job: dict[str, Any]) -> dict[str, bool]:
    """Its own folder, no terminal, limits, and no other processes; off again by the value."""
    os.chdir(home)
    os.environ |= {"HOME": str(home), "TMPDIR": str(home), "MPLBACKEND": "Agg",
                   "MPLCONFIGDIR": str(home), "XDG_CACHE_HOME": str(home)}  # fmt: skip
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    seconds = int(job["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILES, _FILES))
    most = _virtual() + job["memory"]
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    guard = {"on": True}
    own = (str(home), os.devnull)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if not guard["on"]:
            return
        if event in _REFUSED:
            raise PermissionError(f"{_REFUSED[event]} is not allowed while grading")
        writes = event in _WRITES or (event == "open" and _writing(args))
        if writes and args and isinstance(args[0], str | bytes | os.PathLike):
            # Not Path.resolve, which opens links and so would come here again.
            path = os.path.normpath(Path.cwd() / os.fsdecode(args[0]))
            if not path.startswith(own) and "__pycache__" not in path:
                raise PermissionError("writing outside the working folder is not allowed")

    sys.addaudithook(watch)
    return guard


def _writing(args: tuple[Any, ...]) -> bool:
    mode, flags = (args[1] if len(args) > 1 else None), (args[2] if len(args) > 2 else 0)
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _virtual() -> int:
    """The address space in use, which the libraries alone make gigabytes."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 0


def _judge(at: int, job: dict[str, Any]) -> None:
    from regard.learn.programs.diagnose import judge
    from regard.learn.programs.observation import load

    folder = Path(job["folder"])
    seen = load(folder / str(at))
    document: dict[str, Any] = {"entry": seen.entry, "signature": seen.signature}
    ran = any(call.outs for call in seen.calls)
    if seen.problem and not ran:
        document["problem"] = seen.problem
    else:
        judged = judge(seen)
        document |= {
            "findings": [asdict(one) for one in judged.findings],
            "remarks": list(judged.remarks),
            "calls": sum(bool(call.outs) for call in seen.calls),
        }
    (folder / f"{at}.verdict").write_text(json.dumps(document))
