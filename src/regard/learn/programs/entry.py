"""What to call in a file, and which of its arguments means what."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Final

from regard.learn.programs.names import parameter, plain, role

_QKV: Final = {"q", "k", "v"}
COMPLETE: Final[tuple[set[str], ...]] = ({"w_q", "w_k", "w_v"}, {"w_q", "w_kv"}, {"w_qkv"})
_AROUND: Final = (
    "block",
    "encoder",
    "decoder",
    "transformer",
    "gpt",
    "model",
    "feedforward",
    "ffn",
)
_METHODS: Final = ("forward", "__call__", "attend", "attention", "apply", "compute", "call", "run")


@dataclass(frozen=True)
class Target:
    """A function or a class, with the roles of its arguments by name."""

    name: str
    thing: Any
    kind: str  # function, module, class
    call: dict[str, str]  # argument → role
    build: dict[str, str] = field(default_factory=dict)
    method: str = ""
    globals: bool = False  # its weights are the file's
    uses: frozenset[str] = frozenset()  # the other targets it is made of

    @property
    def roles(self) -> set[str]:
        """Those of the call."""
        return set(self.call.values())

    @property
    def signature(self) -> str:
        """Name(arguments), as written."""
        made = f"({', '.join(self.build)})" if self.kind != "function" else ""
        return f"{self.name}{made}({', '.join(self.call)})"


def targets(module: ModuleType, source: str) -> list[Target]:
    """What could be called, the most encompassing first."""
    found = [one for name, thing in vars(module).items() if (one := _target(name, thing, module))]
    names = {one.name for one in found}
    used = _uses(ast.parse(source), names)
    found = [replace(one, uses=frozenset(_reached(one.name, used))) for one in found]
    order = list(vars(module))

    def rank(one: Target) -> tuple[bool, bool, bool, int, int]:
        word = plain(one.name)
        attends = "att" in word or "head" in word or word in ("mha", "sdpa", "mhsa")
        around = not attends and any(other in word for other in _AROUND)
        inner = any(one.name in used[other] for other in names - {one.name})
        weight = {"module": 3, "class": 3}.get(one.kind, 2 if "w_q" in one.roles else 1)
        return around, not attends, inner, -weight, -order.index(one.name)

    return sorted(found, key=rank)


def _uses(tree: ast.Module, names: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in found:
            loaded = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
            found[node.name] = loaded & names
    return found


def _reached(name: str, used: dict[str, set[str]]) -> set[str]:
    """What it uses, and what that uses in turn."""
    reached: set[str] = set()
    waiting = {name}
    while waiting:
        waiting = set().union(*(used[one] for one in waiting)) - reached
        reached |= waiting
    return reached - {name}


def _target(name: str, thing: Any, module: ModuleType) -> Target | None:
    if getattr(thing, "__module__", None) != module.__name__ or name.startswith("__"):
        return None
    if inspect.isclass(thing):
        return _class(name, thing)
    if not callable(thing) or not (inspect.isfunction(thing) or hasattr(thing, "__wrapped__")):
        return None
    call = _call_roles(_arguments(thing))
    if call is None:
        return None
    roles = set(call.values())
    own = roles >= _QKV or ("q" in roles and "x_kv" in roles)
    weights = any(roles >= one for one in COMPLETE)
    if own or ("x" in roles and weights):
        return Target(name, thing, "function", call)
    held = {parameter(other) for other, value in vars(module).items() if hasattr(value, "shape")}
    if "x" in roles and any(held >= one for one in COMPLETE):
        return Target(name, thing, "function", call, globals=True)
    return None


def _arguments(thing: Any) -> list[inspect.Parameter]:
    try:
        every = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _call_roles(arguments: list[inspect.Parameter]) -> dict[str, str] | None:
    """Roles of a call's arguments; None where a required one has none."""
    roles: dict[str, str] = {}
    required = [one for one in arguments if one.default is one.empty]
    for one in arguments:
        meant = role(one.name)
        taken = set(roles.values())
        if meant == "x" and ("x" in taken or "q" in taken):
            meant = "heads" if plain(one.name) == "h" else "x_kv" if "k" not in taken else ""
        if meant in taken and meant != "":
            meant = ""
        if not meant and one.default is one.empty:
            meant = _positional(one, required, roles)
            if not meant:
                return None
        if meant:
            roles[one.name] = meant
    return roles


def _positional(one: inspect.Parameter, required: list[Any], roles: dict[str, str]) -> str:
    """Three arguments without telling names are q, k and v; four are x and its weights."""
    if any(role(other.name) not in ("", "x", "embed", "batch") for other in required):
        return ""
    order = {1: ["x"], 3: ["q", "k", "v"], 4: ["x", "w_q", "w_k", "w_v"],
             5: ["x", "w_q", "w_k", "w_v", "w_o"]}.get(len(required))  # fmt: skip
    return order[required.index(one)] if order else ""


def _class(name: str, thing: type) -> Target | None:
    modular = any(base.__name__ == "Module" for base in thing.__mro__[1:])
    method = next((m for m in _METHODS if callable(thing.__dict__.get(m))), "")
    if not method:
        method = next((m for m in _METHODS if m != "__call__" and hasattr(thing, m)), "")
    if not method or (modular and method != "forward"):
        return None
    call = _call_roles(_arguments(getattr(thing, method))[1:])
    made = inspect.getattr_static(thing, "__init__") if "__init__" in _methods(thing) else None
    build = _build_roles(_arguments(made)[1:]) if made else {}
    if call is None or build is None:
        return None
    roles = set(call.values())
    if not (roles >= _QKV or "x" in roles or "q" in roles):
        return None
    return Target(name, thing, "module" if modular else "class", call, build, method)


def _methods(thing: type) -> set[str]:
    return {key for base in thing.__mro__[:-1] for key in vars(base) if base.__name__ != "Module"}


def _build_roles(arguments: list[inspect.Parameter]) -> dict[str, str] | None:
    """Roles of a constructor's arguments: sizes and flags; None where a required one has none."""
    roles: dict[str, str] = {}
    for one in arguments:
        meant = role(one.name)
        word = plain(one.name)
        if meant in ("x", "q", "k", "v", "x_kv"):
            other = "max_len" if meant == "x_kv" else "embed"
            meant = {"h": "heads", "k": "heads", "v": "d_v"}.get(word, other)
        if meant == "b_qkv":
            meant = "bias"
        if meant == "mask":
            meant = "causal"
        if meant in roles.values():
            meant = ""
        if not meant and one.default is one.empty:
            return None
        if meant:
            roles[one.name] = meant
    return roles
