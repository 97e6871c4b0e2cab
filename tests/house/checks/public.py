"""Public names: `__all__` is what a package exports, and what it exports is documented."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from house.checks.source import (
    DEFINITIONS,
    FUNCTIONS,
    Function,
    Source,
    Sources,
    decorators,
)

# Named after what they plug into, since users type it; imports are absolute, so both can be meant.
PLUGGED_INTO = {"vllm"}


def unlisted(sources: Sources) -> list[str]:
    """Packages whose `__all__` is not exactly what they export; other modules have none."""
    return [fault for source in _shipped(sources) for fault in _list_faults(source)]


def undocumented(sources: Sources) -> list[str]:
    """Classes and functions of a name in an `__all__` without a docstring, and their public
    methods, unless another class documents a method of that name: what implements it need not."""
    modules = _shipped(sources)
    exported = {name for source in modules for name in listed(source) or ()}
    classes = (node for source in modules for node in source.nodes(ast.ClassDef))
    documented = {m.name for node in classes for m in _methods(node) if ast.get_docstring(m)}
    wrong = []
    for source in modules:
        for node in source.tree.body:
            if isinstance(node, DEFINITIONS) and node.name in exported:
                name = f"{source.name}.{node.name}"
                wrong += [] if ast.get_docstring(node) else [f"{name} has no docstring"]
                wrong += [
                    f"{name}.{method.name} has no docstring"
                    for method in _methods(node)
                    if method.name not in documented
                ]
    return wrong


def shadows(sources: Sources) -> list[str]:
    """Folders called like a module of the standard library or one that the package imports."""
    imported = {i.target.split(".")[0] for source in sources.package for i in source.imports}
    taken = (imported | set(sys.stdlib_module_names)) - PLUGGED_INTO - {"regard"}
    files = (path for path in sources if path.endswith(".py"))
    folders = {
        "/".join(path.split("/")[:n]) for path in files for n in range(2, path.count("/") + 1)
    }
    inside = sorted(f for f in folders if f.startswith(("src/regard/", "tests/")))
    shadowing = [(f, f.rpartition("/")[2]) for f in inside if f.rpartition("/")[2] in taken]
    return [f"{folder} shadows the module {name}" for folder, name in shadowing]


def listed(source: Source) -> list[str] | None:
    """The names in `__all__`; None without it."""
    for node in source.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            return [str(name) for name in ast.literal_eval(node.value)]  # type: ignore[attr-defined]
    return None


def _shipped(sources: Sources) -> list[Source]:
    return [*sources.package, *sources.below("bench")]


def _list_faults(source: Source) -> Iterator[str]:
    exported, public = listed(source), _public(source)
    if not source.is_package:
        if exported is not None:
            yield f"{source.name} has an __all__, which is for packages"
        return
    if exported is None:
        if public:
            yield f"{source.name} has no __all__ but defines {', '.join(sorted(public))}"
        return
    if len(set(exported)) < len(exported):
        yield f"{source.name}: __all__ lists a name twice"
    names = {name for name in exported if not name.startswith("__")}
    if not _is_lazy(source):  # a lazy package's names are tried instead, in fresh.py
        for name in sorted(names - public):
            yield f"{source.name}: __all__ lists {name}, which is not defined there"
    for name in sorted(public - names):
        yield f"{source.name}: {name} is public but not in __all__"


def _public(source: Source) -> set[str]:
    names = set(_defined(source.tree.body))
    if source.is_package:
        names |= set(_reexported(source))
    return {name for name in names if not name.startswith("_")}


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Classes, functions, constants and aliases at the top, also inside a try."""
    for node in body:
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        elif isinstance(node, ast.Try):
            yield from _defined([*node.body, *(s for h in node.handlers for s in h.body)])


def _reexported(source: Source) -> Iterator[str]:
    """Names that a package takes from its own parts."""
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == source.top:
            yield from (alias.asname or alias.name for alias in node.names)


def _is_lazy(source: Source) -> bool:
    return any(isinstance(n, FUNCTIONS) and n.name == "__getattr__" for n in source.tree.body)


def _methods(node: ast.AST) -> list[Function]:
    """The public ones of a class, without overloads and setters: the documented one is beside."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    methods = (m for m in body if isinstance(m, FUNCTIONS) and not m.name.startswith("_"))
    return [m for m in methods if not {"overload", "setter", "deleter"} & set(decorators(m))]
