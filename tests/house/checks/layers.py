"""Who may import whom: five rings, and imports go inwards. LAYOUT.md begins with them.

    1  what attention is         the definition, masks, score rules, statistics, state
    2  the same, fast, anywhere  the engine, over many ranks, as layers with weights
    3  models                    what runs inside one: captured, recorded, studied, switched off
    4  showing and serving       the lesson, the page, terminal, pictures, tables, play
    5  the door                  `regard` and its commands, and what uses them as anybody does

A unit imports its own ring and those inside it, as long as no circle comes of it. A layer calls
the engine and reads weights from files, so `nn` and `models` are the second ring's outside.

The first row of a ring runs on numpy alone, and imports only what does. Those that draw do not
import one another: what two of them need is a view. What tells whether a model is right knows
nothing of what regard computes.
"""

from __future__ import annotations

from pathlib import Path

from house.checks.source import Import, Module, modules, resolve

# From the inside outwards: the units that run on numpy alone, and those that need torch.
RINGS = (
    (
        (
            "errors", "files", "display", "tidy", "arrays", "axes", "declare", "shapes", "mask",
            "attention", "score", "running", "summary", "statistics", "divergences", "kv",
        ),
        ("state", "tokens"),
    ),
    ((), ("engine", "parallel", "models", "nn", "embed")),
    (
        ("recording", "study"),
        ("arrival", "huggingface", "hear", "recorder", "intervene", "monitor", "vllm", "check"),
    ),
    (
        ("colour", "learn", "views", "draw", "plot", "viewer", "export"),
        ("notebook", "printed", "play"),
    ),
    ((), ("__init__", "__main__", "cli", "bench", "testing")),
)  # fmt: skip
NUMPY = frozenset(unit for numpy, _ in RINGS for unit in numpy)
FRONTS = {"draw", "plot", "viewer", "export"}

# What stands by itself, so that it can be trusted about all others: the only units it imports.
ALONE = {"check": {"errors", "display"}}

# Inside the engine: implementations know neither each other nor the api, and only `plan` knows
# them, from inside functions. The shipped oracles are built on the definition, so they may.
IMPLEMENTATIONS = ("dense", "tiled", "library", "cpu", "gpu")
CHOOSER = "plan"
ORACLES = "testing"


def may_import() -> dict[str, set[str]]:
    """The rings as sets: unit → units it may import."""
    allowed: dict[str, set[str]] = {}
    inside: set[str] = set()
    for numpy, torch in RINGS:
        inside |= {*numpy, *torch}
        for unit in (*numpy, *torch):
            allowed[unit] = inside & NUMPY if unit in NUMPY else set(inside)
    for unit in FRONTS:
        allowed[unit] -= FRONTS - {unit}
    for unit, known in ALONE.items():
        allowed[unit] = known | {unit}
    return allowed


def misplaced(package: Path) -> list[str]:
    """Units of no ring."""
    units = {module.unit: module for module in reversed(modules(package))}
    return [
        f"{_where(module)}: '{unit}' is in no ring; place it in one of layers.py"
        for unit, module in sorted(units.items())
        if unit not in may_import()
    ]


def outward_imports(package: Path) -> list[str]:
    """Imports that go outwards, or to torch from what runs without it; lazy ones included."""
    allowed, wrong = may_import(), []
    for module, found, target in _inner_imports(package):
        unit = _unit_of(target)
        if unit != module.unit and unit not in allowed.get(module.unit, {unit}):
            wrong.append(f"{_where(module, found)}: {module.unit} may not import {unit}")
    return wrong


def implementation_leaks(package: Path) -> list[str]:
    """Imports of an engine's implementation by anybody but `plan`, or by it at module level."""
    engine = f"{package.name}.engine"
    wrong = []
    for module, found, target in _inner_imports(package):
        source, wanted = _part(module.name, engine), _part(target, engine)
        if source in IMPLEMENTATIONS and wanted == "api":
            wrong.append(f"{_where(module, found)}: an implementation may not import api")
        if wanted not in IMPLEMENTATIONS or wanted == source or module.unit == ORACLES:
            continue
        where, backend = _where(module, found), f"engine.backends.{wanted}"
        if source != CHOOSER:
            wrong.append(f"{where}: only engine/plan.py knows {backend}")
        elif not found.in_function and not found.for_types:
            wrong.append(f"{where}: import {backend} inside a function")
    return wrong


def cycles(package: Path) -> list[str]:
    """Circles of modules at import time, and of units when lazy imports are counted as well."""
    by_module: dict[str, set[str]] = {}
    by_unit: dict[str, set[str]] = {}
    for module, found, target in _inner_imports(package):
        if found.for_types:
            continue
        if not found.in_function and module.name != target:
            by_module.setdefault(module.name, set()).add(target)
        units = module.unit, _unit_of(target)
        if units[0] != units[1]:
            by_unit.setdefault(units[0], set()).add(units[1])
    return [f"import cycle: {' → '.join(c)}" for g in (by_module, by_unit) for c in _circles(g)]


def _inner_imports(package: Path) -> list[tuple[Module, Import, str]]:
    """(importer, import, imported module) for each import that stays inside the package."""
    everything = modules(package)
    known = {module.name for module in everything}
    found = []
    for module in everything:
        for one in module.imports():
            if one.target.split(".")[0] == package.name:
                found.append((module, one, resolve(one.target, known)))
    return found


def _unit_of(name: str) -> str:
    return [*name.split("."), "__init__"][1]


def _part(name: str, folder: str) -> str:
    """The piece right below `folder`, or nothing: regard.engine.plan in regard.engine → plan, and
    regard.engine.backends.gpu.x → gpu."""
    inner = name.removeprefix(folder + ".").removeprefix("backends.")
    return inner.split(".")[0] if name.startswith(folder + ".") else ""


def _where(module: Module, found: Import | None = None) -> str:
    return f"{module.name}:{found.line}" if found else module.name


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle per group of nodes that reach each other, named from its smallest node."""
    circles, seen = [], set()
    for start in sorted(graph):
        path = _path_back(graph, start) if start not in seen else []
        seen |= set(path)
        circles += [path] if path else []
    return circles


def _path_back(graph: dict[str, set[str]], start: str) -> list[str]:
    """The shortest way from a node to itself, or nothing."""
    ways, reached = [[start]], set()
    for way in ways:  # grows while it is walked: breadth first
        for following in sorted(graph.get(way[-1], ())):
            if following == start:
                return [*way, start]
            if following not in reached:
                reached.add(following)
                ways.append([*way, following])
    return []
