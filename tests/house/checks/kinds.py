"""Masks, biases and statistics are open sets: code tests what a value declares, not its class.

A class test (`isinstance`, `case Causal()`, `type(mask) is`, a table with classes for keys) is
right for the kinds its author knew, and silently wrong for one that is added. Within the
module that defines a class it belongs to the definition. Elsewhere it stands in lowering tables
alone: what a kernel computes itself, with tiles or a table of cells for everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house.checks.source import Source, Sources, last_word

# Bases that say how a value is to be treated: whoever derives from one is treated so.
OPEN = {"Mask", "Bias", "Summary", "RowStatistic", "RowMean", "ColumnStatistic"}

# One table for each kernel and each family of values, and why it is there.
LOWERING = {
    "engine/backends/cpu/bind.py": "masks and biases that the C kernels read; the rest as tables",
    "engine/backends/cpu/sweeps.py": "statistics that the C kernels write; the rest by tiles",
    "engine/backends/gpu/seen.py": "masks as numbers for the Triton kernels; the rest as a table",
    "engine/backends/gpu/bind.py": "biases that the Triton kernels read; the rest is refused",
    "engine/backends/gpu/sweeps.py": "statistics that the Triton kernels write; the rest by tiles",
    "recording/query.py": "what recordings store, and what sweeps for it; the rest by its sums",
    "engine/backends/tiled/rows.py": "best keys and maps, which are no running sums",
}


def class_tests(sources: Sources, allowed: dict[str, str] = LOWERING) -> list[str]:
    """Tests for a concrete kind outside its module; exceptions that are none any more."""
    kinds, wrong, used = concrete(sources), [], set()
    for source in sources.package:
        place = source.path.removeprefix("src/regard/")
        for line, name in _tests(source, kinds):
            if place in allowed:
                used.add(place)
            else:
                wrong.append(f"{place}:{line}: a test for the class {name}; test what it declares")
    unused = sorted(allowed.keys() - used)
    return [*wrong, *(f"{place} tests for no class: it needs no exception" for place in unused)]


def concrete(sources: Sources) -> dict[str, str]:
    """Every class that derives from an open one, with the module that defines it."""
    classes = [(s.name, node) for s in sources.package for node in s.nodes(ast.ClassDef)]
    kinds: dict[str, str] = {}
    while True:
        more = {
            node.name: home
            for home, node in classes
            if node.name not in OPEN | kinds.keys()
            and any(last_word(base) in OPEN | kinds.keys() for base in node.bases)
        }
        if not more:
            return kinds
        kinds |= more


def _tests(source: Source, kinds: dict[str, str]) -> list[tuple[int, str]]:
    """(line, class) of each test for a class that another module defines."""
    foreign = {name for name, home in kinds.items() if home != source.name and name in source.text}
    if not foreign:
        return []
    names = {known: {name} for known, name in _imported(source) if name in foreign}
    for node in source.nodes(ast.Assign):  # BANDS = (Causal, Window); BANDS may be tested for
        if isinstance(node.targets[0], ast.Name):
            inside = set(_mentioned(node.value, names, foreign))
            names |= {node.targets[0].id: inside} if inside else {}
    tested = {
        (node.lineno, name)
        for node in source.nodes(ast.Call, ast.MatchClass, ast.Compare, ast.Dict)
        for expression in _compared(node)
        for name in _mentioned(expression, names, foreign)
    }
    return sorted(tested)


def _compared(node: ast.AST) -> list[ast.expr]:
    """The expressions in a node that classes are compared with."""
    if isinstance(node, ast.Call) and last_word(node.func) in ("isinstance", "issubclass"):
        return node.args[1:]
    if isinstance(node, ast.MatchClass):
        return [node.cls]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return []


def _mentioned(tree: ast.AST, names: dict[str, set[str]], foreign: set[str]) -> Iterator[str]:
    """Classes named in an expression; `Causal()` names a value."""
    if isinstance(tree, ast.Name):
        yield from sorted(names.get(tree.id, ()))
    elif isinstance(tree, ast.Attribute) and tree.attr in foreign:
        yield tree.attr
    elif not isinstance(tree, ast.Call):
        for child in ast.iter_child_nodes(tree):
            yield from _mentioned(child, names, foreign)


def _imported(source: Source) -> Iterator[tuple[str, str]]:
    """(name here, name there) of what is taken from the package itself."""
    for node in source.nodes(ast.ImportFrom):
        if node.level or (node.module or "").split(".")[0] == "regard":
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
