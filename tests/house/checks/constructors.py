"""What a reader cannot keep in mind: constructors with many positional arguments, and methods that
read like a question and change something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from house.checks.source import decorators, modules

MOST_POSITIONAL = 6
MUTATORS = ("add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update")
QUESTIONS = ("is_", "has_", "can_", "may_", "needs_", "wants")  # and every property


def long_constructors(package: Path, units: tuple[str, ...]) -> list[str]:
    """Classes of these units that take more positional arguments than one can tell apart."""
    wrong = []
    for module in modules(package):
        for node in ast.walk(module.tree) if module.unit in units else ():
            if isinstance(node, ast.ClassDef) and (count := _positional(node)) > MOST_POSITIONAL:
                wrong.append(
                    f"{module.name}:{node.lineno}: {node.name} takes {count} positional arguments; "
                    f"at most {MOST_POSITIONAL}, the others by keyword"
                )
    return wrong


def changing_questions(package: Path) -> list[str]:
    """Properties and methods named like a question that change attributes of self. What is changed
    under an `if` that looks at the same attribute is a cache."""
    wrong = []
    for module in modules(package):
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and _is_question(method):
                    wrong += [
                        f"{module.name}:{line}: {node.name}.{method.name} reads like a question "
                        f"and changes self.{name}"
                        for name, line in _assigned(method, frozenset())
                    ]
    return wrong


def _positional(node: ast.ClassDef) -> int:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return len(method.args.posonlyargs) + len(method.args.args) - 1
    kinds = [ast.unparse(one) for one in node.decorator_list]
    is_record = any("NamedTuple" in ast.unparse(base) for base in node.bases)
    if not is_record and not any(kind.split("(")[0].endswith("dataclass") for kind in kinds):
        return 0
    return 0 if any("kw_only=True" in kind for kind in kinds) else _fields(node)


def _fields(node: ast.ClassDef) -> int:
    """Those of a dataclass that `__init__` takes by place."""
    count = 0
    for line in node.body:
        if not isinstance(line, ast.AnnAssign):
            continue
        kind, default = ast.unparse(line.annotation), ast.unparse(line.value or ast.Constant(0))
        if kind.endswith("KW_ONLY"):
            break
        by_place = "kw_only=True" not in default and "init=False" not in default
        count += by_place and "ClassVar" not in kind
    return count


def _is_question(method: ast.FunctionDef) -> bool:
    named = method.name.lstrip("_").startswith(QUESTIONS)
    return named or "property" in decorators(method)


def _assigned(node: ast.AST, looked_at: frozenset[str]) -> Iterator[tuple[str, int]]:
    """(attribute, line) of each change to self.…: assigned, self.…[…] included, or mutated."""
    if isinstance(node, ast.If):
        looked_at |= {name for one in ast.walk(node.test) if (name := _of_self(one))}
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        targets = [node.func.value] if node.func.attr in MUTATORS else []
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            name = _of_self(one.value if isinstance(one, ast.Subscript) else one)
            if name and name not in looked_at:
                yield name, getattr(node, "lineno", 0)
    for child in ast.iter_child_nodes(node):
        yield from _assigned(child, looked_at)


def _of_self(node: ast.AST) -> str:
    """x of `self.x`; else nothing."""
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return node.attr if is_own and node.value.id == "self" else ""  # type: ignore[attr-defined]
