"""The code blocks of the documents: found here, checked here, run in a fresh interpreter.

```python             runs; blocks of one document share their names, in order
```python no-run      does not run; its first line is a comment that says why
```python needs=x     runs where the package x is installed, alone: it shares no names
```console            `$ regard …` lines run and must exit 0; `$ make x` names a real target
```console exit=1     they must exit 1
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

import warm

FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LEFT_ALONE = ("make", "pip", "git", "cd")  # they change the machine, not the document
USAGE_WITHIN = 40
NO_RUN_AT_MOST = 6
RUNNER = Path(__file__).with_name("runner.py")


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
    found = []
    for match in FENCE.finditer(text):
        language, *flags = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(line, language, tuple(flags), match["body"]))
    return found


def unsound(root: Path) -> list[str]:
    """What can be seen without running: late usage, silent no-run, unknown commands and targets."""
    wrong, not_run = [], 0
    targets = set(re.findall(r"^([\w-]+):", _text(root / "Makefile"), re.MULTILINE))
    for path in documents(root):
        for block in blocks(_text(path)):
            where = f"{path.relative_to(root)}:{block.line}"
            not_run += "no-run" in block.flags
            if "no-run" in block.flags and not re.match(r"\s*# *\w", block.body):
                wrong.append(f"{where}: a no-run block begins with a comment that says why")
            wrong += [f"{where}: {w}" for c in block.commands for w in _unsound_command(c, targets)]
    if not_run > NO_RUN_AT_MOST:
        wrong.append(f"{not_run} blocks are not run; at most {NO_RUN_AT_MOST}")
    return wrong + _late_usage(root)


def needed(root: Path) -> dict[str, list[Path]]:
    """The packages that blocks need, with the documents that hold such blocks."""
    found: dict[str, list[Path]] = {}
    for path in documents(root):
        for name in dict.fromkeys(b.needs for b in blocks(_text(path)) if b.needs):
            found.setdefault(name, []).append(path)
    return found


def failures(path: Path, package_root: Path, workplace: Path, needs: str = "") -> list[str]:
    """Run one document's blocks in order, in an empty folder, or those that need one package; what
    went wrong, by line."""
    todo = [
        asdict(block) | {"commands": block.commands, "exit_status": block.exit_status}
        for block in blocks(_text(path))
        if (block.needs == needs if needs else block.runs)
    ]
    if not todo:
        return []
    for name in ("examples", "bench"):  # documents may speak of what a clone has
        folder = package_root.parent / name
        if folder.is_dir() and not (workplace / name).exists():
            (workplace / name).symlink_to(folder)
    searched = os.pathsep.join([str(package_root), os.environ.get("PYTHONPATH", "")])
    done = warm.run(
        RUNNER, path.name, package=False, input=json.dumps(todo), cwd=workplace,
        searched=str(package_root), timeout=600, PYTHONPATH=searched, NO_COLOR="1",
    )  # fmt: skip
    if done.returncode == 0:
        return []
    # a process that was killed, by its time limit or otherwise, says nothing itself
    silent = f"{path.name}: ended with status {done.returncode} and without a word"
    return done.stderr.strip().splitlines() or [silent]


def _unsound_command(command: str, targets: set[str]) -> list[str]:
    program, *rest = shlex.split(command) or [""]
    if program == "make":
        wanted = [word for word in rest if "=" not in word and not word.startswith("-")]
        return [f"the Makefile has no target {word}" for word in wanted if word not in targets]
    known = ("regard", *LEFT_ALONE)
    return [] if program in known else [f"`{program}` is not run here; one of {', '.join(known)}"]


def _late_usage(root: Path) -> list[str]:
    """The README shows code before anything else gets long."""
    shown = [
        block.line
        for block in blocks(_text(root / "README.md"))
        if block.language == "python" or any(c.startswith("regard ") for c in block.commands)
    ]
    if shown and shown[0] <= USAGE_WITHIN:
        return []
    return [f"README.md shows no usage within its first {USAGE_WITHIN} lines"]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
