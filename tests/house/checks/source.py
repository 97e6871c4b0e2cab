"""The sources as the checks see them: modules with their names, their trees and their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One name that a module imports."""

    target: str  # the dotted name asked for, `a.b.c` for `from a.b import c` too
    line: int
    in_function: bool
    for_types: bool  # under `if TYPE_CHECKING`


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str  # dotted; a package's __init__.py carries the package's name
    path: Path
    top: str  # the name of the outermost package

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def unit(self) -> str:
        """The part of the package it belongs to: `regard.engine.backends.gpu.x` → engine."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"

    def imports(self) -> list[Import]:
        """Every import in the file, wherever it stands."""
        return self._imported

    @cached_property
    def _imported(self) -> list[Import]:
        return list(_imports(self.tree, self, in_function=False, for_types=False))


def modules(package: Path) -> list[Module]:
    """Every Python file of a package folder, sorted by name."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found.append(_module(".".join(parts), path, package.name, path.stat().st_mtime_ns))
    return found


@lru_cache(maxsize=1000)
def _module(name: str, path: Path, top: str, _written: int) -> Module:
    """A file that was not written anew is parsed once for all checks."""
    return Module(name, path, top)


def resolve(target: str, known: set[str]) -> str:
    """The longest leading part of a dotted name that is a module: `regard.mask.Causal` → …mask."""
    while target not in known and "." in target:
        target = target.rpartition(".")[0]
    return target


def function_nodes(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))


def is_type_checking(test: ast.expr) -> bool:
    """Whether an `if` asks for TYPE_CHECKING."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The last word of each decorator: `@triton.jit(…)` → jit."""
    calls = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return [ast.unparse(d).rpartition(".")[2] for d in calls]


def _imports(
    node: ast.AST, module: Module, *, in_function: bool, for_types: bool
) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, in_function, for_types)
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, module)
        for alias in node.names:
            yield Import(f"{base}.{alias.name}", node.lineno, in_function, for_types)
    elif isinstance(node, ast.If) and is_type_checking(node.test):
        for child in node.body:
            yield from _imports(child, module, in_function=in_function, for_types=True)
        for child in node.orelse:
            yield from _imports(child, module, in_function=in_function, for_types=for_types)
    else:
        inside = in_function or isinstance(node, FUNCTIONS)
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, module, in_function=inside, for_types=for_types)


def _base(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name of what `from … import` names."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    here = parts if module.is_package else parts[:-1]
    up = here[: len(here) - (node.level - 1)]
    return ".".join([*up, *([node.module] if node.module else [])])
