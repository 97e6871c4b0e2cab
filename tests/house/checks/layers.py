"""Who may import whom: five rings, and imports go inwards. LAYOUT.md begins with them.

    1  what attention is         the definition, masks, score rules, statistics, state
    2  the same, fast, anywhere  the engine, over many ranks, as layers with weights
    3  models                    what runs inside one: captured, recorded, studied, switched off
    4  showing and serving       the lesson, the page, terminal, pictures, tables, play
    5  the door                  `regard` and its commands, and what uses them as anybody does

A unit imports its own ring and those inside it, as long as no circle comes of it. A layer calls
the engine and reads weights from files, so `nn` and `models` are the second ring's outside.

The first row of a ring runs on numpy alone, and imports only what does. Those that draw do not
import one another: what two of them need is a view. What checks a model imports
nothing that computes attention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from house.checks.source import Import, Source, Sources, resolve

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

# Independent, so that its verdicts on the others can be trusted: the only units it imports.
ALONE = {"check": {"errors", "display"}}

# Inside the engine: implementations import neither each other nor the api, and only `plan` imports
# them, inside functions. The shipped oracles are built on the definition, so they may.
IMPLEMENTATIONS = ("dense", "tiled", "library", "cpu", "gpu")
CHOOSER = "plan"
ORACLES = "testing"


LAYOUT, ROWS, WORDS = "LAYOUT.md", 30, 15


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


def misplaced(sources: Sources) -> list[str]:
    """Units of no ring."""
    units = {source.unit: source for source in reversed(sources.package)}
    return [
        f"{source.name}: '{unit}' is in no ring; place it in one of layers.py"
        for unit, source in sorted(units.items())
        if unit not in may_import()
    ]


def undrawn(sources: Sources) -> list[str]:
    """Packages without a row of LAYOUT.md, rows for no folder; too many rows, or words in one."""
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", sources[LAYOUT].text, re.MULTILINE)
    named = {name for where, _ in rows for name in re.findall(r"`([^`]+)`", where)}
    parents = {path[: m.end()] for path in sources for m in re.finditer("/", path)}
    units = {f"src/regard/{s.unit}/" for s in sources.package if s.path.count("/") > 2}
    wrong = [f"{LAYOUT} has no row of {unit}" for unit in sorted(units - named)]
    wrong += [
        f"{LAYOUT} has a row of {name}, which is no folder" for name in sorted(named - parents)
    ]
    wrong += [f"{LAYOUT} has {len(rows)} rows; at most {ROWS}"] if len(rows) > ROWS else []
    long = ((where, len(what.split())) for where, what in rows if len(what.split()) > WORDS)
    return wrong + [f"{LAYOUT}: {count} words about {w}; at most {WORDS}" for w, count in long]


def outward_imports(sources: Sources) -> list[str]:
    """Imports that go outwards, or to torch from what runs without it; lazy ones included."""
    allowed, wrong = may_import(), []
    for source, imported, target in _inner_imports(sources):
        unit = _unit_of(target)
        if unit != source.unit and unit not in allowed.get(source.unit, {unit}):
            wrong.append(f"{source.name}:{imported.line}: {source.unit} may not import {unit}")
    return wrong


def implementation_leaks(sources: Sources) -> list[str]:
    """Imports of a backend by any module but `plan`, or by it at module level."""
    wrong = []
    for source, imported, target in _inner_imports(sources):
        where, own, wanted = f"{source.name}:{imported.line}", _part(source.name), _part(target)
        if own in IMPLEMENTATIONS and wanted == "api":
            wrong.append(f"{where}: an implementation may not import api")
        if wanted not in IMPLEMENTATIONS or wanted == own or source.unit == ORACLES:
            continue
        backend = f"engine.backends.{wanted}"
        if own != CHOOSER:
            wrong.append(f"{where}: only engine/plan.py knows {backend}")
        elif not imported.in_function and not imported.for_types:
            wrong.append(f"{where}: import {backend} inside a function")
    return wrong


def cycles(sources: Sources) -> list[str]:
    """Circles of modules at import time, and of units when lazy imports are counted as well."""
    by_module: dict[str, set[str]] = {}
    by_unit: dict[str, set[str]] = {}
    for source, imported, target in _inner_imports(sources):
        if imported.for_types:
            continue
        if not imported.in_function and source.name != target:
            by_module.setdefault(source.name, set()).add(target)
        if source.unit != _unit_of(target):
            by_unit.setdefault(source.unit, set()).add(_unit_of(target))
    circles = (_circle(graph) for graph in (by_module, by_unit))
    return [f"import cycle: {' → '.join(circle)}" for circle in circles if circle]


def _inner_imports(sources: Sources) -> Iterator[tuple[Source, Import, str]]:
    """(importer, import, imported module) for each import that stays inside the package."""
    package = sources.package
    known = {source.name for source in package}
    for source in package:
        for imported in source.imports:
            if imported.target.split(".")[0] == "regard":
                yield source, imported, resolve(imported.target, known)


def _unit_of(name: str) -> str:
    return [*name.split("."), "__init__"][1]


def _part(name: str) -> str:
    """The part of the engine, or nothing: regard.engine.plan → plan, and
    regard.engine.backends.gpu.x → gpu."""
    inner = name.removeprefix("regard.engine.").removeprefix("backends.")
    return inner.split(".")[0] if name.startswith("regard.engine.") else ""


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """A way from a node to itself, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # each node comes before what it imports
    return []
