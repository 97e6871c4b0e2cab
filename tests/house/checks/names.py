"""Names that would hide one another: public names and submodules, folders and other modules; and
classes that would be taken for one another."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from house.checks.child import ask
from house.checks.layers import RINGS
from house.checks.source import modules

# Once a submodule is imported, the attribute of that name is the submodule. So a public name may
# equal a submodule's only if it means the submodule, seen before anything else is imported.
COLLIDING = """
import importlib, types
package = importlib.import_module(given['package'])
answer = []
for name in given['submodules']:
    if name not in {*dir(package), *getattr(package, '__all__', ())}:
        continue
    value = getattr(package, name, None)
    full = f"{given['package']}.{name}"
    if not (isinstance(value, types.ModuleType) and value.__name__ == full):
        answer.append(f"{full} is both a public name and a submodule")
"""


def collisions(package: Path) -> list[str]:
    """Public names of a package that equal one of its submodules without being it."""
    inside = {path.stem for path in package.glob("*.py")} | set(_folders(package))
    given = {"package": package.name, "submodules": sorted(inside)}
    return ask(COLLIDING, given, package.parent)


# Named after what they plug into, since users type it; imports are absolute, so both can be meant.
PLUGGED_INTO = {"vllm"}


def shadows(package: Path, others: tuple[Path, ...] = ()) -> list[str]:
    """Folders called like a module of the standard library or one that the sources import."""
    taken = (set(sys.stdlib_module_names) | _imported(package)) - PLUGGED_INTO
    wrong = []
    for root in (package, *others):
        for folder in sorted(root.rglob("*")):
            if folder.is_dir() and folder.name in taken and _holds_code(folder):
                wrong.append(f"{folder.relative_to(root.parent)} shadows the module {folder.name}")
    return wrong


def twice(package: Path) -> list[str]:
    """Names of several classes that make attention; a leading underscore makes no other name."""
    core, engine, (_, models), *_ = RINGS
    units = {*core[0], *core[1], *engine[1], *models}
    homes: dict[str, list[str]] = {}
    for module in modules(package):
        for node in ast.walk(module.tree) if module.unit in units else ():
            if isinstance(node, ast.ClassDef):
                here = f"{module.name}:{node.lineno}"
                homes.setdefault(node.name.lstrip("_"), []).append(here)
    found = {name: places for name, places in homes.items() if len(places) > 1}
    return [f"{name} names {len(p)} classes: {', '.join(p)}" for name, p in sorted(found.items())]


def _imported(package: Path) -> set[str]:
    """The outermost names of everything the package imports from elsewhere."""
    found = {one.target.split(".")[0] for module in modules(package) for one in module.imports()}
    return found - {package.name}


def _folders(package: Path) -> list[str]:
    return [f.name for f in package.iterdir() if f.is_dir() and _holds_code(f)]


def _holds_code(folder: Path) -> bool:
    return any(folder.rglob("*.py"))
