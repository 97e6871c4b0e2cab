"""Runs one document's blocks, given as JSON on stdin; the first failure ends it with a message.

A script for blocks.py: python blocks share one namespace, so that a document reads as a session.
Commands run in the same interpreter, which has to import torch and transformers only once; those
that need a shell or serve until Ctrl-C are processes.
"""

from __future__ import annotations

import io
import json
import linecache
import runpy
import shlex
import signal
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch


def run_python(block: dict[str, Any], document: str, names: dict[str, Any]) -> str:
    """Run one block; what went wrong, or nothing."""
    # Padded, so that a traceback shows the document's own line numbers.
    source = "\n" * (block["line"] - 1) + block["body"]
    linecache.cache[document] = (len(source), None, source.splitlines(keepends=True), document)
    try:
        exec(compile(source, document, "exec"), names)
    except BaseException:  # noqa: BLE001 - a block that exits fails like one that raises
        return traceback.format_exc()
    return ""


def run_console(block: dict[str, Any], document: str) -> str:
    """Run the `regard` commands of one block; what went wrong, or nothing."""
    for command in block["commands"]:
        if not command.startswith("regard "):
            continue
        run = run_server if serves(command) else run_in_shell if "|" in command else run_here
        done = run(command)
        if done.returncode != block["exit_status"]:
            wanted = f"exit {done.returncode}, not {block['exit_status']}"
            return f"{document}:{block['line']}: `{command}`: {wanted}\n{done.stdout}{done.stderr}"
    return ""


def run_here(command: str) -> subprocess.CompletedProcess[str]:
    """As `python -m` runs it, in this process."""
    words = shlex.split(command)
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
        except BaseException:  # noqa: BLE001 - as python does
            traceback.print_exc()
            status = 1
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """As a shell runs it."""
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m {command}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True)


def serves(command: str) -> bool:
    """Whether the command runs until Ctrl-C."""
    return command.startswith(("regard view ", "regard play")) or command.endswith(" --web")


def run_server(command: str) -> subprocess.CompletedProcess[str]:
    """Until it says its address; then Ctrl-C."""
    words = [sys.executable, "-m", *shlex.split(command), "--no-open"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as child:
        assert child.stdout is not None
        said = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    status = child.returncode if said.startswith("http://127.0.0.1:") else 1
    return subprocess.CompletedProcess(words, status, said + out, err)


def main(document: str) -> int:
    """Every block in order, as an interpreter that was started in the folder runs it."""
    sys.path.append("")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in json.load(sys.stdin):
        if block["language"] == "python":
            wrong = run_python(block, document, names)
        else:
            wrong = run_console(block, document)
        if wrong:
            sys.stderr.write(wrong)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
