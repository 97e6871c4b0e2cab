"""How large files, lines and functions may grow."""

from __future__ import annotations

import ast
import math
import statistics

from house.checks.source import FUNCTIONS, Function, Sources, decorators

COLUMNS = 100
FILE_MOST = 600
FUNCTION_MEDIAN, FUNCTION_P90 = 10, 45
KERNEL_MOST = 160
KERNELS = "src/regard/engine/backends/gpu/"  # and every function that Triton compiles, anywhere


def large_files(sources: Sources) -> list[str]:
    """Python files of more lines than one idea takes."""
    return [
        f"{path} has {source.lines} lines; at most {FILE_MOST}"
        for path, source in sources.items()
        if path.endswith(".py") and source.lines > FILE_MOST
    ]


def wide_lines(sources: Sources) -> list[str]:
    """Lines of C beyond the last column, which ruff does not read."""
    return [
        f"{source.path}:{number} has {len(line)} columns"
        for source in sources.below("src/regard", ".c", ".h", ".cpp")
        for number, line in enumerate(source.text.splitlines(), 1)
        if len(line) > COLUMNS
    ]


def large_functions(sources: Sources) -> list[str]:
    """Functions that are too long on the whole, and kernels that are one by one."""
    ordinary, wrong = [], []
    for source in sources.package:
        for node in source.nodes(*FUNCTIONS):
            lines = function_length(node)
            if not source.path.startswith(KERNELS) and "jit" not in decorators(node):
                ordinary.append((lines, f"{source.name}.{node.name}"))
            elif lines > KERNEL_MOST:
                wrong.append(f"kernel {source.name}.{node.name} has {lines} lines")
    return wrong + _on_the_whole(sorted(ordinary))


def function_length(node: Function) -> int:
    """From `def` to the last line; the docstring is not counted against a function."""
    is_documented = ast.get_docstring(node) is not None
    return _lines(node) - (_lines(node.body[0]) if is_documented else 0)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


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
