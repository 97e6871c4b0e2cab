"""How large things may grow. A page of code should fit a head."""

from __future__ import annotations

import ast
import math
import statistics
from pathlib import Path

from house.checks.source import decorators, function_nodes, modules

COLUMNS = 100
FILE_MEDIAN, FILE_MOST = 150, 600
FUNCTION_MEDIAN, FUNCTION_P90 = 10, 45
KERNEL_MOST = 160
KERNEL_FOLDERS = ("engine/backends/gpu",)  # and every function that Triton compiles, anywhere

Function = ast.FunctionDef | ast.AsyncFunctionDef


def large_files(package: Path) -> list[str]:
    """Python files that are too long, one by one and on the whole."""
    lengths = {module.path: len(module.text.splitlines()) for module in modules(package)}
    wrong = [
        f"{path.relative_to(package.parent)} has {count} lines; at most {FILE_MOST}"
        for path, count in lengths.items()
        if count > FILE_MOST
    ]
    middle = statistics.median(lengths.values() or [0])
    if middle > FILE_MEDIAN:
        wrong.append(f"the median file has {middle:g} lines; at most {FILE_MEDIAN}")
    return wrong


def large_functions(package: Path) -> list[str]:
    """Functions that are too long on the whole, and kernels that are one by one."""
    ordinary, wrong = [], []
    for module in modules(package):
        inside = module.path.relative_to(package).as_posix()
        for node in function_nodes(module.tree):
            lines = function_length(node)
            if not _is_kernel(inside, node):
                ordinary.append((lines, f"{module.name}.{node.name}"))
            elif lines > KERNEL_MOST:
                wrong.append(f"kernel {module.name}.{node.name} has {lines} lines")
    return wrong + _on_the_whole(sorted(ordinary))


def wide_lines(*roots: Path) -> list[str]:
    """Lines of Python and C beyond the last column."""
    wrong = []
    for root in roots:
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".c", ".h")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if len(line) > COLUMNS:
                    where = f"{path.relative_to(root.parent)}:{number}"
                    wrong.append(f"{where} has {len(line)} columns")
    return wrong


def too_few_tests(package: Path, tests: Path) -> list[str]:
    """Fewer lines of test than of source."""
    source, proof = (sum(len(m.text.splitlines()) for m in modules(f)) for f in (package, tests))
    if proof >= source:
        return []
    return [f"{proof} lines of tests for {source} lines of source; at least as many"]


def function_length(node: Function) -> int:
    """From `def` to the last line; words of explanation are not counted against a function."""
    docstring = 0
    if ast.get_docstring(node) and len(node.body) > 1:
        docstring = node.body[1].lineno - node.body[0].lineno
        docstring -= len(getattr(node.body[1], "decorator_list", ()))
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def _is_kernel(inside: str, node: Function) -> bool:
    return inside.startswith(tuple(f"{f}/" for f in KERNEL_FOLDERS)) or "jit" in decorators(node)


def _on_the_whole(ordinary: list[tuple[int, str]]) -> list[str]:
    """The median and the tenth longest of every hundred."""
    if not ordinary:
        return []
    wrong = []
    middle = statistics.median(lines for lines, _ in ordinary)
    if middle > FUNCTION_MEDIAN:
        wrong.append(f"the median function has {middle:g} lines; at most {FUNCTION_MEDIAN}")
    p90 = ordinary[math.ceil(0.9 * len(ordinary)) - 1][0]
    if p90 > FUNCTION_P90:
        longest = ", ".join(f"{name} ({lines})" for lines, name in ordinary[-5:])
        wrong.append(f"p90 is {p90} lines; at most {FUNCTION_P90}. The longest: {longest}")
    return wrong
