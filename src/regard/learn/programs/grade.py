"""Grade Python files: start the server, read its verdicts, also as the JSON that course software
reads."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from regard.errors import InputError
from regard.files import real
from regard.learn.grading.report import Outcome
from regard.learn.programs.diagnose import Finding
from regard.learn.programs.mistakes import STEPS
from regard.learn.text import StyledLine, printable, prose

_MEMORY: Final = 2 << 30  # bytes beyond what the libraries take
_LOOK: Final = 0.2  # seconds between two counts of what is done
_SERVER: Final = """
import json, sys
job = json.load(sys.stdin)
sys.path[:] = job["path"]
from regard.learn.programs.child import serve
serve(job)
"""


@dataclass(frozen=True)
class GradedCode(Outcome):
    """One Python file: what was called, its mistakes and remarks, or why it cannot be graded."""

    name: str
    entry: str = ""
    signature: str = ""
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    calls: int = 0
    problem: str = ""

    @property
    def verdict(self) -> str:
        """right, wrong or unreadable."""
        return "unreadable" if self.problem else "wrong" if self.findings else "right"

    @property
    def is_partial(self) -> bool:
        """Code is graded as a whole."""
        return False

    @property
    def first_mistake(self) -> tuple[str, str] | None:
        """Step and kind of the first mistake, without a word of the file."""
        return (self.findings[0].step, self.findings[0].kind) if self.findings else None

    @property
    def points(self) -> tuple[float, float]:
        """Earned and possible: every step that is right counts, by the table of steps."""
        possible = sum(STEPS.values())
        lost = sum(STEPS[step] for step in {one.step for one in self.findings})
        return (0.0 if self.problem else possible - lost), possible

    def as_row(self) -> dict[str, str]:
        """One text per column of the table."""
        first = self.findings[0] if self.findings else Finding("", "", "")
        cause = (
            "; ".join(one.text for one in self.findings) or self.problem or "; ".join(self.remarks)
        )
        return {
            "file": self.name, "verdict": self.verdict, "step": first.step, "cell": first.cell,
            "given": _figure(first.given), "right": _figure(first.right), "cause": cause,
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON, with every finding."""
        document: dict[str, Any] = {"file": self.name, "verdict": self.verdict}
        if self.problem:
            return document | {"problem": self.problem}
        earned, possible = self.points
        document |= {"entry": self.entry, "signature": self.signature, "calls": self.calls}
        document |= {"points": earned, "possible": possible, "remarks": list(self.remarks)}
        wrong = {one.step for one in self.findings}
        document["steps"] = {step: "wrong" if step in wrong else "right" for step in STEPS}
        document["findings"] = [_as_dict(one) for one in self.findings]
        if self.findings:
            document["first_wrong"] = _as_dict(self.findings[0])
        return document

    def full(self) -> list[StyledLine]:
        """What was graded, then the first wrong step with its cause, or that all is right."""
        if self.problem:
            return [[(f"{self.name}: {self.problem}", "")]]
        lines: list[StyledLine] = [
            [(self.name, "bold")],
            [(f"    graded: {self.signature}", "dim")],
            [],
        ]
        if not self.findings:
            lines += prose(f"All right: {_agreeing(self.calls)} with the definition.")
        for at, one in enumerate(self.findings):
            words = "Wrong first at" if not at else "Then at"
            where = f": {one.cell}" if one.cell else ""
            lines.append([(f"{words} {_the(one.step)}{where}", "bold")])
            if one.given is not None and not at:
                lines += [[], [("    given  ", "dim"), (_figure(one.given), "red")],
                          [("    right  ", "dim"), (_figure(one.right), "green")]]  # fmt: skip
            lines += [
                [],
                *prose(f"Cause: {one.text}."),
                *prose(f"Right: {one.fix}." if one.fix else ""),
            ]
            lines.append([])
        lines = lines[:-1] if not lines[-1] else lines
        return lines + [
            line for remark in self.remarks for line in ([], *prose(f"Remark: {remark}."))
        ]

    def one_line(self, width: int) -> StyledLine:
        """One file of many."""
        row = self.as_row()
        detail = f": {self.problem}" if self.problem else f"  {self.calls} calls of {self.entry}"
        if self.findings:
            numbers = f"{row['cell']}, given {row['given']}, right {row['right']}; "
            detail = f" at {row['step']}: {numbers if row['cell'] else ''}{row['cause']}"
        elif self.remarks:
            detail += f"; {row['cause']}"
        return self.in_a_line(f"{self.name:<{width}}", detail)


def _the(step: str) -> str:
    return (
        step if step in ("inputs", "projections", "heads", "scores", "dropout") else f"the {step}"
    )


def _figure(value: float | None) -> str:
    return "" if value is None else str(value) if not math.isfinite(value) else f"{value:.4f}"


def _as_dict(one: Finding) -> dict[str, Any]:
    numbers = {"given": one.given, "right": one.right}
    finite = {n: v if v is None or math.isfinite(v) else None for n, v in numbers.items()}
    cause = {"kind": one.kind, "text": one.text, "note": one.fix}
    return {"step": one.step, "cell": one.cell, **finite, "line": one.line, "cause": cause}


def grade_code(
    paths: Sequence[Path],
    entry: str = "",
    seconds: float = 20.0,
    advance: Callable[[int], None] = lambda done: None,
) -> list[GradedCode]:
    """Grade Python files, each in a process of its own; all of them share one import of torch.
    `advance` hears how many are done."""
    if not paths:
        return []
    if not hasattr(os, "fork"):
        raise InputError(
            "code is graded in forked processes, on Linux and macOS; use WSL on Windows"
        )
    with tempfile.TemporaryDirectory(prefix="regard-grade-") as folder:
        job = {
            "files": [str(real(path)) for path in paths], "entry": entry, "folder": folder,
            "seconds": seconds, "memory": _MEMORY, "processes": os.cpu_count() or 1,
            "torch": any(map(_mentions_torch, paths)), "path": sys.path,
        }  # fmt: skip
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-I", "-c", _SERVER]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=folder)
        _wait(server, json.dumps(job).encode(), lambda: advance(_verdicts(folder)))
        return [_read(path, Path(folder) / f"{at}.verdict") for at, path in enumerate(paths)]


def _wait(server: subprocess.Popen[bytes], job: bytes, look: Callable[[], None]) -> None:
    """Until the server ends; it ends with this process, too."""
    sent: bytes | None = job
    try:
        while server.poll() is None:
            try:
                server.communicate(sent, timeout=_LOOK)
            except subprocess.TimeoutExpired:
                look()
            sent = None
    except BaseException:
        _end(server)
        raise
    if server.returncode:
        raise subprocess.CalledProcessError(server.returncode, server.args)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ctrl-C reaches it, too, and it ends what it runs; where only this process was told, it is
    told so."""
    for told in (None, signal.SIGINT, signal.SIGKILL):
        if told is not None:
            server.send_signal(told)
        try:
            server.wait(timeout=1.0)
            return
        except subprocess.TimeoutExpired:
            continue


def _verdicts(folder: str) -> int:
    return len(list(Path(folder).glob("*.verdict")))


def _mentions_torch(path: Path) -> bool:
    try:
        return bool(re.search(rb"\btorch\b", path.read_bytes()))
    except OSError:  # said for this file alone, by the process that opens it
        return False


def _read(path: Path, verdict: Path) -> GradedCode:
    document = json.loads(verdict.read_text())
    findings = tuple(Finding(**one) for one in document.pop("findings", ()))
    remarks = tuple(document.pop("remarks", ()))
    document = {n: printable(v) if isinstance(v, str) else v for n, v in document.items()}
    return GradedCode(printable(str(path)), findings=findings, remarks=remarks, **document)


def _agreeing(calls: int) -> str:
    return "one call agrees" if calls == 1 else f"{calls} calls agree"


FORMATS: Final = ("gradescope", "otter", "nbgrader")


def as_format(graded: GradedCode, name: str) -> dict[str, Any]:
    """For Gradescope, Otter-Grader or nbgrader."""
    return {"gradescope": _gradescope, "otter": _otter, "nbgrader": _nbgrader}[name](graded)


def _tests(graded: GradedCode) -> list[dict[str, Any]]:
    """One test per step, with its points and the words of what is wrong."""
    found = {one.step: one for one in reversed(graded.findings)}
    rows = []
    for step, points in STEPS.items():
        one = found.get(step)
        right = one is None and not graded.problem
        words = (
            f"{one.text}. Right: {one.fix}." if one and one.fix else one.text if one else "right"
        )
        rows.append({"name": step, "right": right, "points": float(points),
                     "output": graded.problem or words})  # fmt: skip
    return rows


def _summary(graded: GradedCode) -> str:
    cause = graded.as_row()["cause"]
    called = f" ({graded.signature})" if graded.signature else ""
    return f"{graded.verdict}{called}{f': {cause}' if cause else ''}"


def _gradescope(graded: GradedCode) -> dict[str, Any]:
    """results.json: one test per step."""
    tests = [
        {
            "name": row["name"], "number": str(at), "max_score": row["points"],
            "score": row["points"] if row["right"] else 0.0, "output": row["output"],
            "status": "passed" if row["right"] else "failed", "visibility": "visible",
        }
        for at, row in enumerate(_tests(graded), 1)
    ]  # fmt: skip
    earned, _ = graded.points
    return {"score": earned, "output": _summary(graded), "visibility": "visible", "tests": tests}


def _otter(graded: GradedCode) -> dict[str, Any]:
    """Otter's results of test files: one file, one test case per step."""
    cases = [
        {
            "passed": row["right"], "error": None if row["right"] else row["output"],
            "test_case": {"name": row["name"], "code": graded.signature, "points": row["points"],
                          "hidden": False, "success_message": "right",
                          "failure_message": row["output"]},
        }
        for row in _tests(graded)
    ]  # fmt: skip
    earned, possible = graded.points
    file = {
        "filename": graded.name,
        "points": possible,
        "score": earned,
        "test_case_results": cases,
    }
    return {"test_file_results": [file]}


def _nbgrader(graded: GradedCode) -> dict[str, Any]:
    """Score and maximum for a cell of autograder tests, with a comment for the feedback."""
    earned, possible = graded.points
    parts = [
        {"step": row["name"], "score": row["points"] if row["right"] else 0.0,
         "max_score": row["points"], "comment": row["output"]}
        for row in _tests(graded)
    ]  # fmt: skip
    return {"score": earned, "max_score": possible, "comment": _summary(graded), "parts": parts}
