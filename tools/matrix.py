"""The tests against other versions of Python, torch and transformers, and with Ray.

    make matrix                                       every row; an hour or more on two cores
    make matrix ARGS="transformers==5.4 torch==2.7"   some rows

Each row has an environment in `.matrix/`, kept between runs: one package of another version before
the packages of this environment, or another Python with packages of its own. The table stands in
docs/versions.md between two marks; rows that were not asked for stay. A combination that cannot be
installed here is a row that says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from environment import EVERYTHING, overlay
from resolve import PAGE, ROOT, newest, reason, written

ENVIRONMENTS = ROOT / ".matrix"
MARKS = "<!-- matrix: written by tools/matrix.py -->", "<!-- matrix: end -->"
HEAD = ("asked for", "installed", "passed", "failed", "skipped", "refused", "minutes", "day")
COUNTED = ("passed", "failed", "skipped", "refused")
_SHOWN = ("torch", "transformers", "triton", "ray")
_READY = "ready.json"
_ENGINE = ("tests/each", "tests/engine", "--ignore=tests/engine/backends/gpu")
_READING = ("tests/learn", "tests/mask", "tests/recording", "tests/study", "tests/huggingface")
# what a version needs beside it although it does not say so
_BESIDE = {
    # its configurations declare flags as int, and later releases take no bool for one
    "transformers==5.4.*": ("huggingface_hub<1.9",),
}


@dataclass(frozen=True)
class Subject:
    """What other versions are taken of, and what is run on them."""

    versions: tuple[str, ...]
    tests: tuple[str, ...]
    requirement: str = ""  # of pip; without one it is an interpreter


SUBJECTS = {
    "transformers": Subject(
        ("5.0", "5.2", "5.4", "5.8", "5.17", "newest"), ("tests/huggingface",), "transformers"
    ),
    "torch": Subject(("2.7", "2.11", "2.13", "newest"), _ENGINE, "torch"),
    "python": Subject(("3.12", "3.13", "3.14"), ("--fast", *_READING, *_ENGINE[1:])),
    "ray": Subject(
        ("newest",),
        ("tests/examples/test_ray_record.py", "tests/recorder/test_documents.py"),
        "ray[data]",
    ),
}


class MatrixError(Exception):
    """A combination cannot be set up here; the message says why."""


@dataclass(frozen=True)
class Combination:
    """One row."""

    subject: str
    version: str

    def __str__(self) -> str:
        return f"{self.subject} {self.version}"

    @property
    def requirement(self) -> str:
        """For pip; "" for an interpreter."""
        package = SUBJECTS[self.subject].requirement
        if not package:
            return ""
        if self.version == "newest":
            return f"{package}=={newest(self.subject)}"
        return f"{package}=={self.version}.*"


# ── environments ─────────────────────────────────────────────────────────────────────────────


def set_up(combination: Combination) -> Path:
    """The interpreter of its environment, which is made where it is missing or asks for other
    packages than it did."""
    folder = ENVIRONMENTS / f"{combination.subject}-{combination.version}"
    python = folder / "bin" / "python"
    wanted = combination.requirement or f"{ROOT}[{EVERYTHING}]"
    stamp = folder / _READY
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return python
    if combination.requirement:
        overlay(folder)
        _install(python, wanted, *_BESIDE.get(wanted, ()))
    else:
        _run([interpreter(combination.version), "-m", "venv", "--without-pip", str(folder)])
        _install(python, "--editable", wanted)
    stamp.write_text(json.dumps(wanted))
    return python


def interpreter(version: str) -> str:
    """The command for a Python of this version, from the PATH."""
    name = f"python{version}"
    try:
        said = _run([name, "-c", "import sys; print(sys.version_info[:2])"])
    except (MatrixError, FileNotFoundError) as error:
        raise MatrixError(f"no {name} on the PATH") from error
    if said.strip() != str(tuple(map(int, version.split(".")))):
        raise MatrixError(f"{name} on the PATH is another version: {said.strip()}")
    return name


def _install(python: Path, *what: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", *what])


def _run(command: Sequence[str]) -> str:
    """What it printed; MatrixError with the reason where it failed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MatrixError(reason(done.stderr))
    return done.stdout


def installed(python: Path) -> str:
    """Python and the packages that matter, with their versions."""
    code = (
        "import sys, importlib.metadata as m\n"
        "there = {d.name: d.version for d in reversed(list(m.distributions()))}\n"
        "print('Python', sys.version.split()[0], end='')\n"
        f"print(*(f', {{n}} {{there[n]}}' for n in {_SHOWN} if n in there), sep='')"
    )
    return _run([str(python), "-c", code]).strip()


# ── tests ────────────────────────────────────────────────────────────────────────────────────


def test(combination: Combination, python: Path) -> dict[str, int]:
    """How many tests passed, failed, were skipped, were refused; all output is in its log."""
    command = [
        str(python), "-m", "pytest", "-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal",
        "-p", "no:cacheprovider", *SUBJECTS[combination.subject].tests,
    ]  # fmt: skip
    settings = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    log = ENVIRONMENTS / f"{combination.subject}-{combination.version}.log"
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **settings}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running, log.open("w", encoding="utf-8") as file:  # fmt: skip
        assert running.stdout is not None
        last, shown = "", 0
        for line in running.stdout:
            file.write(line)
            last = line if line.strip() else last
            done = re.search(r"\[ *(\d+)%\]$", line.strip())
            if done and int(done[1]) >= shown + 10:
                shown = int(done[1])
                _say(f" {shown}%")
    result = counts(last)
    if not any(result.values()):
        raise MatrixError(f"pytest ran no test: {last.strip()}")
    return result


def counts(line: str) -> dict[str, int]:
    """Out of pytest's last line; tests that could not begin count as failed."""
    numbers = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", line)}
    numbers["failed"] = sum(numbers.get(word, 0) for word in ("failed", "error", "errors"))
    return {word: numbers.get(word, 0) for word in COUNTED}


# ── the table ────────────────────────────────────────────────────────────────────────────────


def row(combination: Combination, day: str) -> str:
    """Of the table: set up, tested, counted."""
    start = time.monotonic()
    try:
        _say(" setting up …")
        python = set_up(combination)
        about = installed(python)
        _say(f" {about}: testing …")
        start = time.monotonic()
        result = test(combination, python)
    except MatrixError as error:
        return _cells(str(combination), f"not run: {error}", *["–"] * len(COUNTED), "–", day)
    numbers = [str(result[word]) for word in COUNTED]
    if result["failed"]:
        numbers[1] = f"**{numbers[1]}**"
    return _cells(str(combination), about, *numbers, f"{(time.monotonic() - start) / 60:.0f}", day)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(page: str, made: dict[str, str]) -> str:
    """All rows in order: those just made, otherwise those of the page, otherwise an open one."""
    kept = {line.split(" | ")[0][2:]: line for line in page.splitlines() if line.startswith("| ")}
    empty = ["not run", *["–"] * (len(HEAD) - 2)]
    rows = [made.get(str(c)) or kept.get(str(c)) or _cells(str(c), *empty) for c in every()]
    return "\n".join([_cells(*HEAD), "|" + " --- |" * len(HEAD), *rows])


def every() -> list[Combination]:
    """All combinations, in the table's order."""
    return [Combination(name, v) for name, about in SUBJECTS.items() for v in about.versions]


def chosen(words: Sequence[str]) -> list[Combination]:
    """Those that words name, as in `torch==2.7` or `ray`; without words all."""
    for word in words:
        if not any(word in (c.subject, f"{c.subject}=={c.version}") for c in every()):
            known = ", ".join(f"{c.subject}=={c.version}" for c in every())
            sys.exit(f"matrix: {word!r} is no row; there are {known}")
    return [
        c for c in every() if not words or {c.subject, f"{c.subject}=={c.version}"} & set(words)
    ]


def _say(words: str) -> None:
    print(words, end="", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> None:
    """Every chosen row, written into the page as soon as it is known."""
    ENVIRONMENTS.mkdir(exist_ok=True)
    rows = chosen(words)
    failed = []
    for number, combination in enumerate(rows, 1):
        _say(f"{number}/{len(rows)} {combination}:")
        made = row(combination, datetime.now(UTC).date().isoformat())
        _say(f"\n{made}\n")
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            written(page, MARKS, table(page, {str(combination): made})), encoding="utf-8"
        )
        if "**" in made:
            failed.append(str(combination))
    if failed:
        sys.exit(f"matrix: tests failed with {', '.join(failed)}; their logs are in {ENVIRONMENTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
