"""A mask as text and arrays, and back: how masks pass through torch's operators and files.

    describe(Causal() & Padding([3, 5]))  →  "('both',('causal','end'),('padding',False))", [[3, 5]]

The text says the structure; arrays follow in the order of `mask.arrays()`. A Rule's function
cannot be written down: the text names it, for as long as somebody holds on to it.
"""

from __future__ import annotations

import ast
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from regard.errors import InputError
from regard.mask.algebra import Both, Either, Mask, Not, Table
from regard.mask.contents import Documents, Padding, Rule
from regard.mask.part import Part
from regard.mask.positions import Causal, Prefix, Window

__all__ = ["describe", "rebuild", "rules_in"]

_numbers = itertools.count()
_number_of: weakref.WeakKeyDictionary[Callable[..., Any], int] = weakref.WeakKeyDictionary()
_rule_of: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()
_held: dict[int, Callable[..., Any]] = {}  # callables that take no weak references, for good


def describe(mask: Mask | None) -> str:
    """The structure of a mask, without its arrays."""
    if mask is None:
        return "None"
    if isinstance(mask, Both):
        return f"('both',{describe(mask.left)},{describe(mask.right)})"
    if isinstance(mask, Either):
        return f"('either',{describe(mask.left)},{describe(mask.right)})"
    if isinstance(mask, Not):
        return f"('not',{describe(mask.mask)})"
    if isinstance(mask, Causal):
        return f"('causal','{mask.align}')"
    if isinstance(mask, Window):
        return f"('window',{mask.left},{mask.right},'{mask.align}')"
    if isinstance(mask, Padding):
        return f"('padding',{mask.queries is not None})"
    if isinstance(mask, Part):
        place = f"{mask.query_start},{mask.key_start},{mask.queries},{mask.keys}"
        return f"('part',{describe(mask.mask)},{place})"
    if isinstance(mask, Rule):
        return f"('rule',{_register(mask.fn)},{mask.entry})"
    names = {Prefix: "prefix", Documents: "documents", Table: "table"}
    if type(mask) not in names:
        raise InputError(f"a {type(mask).__name__} mask cannot be described; use regard.Rule")
    return f"('{names[type(mask)]}',)"


def rebuild(text: str, arrays: Iterable[Any]) -> Mask | None:
    """The mask that `describe` described, over these arrays."""
    return _build(_parsed(text), iter(arrays))


def rules_in(text: str) -> list[Callable[..., Any]]:
    """The functions a description names; holding them keeps the description valid."""
    return list(_walk_rules(_parsed(text)))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return ast.literal_eval(text)


def _register(fn: Callable[..., Any]) -> int:
    try:
        if fn not in _number_of:
            _number_of[fn] = number = next(_numbers)
            _rule_of[number] = fn
        return _number_of[fn]
    except TypeError:  # not hashable, or not to be referred to weakly: known by identity
        return _register_by_identity(fn)


def _register_by_identity(fn: Callable[..., Any]) -> int:
    for number, other in [*_rule_of.items(), *_held.items()]:
        if other is fn:
            return number
    number = next(_numbers)
    try:
        _rule_of[number] = fn
    except TypeError:
        _held[number] = fn
    return number


def _function(number: int) -> Callable[..., Any]:
    fn = _held.get(number) or _rule_of.get(number)
    if fn is None:
        raise InputError("the function of this Rule is gone; keep a reference to it")
    return fn


def _walk_rules(node: Any) -> Iterator[Callable[..., Any]]:
    if not isinstance(node, tuple) or not node:
        return
    if node[0] == "rule":
        yield _function(node[1])
    for part in node[1:]:
        yield from _walk_rules(part)


def _build(node: Any, arrays: Iterator[Any]) -> Mask | None:
    if node is None:
        return None
    kind, *rest = node
    if kind in ("both", "either", "not"):
        parts = [_build(part, arrays) for part in rest]
        return {"both": Both, "either": Either, "not": Not}[kind](*parts)
    if kind == "part":
        inner = _build(rest[0], arrays)
        return None if inner is None else Part(inner, *rest[1:])
    if kind == "causal":
        return Causal(rest[0])
    if kind == "window":
        return Window(*rest)
    if kind == "prefix":
        return Prefix(next(arrays))
    if kind == "padding":
        return Padding(next(arrays), next(arrays) if rest[0] else None)
    if kind == "documents":
        return Documents(next(arrays), next(arrays))
    if kind == "table":
        return Table(next(arrays))
    return Rule(_function(rest[0]), rest[1])
