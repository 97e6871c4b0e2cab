"""The repository as the checks see it: files with their texts, trees (parsed once) and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
FOLDERS = ("src/regard", "web/src", "tests", "bench", "tools", "examples", "docs")
SUFFIXES = (".py", ".h", ".c", ".cpp", ".ts", ".tsx", ".css", ".md", ".json")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Import:
    """One name that a module imports."""

    target: str  # the dotted name, `a.b.c` for `from a.b import c` too
    line: int
    in_function: bool
    for_types: bool  # under `if TYPE_CHECKING`


@dataclass(frozen=True)
class Source:
    """One file."""

    path: str  # from the root of the repository
    text: str = field(repr=False)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    @cached_property
    def name(self) -> str:
        """Dotted; a package's __init__.py carries the package's name."""
        path = self.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        return path.replace("/", ".")

    @property
    def top(self) -> str:
        """The outermost package."""
        return self.name.split(".")[0]

    @property
    def unit(self) -> str:
        """The part of the package it belongs to: `regard.engine.backends.gpu.x` → engine."""
        return [*self.name.split("."), "__init__"][1]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def _nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        nodes: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            nodes.setdefault(type(node), []).append(node)
        return nodes

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        """Every node of these kinds, nested ones too."""
        for kind in kinds:
            yield from self._nodes.get(kind, ())  # type: ignore[misc]

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of the file, wherever it is."""
        guarded = (node.body for node in self.nodes(ast.If) if is_type_checking(node.test))
        typed = _imports_below([statement for body in guarded for statement in body])
        lazy = _imports_below(self.nodes(*FUNCTIONS))
        return [
            Import(f"{base}{alias.name}", node.lineno, node in lazy, node in typed)
            for node in sorted(self.nodes(*IMPORTS), key=lambda node: node.lineno)
            for base in [_base(node, self) if isinstance(node, ast.ImportFrom) else ""]
            for alias in node.names
        ]


class Sources(dict[str, Source]):
    """Files by their path."""

    @classmethod
    def read(cls, root: Path) -> Sources:
        """Of a clone: the package, the page, the tests, and what is around them."""
        inside = (path for folder in FOLDERS for path in (root / folder).rglob("*"))
        paths = sorted(path for path in (*root.glob("*.md"), *inside) if path.suffix in SUFFIXES)
        paths = [path for path in paths if "static" not in path.parts]  # the built page
        return cls.of(
            {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
        )

    @classmethod
    def of(cls, texts: dict[str, str]) -> Sources:
        return cls({path: Source(path, text) for path, text in texts.items()})

    def below(self, folder: str, *suffixes: str) -> list[Source]:
        """The files of a folder, Python's if no suffix is given."""
        wanted = suffixes or (".py",)
        inside = f"{folder}/"
        return [s for p, s in self.items() if p.startswith(inside) and p.endswith(wanted)]

    @property
    def package(self) -> list[Source]:
        """The modules of src/regard."""
        return self.below("src/regard")


def resolve(target: str, known: Iterable[str]) -> str:
    """The longest leading part of a dotted name that is a module: `regard.mask.Causal` → …mask."""
    while target not in known and "." in target:
        target = target.rpartition(".")[0]
    return target


def is_type_checking(test: ast.expr) -> bool:
    """Whether an `if` is about TYPE_CHECKING."""
    return last_word(test) == "TYPE_CHECKING"


def last_word(node: ast.AST) -> str:
    """The last word of a dotted name; of `Mapping[str, Any]` that of what is subscripted, of
    `triton.jit(…)` that of what is called."""
    if isinstance(node, ast.Subscript):
        return last_word(node.value)
    if isinstance(node, ast.Call):
        return last_word(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def decorators(node: Function) -> list[str]:
    """The last word of each decorator: `@triton.jit(…)` → jit."""
    return [last_word(decorator) for decorator in node.decorator_list]


def _imports_below(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    return {inner for node in nodes for inner in ast.walk(node) if isinstance(inner, IMPORTS)}


def _base(node: ast.ImportFrom, source: Source) -> str:
    """The absolute name of what `from … import` names, with a dot behind it."""
    if not node.level:
        return f"{node.module}."
    parts = source.name.split(".")
    here = parts if source.is_package else parts[:-1]
    up = here[: len(here) - (node.level - 1)]
    return ".".join([*up, *([node.module] if node.module else [])]) + "."
