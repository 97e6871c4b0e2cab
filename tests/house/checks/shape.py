"""How large files, lines and functions may grow, which tests may be skipped, which words no file
has."""

from __future__ import annotations

import ast
import math
import re
import statistics
import subprocess
from pathlib import Path

from house.checks.source import DEFINITIONS, FUNCTIONS, Function, Sources, decorators

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


LEDGER = "tests/SKIPS.md"
SKIPPERS = ("skip", "skipif", "importorskip", "xfail")
ENTRY = re.compile(r"^\|\s*`(?P<test>[^`]+)`\s*\|(?P<removed>.*)\|\s*$", re.MULTILINE)


def unlisted_skips(sources: Sources) -> list[str]:
    """Skips that the ledger does not have, entries without a condition, entries for nothing."""
    text = sources[LEDGER].text if LEDGER in sources else ""
    entries = {match["test"]: match["removed"].strip(" |") for match in ENTRY.finditer(text)}
    places = skipped(sources)
    known = {name for place in places for name in (place, place.partition("::")[0])}
    wrong = [f"{p} is not in {LEDGER}" for p in places if not _is_listed(p, entries)]
    wrong += [f"{LEDGER}: {t} has no condition" for t, why in entries.items() if not why]
    wrong += [f"{LEDGER}: {t} skips nothing" for t in entries if t not in known]
    return wrong


def skipped(sources: Sources) -> list[str]:
    """Places that skip: `tests/a/test_b.py::test_c`, or the file alone at module level."""
    places: dict[str, None] = {}
    for source in sources.below("tests"):
        if not any(word in source.text for word in SKIPPERS):
            continue
        for node in source.tree.body:
            place = f"{source.path}::{node.name}" if isinstance(node, DEFINITIONS) else source.path
            if _skips(node):
                places[place] = None
    return list(places)


def _is_listed(place: str, entries: dict[str, str]) -> bool:
    return place in entries or place.partition("::")[0] in entries


def _skips(node: ast.AST) -> bool:
    """pytest.skip, pytest.importorskip, pytest.mark.skipif and the like, also by bare name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in SKIPPERS:
            if ast.unparse(inner).startswith(("pytest.", "unittest.", "mark.")):
                return True
        if isinstance(inner, ast.ImportFrom) and inner.module in ("pytest", "unittest"):
            if any(alias.name in SKIPPERS for alias in inner.names):
                return True
    return False


# The brackets keep these lines from finding themselves.
WORKPLACE = "/wor[k]/|/roo[t]/"
REGISTRY = "(https?|ssh)://[^/ ]*(registry|pypi|pythonhosted|npm|artifactor|nexus|mirror|proxy)"
SETTING = "(index-url|find-links|registry) ?= ?(https?:|file:|/)"
PRIVATE = r"://[a-zA-Z0-9.-]+\.(internal|intranet|local|lan|corp)\b"


def workplace_words(root: Path) -> list[str]:
    """Lines that name a machine's folders or a package registry: packages go by name alone."""
    pattern = "|".join((WORKPLACE, REGISTRY, SETTING, PRIVATE))
    command = ["git", "grep", "--untracked", "-nIE", pattern, "--", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode > 1 or done.stderr:  # git grep exits with 1 if no line matches
        raise RuntimeError(f"git grep failed: {done.stderr}")
    return [line.strip() for line in done.stdout.splitlines()]
