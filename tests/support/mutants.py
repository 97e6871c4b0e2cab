"""Faults drawn at random, and which test finds each: whether a smaller suite proves as much.

    python -m support.mutants draw            120 faults a room into mutants.csv, by a fixed seed
    python -m support.mutants mark            sources that note which test runs each fault's line
    python -m support.mutants run COLUMN LOG  each fault in turn, with the tests that reach it

`mark` changes the sources of a clone made for it. The suite is then run there once, with
--durations=0, which gives LOG; `git checkout src` undoes the marks. `run` writes a fault into the
source, runs the tests and takes it back; its column of mutants.csv names the test that failed, "-"
if none did, "unreached" if no test runs the line, and "gone" if the line is no longer there.
"""

from __future__ import annotations

import ast
import csv
import os
import random
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/regard"
TABLE = Path(__file__).with_suffix(".csv")
REACHED = ROOT / ".mutants"  # one file of lines "fault test" a process
ROOMS = {
    "mask": ["mask"],
    "state": ["state.py", "running.py"],
    "engine": ["engine"],
    "recording": ["recording"],
    "pattern": ["study/pattern"],
    "views": ["views"],
}
SEED, MANY = 40, 120
SECONDS = 60  # for one fault; its tests take half of that

_SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.And: "or", ast.Or: "and", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
    ast.NotIn: "in",
}  # fmt: skip


def candidates(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, its text, its text with one fault), for faults that stay within a line."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node, start, end, new in _faults(ast.parse(text), text):
        line = lines[node.lineno - 1]
        # ast counts bytes
        raw = line.encode()
        yield node.lineno, line, (raw[:start] + new.encode() + raw[end:]).decode()


def _faults(tree: ast.AST, text: str) -> Iterator[tuple[ast.expr, int, int, str]]:
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if isinstance(outer := getattr(node, field, None), ast.AST)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in annotations:
            continue
        if node.lineno != node.end_lineno:
            continue
        start, end = node.col_offset, node.end_col_offset or 0

        def text_of(inner: ast.AST) -> str:
            return ast.get_source_segment(text, inner) or ""

        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _SWAPS:
                yield node, start, end, f"({text_of(left)} {_SWAPS[type(op)]} {text_of(right)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SWAPS:
                yield node, start, end, f"({text_of(left)} {_SWAPS[type(op)]} {text_of(right)})"
            case ast.BoolOp(op=op, values=[first, second]):
                yield node, start, end, f"({text_of(first)} {_SWAPS[type(op)]} {text_of(second)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, start, end, f"bool({text_of(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield node, start, end, f"(+{text_of(operand)})"
            case ast.Constant(value=bool() as value):
                yield node, start, end, str(not value)
            case ast.Constant(value=int() | float() as value):
                yield node, start, end, str(value + 1)
            case ast.IfExp(body=body, orelse=orelse, test=test):
                yield (
                    node,
                    start,
                    end,
                    f"({text_of(orelse)} if {text_of(test)} else {text_of(body)})",
                )
            case ast.Call(func=func, args=[first, second]) if not node.keywords:
                yield node, start, end, f"{text_of(func)}({text_of(second)}, {text_of(first)})"


def draw() -> None:
    rows = []
    for room, names in ROOMS.items():
        chance = random.Random(SEED)
        paths = [p for name in names for p in _files(SOURCE / name)]
        every = [(path, *fault) for path in paths for fault in candidates(path)]
        every = [fault for fault in every if _compiles(*fault)]
        drawn = sorted(chance.sample(every, min(MANY, len(every))))
        rows += [[room, p.relative_to(ROOT).as_posix(), n, *texts] for p, n, *texts in drawn]
        print(room, len(every), "candidates,", len(drawn), "drawn")
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["room", "path", "line", "text", "fault"], *rows])


def _files(top: Path) -> list[Path]:
    return sorted(top.rglob("*.py")) if top.is_dir() else [top]


def _compiles(path: Path, number: int, _: str, fault: str) -> bool:
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number - 1] = fault
    try:
        compile("\n".join(lines), str(path), "exec")
    except SyntaxError:
        return False
    return True


def _table() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _place(row: dict[str, str]) -> int | None:
    """Where the line is now: the nearest of its text to where it was."""
    path = ROOT / row["path"]
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    places = [n for n, line in enumerate(lines, 1) if line == row["text"]]
    return min(places, key=lambda n: abs(n - int(row["line"])), default=None)


_NOTE = """
def _reached_(fault, done=set()):
    import io, os
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (fault, test) not in done:
        done.add((fault, test))
        with io.open({folder!r} + "/" + str(os.getpid()), "a") as file:
            file.write(f"{{fault}}\\t{{test}}\\n")
"""


def mark() -> None:
    REACHED.mkdir(exist_ok=True)
    places: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, row in enumerate(_table()):
        if (line := _place(row)) is not None:
            places[row["path"]][line].append(number)
    for name, lines in places.items():
        path = ROOT / name
        tree = ast.parse(path.read_text(encoding="utf-8"))
        _Marks(lines).visit(tree)
        after = sum(
            (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for node in tree.body[:2]
        )  # fmt: skip
        tree.body[after:after] = ast.parse(_NOTE.format(folder=str(REACHED))).body
        path.write_text(ast.unparse(tree), encoding="utf-8")


class _Marks(ast.NodeTransformer):
    def __init__(self, lines: dict[int, list[int]]) -> None:
        self.lines = lines

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # what Triton and Gluon compile calls nothing; `run` takes the tests of kernels for it
        if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
            return node
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and not isinstance(node, ast.Module | ast.ClassDef):
                setattr(node, field, [new for old in body for new in self._marked(old)])
        return node

    def _marked(self, node: ast.stmt) -> Iterator[ast.stmt]:
        first = node.lineno
        inner = [s.lineno for s in ast.walk(node) if isinstance(s, ast.stmt) and s is not node]
        last = min(inner, default=(node.end_lineno or first) + 1)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ImportFrom | ast.Global):
            for line in range(first, max(last, first + 1)):
                for fault in self.lines.get(line, ()):
                    yield from ast.parse(f"_reached_({fault})").body
        yield node


def reached(seconds: dict[str, float]) -> dict[int, list[str]]:
    """Of each fault the tests that run its line, or its file where no line notes that."""
    rows = _table()
    tests: dict[int, set[str]] = defaultdict(set)
    files: dict[str, set[str]] = defaultdict(set)
    for path in REACHED.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            fault, _, test = line.partition("\t")
            tests[int(fault)].add(test)
            files[rows[int(fault)]["path"]].add(test)
    return {
        number: _short(tests[number] or (files[row["path"]] if _is_unmarked(row) else ()), seconds)
        for number, row in enumerate(rows)
    }


def _short(tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """The shortest of each file, then the second of each, until half of SECONDS is used."""
    of_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda t: (seconds.get(t, 0.01), t)):
        of_file[test.partition("::")[0]].append(test)
    turns = [test for turn in zip_longest(*of_file.values()) for test in turn if test]
    ends = accumulate(seconds.get(test, 0.01) for test in turns)
    return [test for test, end in zip(turns, ends, strict=True) if end < SECONDS / 2 or end == 0]


def _is_unmarked(row: dict[str, str]) -> bool:
    """A line of a module or class, or of a function that is compiled for a GPU."""
    tree = ast.parse((ROOT / row["path"]).read_text(encoding="utf-8"))
    number = _place(row) or 0
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.body[0].lineno <= number <= (node.end_lineno or 0)
    ]
    return not around or any("jit" in ast.unparse(d) for f in around for d in f.decorator_list)


def run(column: str, log: Path, rooms: list[str]) -> None:
    """Every fault of the rooms that has no answer in the column yet."""
    seconds = dict(_durations(log))
    tests = reached(seconds)
    rows = _table()
    import torch  # noqa: F401  what children need and takes long
    import transformers  # noqa: F401

    for number, row in enumerate(rows):
        if row["room"] not in rooms or row.get(column):
            continue
        line = _place(row)
        if line is None:
            row[column] = "gone"
        elif not tests[number]:
            row[column] = "unreached"
        else:
            with written(row, line):
                row[column] = killer(tests[number])
        print(number, row["path"], line, row["fault"].strip(), "->", row[column], flush=True)
        _write(rows)
    for room in rooms:
        answers = [row[column] for row in rows if row["room"] == room]
        missed = sum(answer in ("-", "unreached") for answer in answers)
        there = sum(answer != "gone" for answer in answers)
        print(f"{room}: {there - missed} of {there} found")


def _durations(log: Path) -> Iterator[tuple[str, float]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([\d.]+)s call +(.+)", line):
            yield match[2], float(match[1])


def _write(rows: list[dict[str, str]]) -> None:
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        table.writeheader()
        table.writerows(rows)


@contextmanager
def written(row: dict[str, str], line: int) -> Iterator[None]:
    path = ROOT / row["path"]
    before, times = path.read_bytes(), path.stat()
    lines = before.decode().splitlines()
    lines[line - 1] = row["fault"]
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, (times.st_atime, times.st_mtime))


def killer(tests: list[str]) -> str:
    """The first test that fails, in a child of this process, which has imported what is slow."""
    log = REACHED.with_suffix(".log")
    pid = os.fork()
    if not pid:
        os.setsid()
        out = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        import pytest

        os._exit(pytest.main(["-x", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=no", *tests]))
    end = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "time"
        time.sleep(0.05)
    for text in log.read_text(encoding="utf-8").splitlines():
        if text.startswith(("FAILED ", "ERROR ")):
            return text.split(" ", 1)[1].partition(" - ")[0]
    return "-" if status == 0 else f"status {status}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["draw"]:
            draw()
        case ["mark"]:
            mark()
        case ["run", column, log, *rooms]:
            run(column, Path(log), rooms or list(ROOMS))
        case _:
            sys.exit(__doc__)
