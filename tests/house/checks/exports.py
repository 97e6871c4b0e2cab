"""`__all__` against reality: what is listed exists, what is public is listed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from house.checks.child import ask
from house.checks.source import DEFINITIONS, Module, is_type_checking, modules

# Candidates are tried on the package's own __getattr__, because an attribute that a submodule's
# import left behind is not a promise.
LAZY = """
import importlib
package = importlib.import_module(given['package'])
listed = list(getattr(package, '__all__', ()))
answer = [] if listed else [f"{given['package']} lists no public names"]
for name in listed:
    try:
        getattr(package, name)
    except Exception as error:
        answer.append(f"{given['package']}.{name} does not resolve: {error}")
    if name not in dir(package):
        answer.append(f"dir({given['package']}) leaves out {name}")
serve = getattr(package, '__getattr__', None)
for name in given['candidates'] if serve else ():
    try:
        serve(name)
    except (AttributeError, ImportError):
        continue
    if name not in dir(package):
        answer.append(f"dir({given['package']}) leaves out {name}, which is reachable")
for name in dir(package):
    try:
        getattr(package, name)
    except Exception as error:
        answer.append(f"{given['package']}.{name} is in dir() and does not resolve: {error}")
"""


def unlisted(package: Path) -> list[str]:
    """Packages whose `__all__` is not exactly what they export; other modules have none."""
    return [wrong for module in modules(package) for wrong in _compare(module)]


def unresolved(package: Path) -> list[str]:
    """Names of `__all__` and dir() that do not resolve, and what dir() leaves out."""
    (module,) = (m for m in modules(package) if m.name == package.name)
    given = {"package": package.name, "candidates": sorted(_mentioned(module.tree))}
    return ask(LAZY, given, package.parent)


def _compare(module: Module) -> Iterator[str]:
    listed, public = _listed(module.tree), _public(module)
    if not module.is_package:
        if listed is not None:
            yield f"{module.name} has an __all__, which is for packages"
        return
    if listed is None:
        if public and module.path.name != "__main__.py":
            yield f"{module.name} has no __all__ but defines {', '.join(sorted(public))}"
        return
    if len(set(listed)) < len(listed):
        yield f"{module.name}: __all__ lists a name twice"
    names = {name for name in listed if not name.startswith("__")}
    if not _is_lazy(module.tree):  # a lazy package's names are tried instead, see unresolved()
        for name in sorted(names - public):
            yield f"{module.name}: __all__ lists {name}, which is not defined there"
    for name in sorted(public - names):
        yield f"{module.name}: {name} is public but not in __all__"


def _listed(tree: ast.Module) -> list[str] | None:
    """The names in `__all__`; None without one."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def _public(module: Module) -> set[str]:
    found = set(_defined(module.tree.body))
    if module.is_package:
        found |= set(_reexported(module))
    return {name for name in found if not name.startswith("_")}


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """Classes, functions, constants and aliases at the top, also inside an if or a try."""
    for node in body:
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        elif isinstance(node, ast.If) and is_type_checking(node.test):
            continue
        elif isinstance(node, ast.If | ast.Try):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            for part in (node.body, node.orelse, *(h.body for h in handlers)):
                yield from _defined(part)


def _reexported(module: Module) -> Iterator[str]:
    """Names that a package takes from its own parts."""
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom):
            inner = node.level or (node.module or "").split(".")[0] == module.top
            yield from (alias.asname or alias.name for alias in node.names if inner)


def _is_lazy(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.FunctionDef) and n.name == "__getattr__" for n in tree.body)


def _mentioned(tree: ast.Module) -> set[str]:
    """Every word of the file that could be a public name: strings, and imports for types."""
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    words = {word for s in strings if isinstance(s, str) for word in s.split()}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {w for w in words | imported if w.isidentifier() and not w.startswith("_")}
