"""Scripts in processes of their own that start at once: forked from one that has the imports.

    run(script, *words)                     a path, or source text as after `python -c`
    run(script, *words, interpret=True)     with TRITON_INTERPRET=1, which Triton reads on import
    run(script, *words, package=False)      other packages alone are there, nothing of regard

A process that starts with nothing takes two seconds to import torch, and as long again for Triton
and what the package needs of it. Each script still has modules of its own, argv, streams, folder
and environment, so that whatever it replaces in them stays with it. For scripts that are not about
the start of a process: what is imported when, signals, exit.

Every process of pytest keeps one parent of each kind; a parent ends with the pipe it reads.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["run"]

_KERNELS = (
    "triton", "regard.engine.api", "regard.testing", "regard.engine.backends.dense",
    "regard.engine.backends.cpu.sweeps", "regard.engine.backends.gpu.sweeps",
)  # fmt: skip
_INTERPRETED = (
    *_KERNELS, "torch._inductor", "each.test_brought", "each.test_definition",
    "each.test_gradients", "each.test_infinities", "each.test_stranger",
)  # fmt: skip
_OTHERS = (
    "numpy", "torch", "torch._dynamo", "rich.console", "typer",
    "transformers.models.llama.modeling_llama",
)  # fmt: skip


def run(
    script: Path | str,
    *words: str,
    interpret: bool = False,
    package: bool = True,
    input: str = "",
    cwd: Path | None = None,
    searched: str | None = None,
    timeout: float = 600,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run([python, script, *words], input=…, cwd=…, env=…)` gives, as text.
    `searched` stands first in sys.path instead of the script's folder."""
    parent = _parent(interpret, package)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").write_text(input)
        told = {"words": words, "folder": folder, "env": env, "timeout": timeout,
                "cwd": str(cwd or Path.cwd()), "searched": searched,
                "package": package}  # fmt: skip
        told |= {"path": str(script)} if isinstance(script, Path) else {"text": script}
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(json.dumps(told) + "\n")
        parent.stdin.flush()
        status = parent.stdout.readline()
        assert status, "the parent of warm processes ended"
        out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess([str(script), *words], int(status), out, err)


@cache
def _parent(interpret: bool, package: bool) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env |= {"OMP_NUM_THREADS": "1"} | ({"TRITON_INTERPRET": "1"} if interpret else {})
    names = (_INTERPRETED if interpret else _KERNELS) if package else _OTHERS
    command = [sys.executable, __file__, *names]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)


# ── the parent ───────────────────────────────────────────────────────────────────────────────


def _serve() -> None:
    for name in sys.argv[1:]:
        __import__(name)
    if "TRITON_INTERPRET" in os.environ:
        from engine.backends.gpu.hasten import hasten
        from engine.backends.gpu.interpreter import fix_products

        hasten()
        fix_products()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if not child:
            _child(told)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _child(told: dict[str, Any]) -> None:
    """Never returns; a script that takes too long is ended by the clock."""
    import signal

    signal.alarm(int(told["timeout"]))
    streams = {0: (f"{told['folder']}/in", os.O_RDONLY)}
    for number, name in ((1, "out"), (2, "err")):
        streams[number] = f"{told['folder']}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (path, flags) in streams.items():
        os.dup2(os.open(path, flags, 0o600), number)
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    status = 0
    try:
        _run(told)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as python does
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run(told: dict[str, Any]) -> None:
    here = sys.path.pop(0)
    if told["package"]:
        sys.path.append(here)  # scripts of ours find the tests' modules
    if "path" in told:
        sys.argv = [told["path"], *told["words"]]
        sys.path.insert(0, told["searched"] or str(Path(told["path"]).parent))
        runpy.run_path(told["path"], run_name="__main__")
    else:
        sys.argv = ["-c", *told["words"]]
        sys.path.insert(0, "")
        exec(compile(told["text"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    _serve()
