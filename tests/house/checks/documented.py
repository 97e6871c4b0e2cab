"""Every public name has a docstring and full type hints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from house.checks.source import DEFINITIONS, FUNCTIONS, Module, decorators, modules

Function = ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(package: Path) -> list[str]:
    """Modules, classes, functions and methods without a docstring."""
    wrong = []
    declared = _declared(package)
    for module in modules(package):
        if not ast.get_docstring(module.tree):
            wrong.append(f"{module.name} has no docstring")
        overrides = _overrides(module, declared)
        for name, node in _public(module):
            if not ast.get_docstring(node) and not _speaks_for_another(node) | (node in overrides):
                wrong.append(f"{name} has no docstring")
    return wrong


def _declared(package: Path) -> set[str]:
    """Methods that protocols and base classes document: what implements them need not."""
    classes = (n for m in modules(package) for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef))
    return {
        node.name
        for one in classes
        for node in one.body
        if isinstance(node, FUNCTIONS) and ast.get_docstring(node)
    }


def _overrides(module: Module, declared: set[str]) -> set[ast.AST]:
    """Methods of a name that another class documents."""
    classes = (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
    methods = (node for one in classes for node in one.body if isinstance(node, FUNCTIONS))
    return {node for node in methods if node.name in declared}


def unhinted(package: Path) -> list[str]:
    """Parameters and results without a type."""
    wrong = []
    for module in modules(package):
        for name, node in _public(module):
            if isinstance(node, FUNCTIONS) and not _is_kernel(node):
                missing = list(_bare(node))
                if missing:
                    wrong.append(f"{name} has no type for {', '.join(missing)}")
    return wrong


def _public(module: Module) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Public classes and functions at the top, and public methods of public classes."""
    todo = [(module.name, module.tree.body)]
    for prefix, body in todo:  # grows while it is walked
        for node in body:
            if isinstance(node, DEFINITIONS) and not node.name.startswith("_"):
                name = f"{prefix}.{node.name}"
                yield name, node
                if isinstance(node, ast.ClassDef):
                    todo.append((name, node.body))


def _speaks_for_another(node: ast.AST) -> bool:
    """Overloads and setters: the documented function stands next to them."""
    return isinstance(node, FUNCTIONS) and bool(
        {"overload", "setter", "deleter"} & set(decorators(node))
    )


def _is_kernel(node: Function) -> bool:
    """Compiled by Triton, whose parameters are typed at the call."""
    return "jit" in decorators(node)


def _bare(node: Function) -> Iterator[str]:
    """The names of parameters without annotation, and `return`."""
    given = node.args
    ordinary = [*given.posonlyargs, *given.args]
    if ordinary and ordinary[0].arg in ("self", "cls"):
        ordinary = ordinary[1:]
    starred = [arg for arg in (given.vararg, given.kwarg) if arg]
    yield from (a.arg for a in (*ordinary, *given.kwonlyargs, *starred) if not a.annotation)
    if node.returns is None:
        yield "return"
