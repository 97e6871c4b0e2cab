"""The code blocks of the documents: parsed and checked here, and run in a fresh process.

```python             runs; blocks of one document share their names, in order
```python no-run      does not run; its first line is a comment that says why
```python needs=x     runs where the package x is installed, alone: it shares no names
```console            `$ regard …` lines run and must exit 0; `$ make x` names a real target
```console exit=1     they must exit 1

As a script, `blocks.py DOCUMENT [PACKAGE]` runs a document's blocks, or those that need a package,
in the current folder; the first failure ends it with a message. Commands run in the same
interpreter, which has to import torch and transformers only once; servers are forked from it.
"""

from __future__ import annotations

import io
import linecache
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LEFT_ALONE = ("make", "pip", "git", "cd")  # they change the machine, not the document
USAGE_WITHIN = 40
NO_RUN_AT_MOST = 6


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int  # of its first line of code
    language: str
    flags: tuple[str, ...]
    body: str

    @property
    def runs(self) -> bool:
        alone = "no-run" in self.flags or self.needs
        return self.language in ("python", "console") and not alone

    @property
    def needs(self) -> str:
        """The package without which it does not run."""
        return next((f.removeprefix("needs=") for f in self.flags if f[:6] == "needs="), "")

    @property
    def exit_status(self) -> int:
        return next((int(f.removeprefix("exit=")) for f in self.flags if f[:5] == "exit="), 0)

    @property
    def commands(self) -> list[str]:
        """The lines after `$`, those that end in a backslash joined with the next."""
        joined = self.body.replace("\\\n", " ")
        return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]


def documents(root: Path) -> list[Path]:
    """README.md, CONTRIBUTING.md and every page below docs/."""
    first = (root / "README.md", root / "CONTRIBUTING.md")
    return [path for path in (*first, *sorted(root.glob("docs/**/*.md"))) if path.exists()]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document."""
    parsed = []
    for match in FENCE.finditer(text):
        language, *flags = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 2
        parsed.append(Block(line, language, tuple(flags), match["body"]))
    return parsed


def chosen(path: Path, needs: str = "") -> list[Block]:
    """The blocks of a document that run, or those that need a package."""
    every = blocks(path.read_text(encoding="utf-8"))
    return [block for block in every if (block.needs == needs if needs else block.runs)]


def needed(root: Path) -> dict[str, list[Path]]:
    """The packages that blocks need, with the documents that hold such blocks."""
    holders: dict[str, list[Path]] = {}
    for path in documents(root):
        for name in dict.fromkeys(b.needs for b in blocks(path.read_text("utf-8")) if b.needs):
            holders.setdefault(name, []).append(path)
    return holders


def unsound(root: Path) -> list[str]:
    """What can be seen without running: late usage, silent no-run, unknown commands and targets."""
    wrong, not_run = [], 0
    makefile = root / "Makefile"
    rules = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
    targets = set(re.findall(r"^([\w-]+):", rules, re.MULTILINE))
    for path in documents(root):
        for block in blocks(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}:{block.line}"
            not_run += "no-run" in block.flags
            if "no-run" in block.flags and not re.match(r"\s*# *\w", block.body):
                wrong.append(f"{where}: a no-run block begins with a comment that says why")
            wrong += [f"{where}: {w}" for c in block.commands for w in _unsound_command(c, targets)]
    if not_run > NO_RUN_AT_MOST:
        wrong.append(f"{not_run} blocks are not run; at most {NO_RUN_AT_MOST}")
    used = (block.line for block in chosen(root / "README.md"))
    if next(used, USAGE_WITHIN + 1) > USAGE_WITHIN:
        wrong.append(f"README.md shows no usage within its first {USAGE_WITHIN} lines")
    return wrong


def _unsound_command(command: str, targets: set[str]) -> list[str]:
    program, *rest = shlex.split(command) or [""]
    if program == "make":
        wanted = [word for word in rest if "=" not in word and not word.startswith("-")]
        return [f"the Makefile has no target {word}" for word in wanted if word not in targets]
    known = ("regard", *LEFT_ALONE)
    return [] if program in known else [f"`{program}` is not run here; one of {', '.join(known)}"]


def failures(path: Path, package_root: Path, workplace: Path, needs: str = "") -> list[str]:
    """Run one document's blocks in order, in an empty folder, or those that need one package; what
    went wrong, by line."""
    import warm  # of the tests; the script has no need of it

    if not chosen(path, needs):
        return []
    for name in ("examples", "bench"):  # documents may speak of what a clone has
        folder = package_root.parent / name
        if folder.is_dir() and not (workplace / name).exists():
            (workplace / name).symlink_to(folder)
    searched = os.pathsep.join([str(package_root), os.environ.get("PYTHONPATH", "")])
    done = warm.run(
        Path(__file__), str(path), needs, package=False, cwd=workplace,
        searched=str(package_root), timeout=600, PYTHONPATH=searched, NO_COLOR="1",
    )  # fmt: skip
    if done.returncode == 0:
        return []
    # a process that was killed, by its time limit or otherwise, prints nothing itself
    silent = f"{path.name}: ended with status {done.returncode} and without a word"
    return done.stderr.strip().splitlines() or [silent]


# ── in the process ───────────────────────────────────────────────────────────────────────────


def run_python(block: Block, document: str, names: dict[str, Any]) -> str:
    """Run one block; what went wrong, or nothing."""
    # Padded, so that a traceback shows the document's own line numbers.
    source = "\n" * (block.line - 1) + block.body
    linecache.cache[document] = (len(source), None, source.splitlines(keepends=True), document)
    try:
        exec(compile(source, document, "exec"), names)
    except BaseException:  # noqa: BLE001 - a block that exits fails like one that raises
        return traceback.format_exc()
    return ""


def run_console(block: Block, document: str) -> str:
    """Run the `regard` commands of one block; what went wrong, or nothing."""
    for command in block.commands:
        if not command.startswith("regard "):
            continue
        serves = command.startswith(("regard view ", "regard play")) or command.endswith(" --web")
        run = _run_server if serves else _run_in_shell if "|" in command else _run_here
        status, output = run(command)
        if status != block.exit_status:
            wrong = f"exit {status}, not {block.exit_status}"
            return f"{document}:{block.line}: `{command}`: {wrong}\n{output}"
    return ""


def _run_here(command: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = _run_module(shlex.split(command))
    return status, out.getvalue() + err.getvalue()


def _run_module(words: list[str]) -> int:
    """As `python -m` does."""
    try:
        with patch.object(sys, "argv", words):
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:  # noqa: BLE001 - as python does
        traceback.print_exc()
        return 1
    return 0


def _run_in_shell(command: str) -> tuple[int, str]:
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m {command}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def _run_server(command: str) -> tuple[int, str]:
    """Until it prints its address; then Ctrl-C."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writing, 1)
        status = _run_module([*shlex.split(command), "--no-open"])
        sys.stdout.flush()
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as output:
        first = output.readline()
        os.kill(child, signal.SIGINT)
        text = first + output.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if first.startswith("http://127.0.0.1:") else 1, text


def main(path: Path, needs: str) -> int:
    """Every block in order, as an interpreter that was started in the folder runs it."""
    sys.path.append("")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in chosen(path, needs):
        is_python = block.language == "python"
        if (
            wrong := run_python(block, path.name, names)
            if is_python
            else run_console(block, path.name)
        ):
            sys.stderr.write(wrong)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
