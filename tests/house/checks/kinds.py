"""Masks, biases and statistics are open sets: code asks what one declares, not for its class.

A class test (`isinstance`, `case Causal()`, `type(mask) is`, a table with classes for keys) is
right for the kinds its author knew, and silently wrong for one that somebody adds. Within the
module that defines a class it belongs to the definition. Elsewhere it stands in lowering tables
alone: what a kernel computes itself, with tiles or a table of cells for everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from house.checks.source import Module, modules

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


def class_tests(package: Path, allowed: dict[str, str] = LOWERING) -> list[str]:
    """Tests for a concrete kind outside its module; exceptions that are none any more."""
    everything = modules(package)
    kinds, wrong, used = concrete(everything), [], set()
    for module in everything:
        place = module.path.relative_to(package).as_posix()
        for line, name in _tests(module, kinds):
            if place in allowed:
                used.add(place)
            else:
                wrong.append(f"{place}:{line}: {name} is asked for by class; ask what it declares")
    unused = sorted(allowed.keys() - used)
    return [*wrong, *(f"{place} asks for no class: it needs no exception" for place in unused)]


def concrete(everything: list[Module]) -> dict[str, str]:
    """Every class that derives from an open one, with the module that defines it."""
    classes = [
        (module.name, node)
        for module in everything
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, str] = {}
    while True:
        more = {
            node.name: home
            for home, node in classes
            if node.name not in OPEN | found.keys()
            and any(_last(base) in OPEN | found.keys() for base in node.bases)
        }
        if not more:
            return found
        found |= more


def _tests(module: Module, kinds: dict[str, str]) -> list[tuple[int, str]]:
    """(line, class) of each test for a class that another module defines."""
    foreign = {name for name, home in kinds.items() if home != module.name}
    names = {known: {name} for known, name in _imported(module) if name in foreign}
    for node in ast.walk(module.tree):  # BANDS = (Causal, Window); the tests may ask for BANDS
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            inside = set(_mentioned(node.value, names, foreign))
            names |= {node.targets[0].id: inside} if inside else {}
    found = {
        (node.lineno, name)
        for node in ast.walk(module.tree)
        for asked in _asked(node)
        for name in _mentioned(asked, names, foreign)
    }
    return sorted(found)


def _asked(node: ast.AST) -> list[ast.expr]:
    """The expressions in a node that classes are compared with."""
    if isinstance(node, ast.Call) and _last(node.func) in ("isinstance", "issubclass"):
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


def _imported(module: Module) -> Iterator[tuple[str, str]]:
    """(name here, name there) of what is taken from the package itself."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            inner = node.level or (node.module or "").split(".")[0] == module.top
            yield from ((one.asname or one.name, one.name) for one in node.names if inner)


def _last(node: ast.AST) -> str:
    """The last word of a dotted name; of `Mapping[str, Any]` that of what is subscripted."""
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
