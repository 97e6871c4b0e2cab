"""Triton's interpreter without what it does over and over; results are the same to the bit."""

from __future__ import annotations

import inspect
from typing import Any

import triton.language as tl
from triton.language import core
from triton.runtime import interpreter

__all__ = ["hasten"]

_NEEDED = ("_patch_builtin", "_patch_attr", "_patch_lang", "_get_np_dtype")  # of this Triton


def hasten() -> None:
    """Once in a process. Another Triton, in which these are not there, is left as it is."""
    if not all(hasattr(interpreter, name) for name in _NEEDED):
        return
    if not hasattr(interpreter._patch_builtin, "hastened"):
        _names_once()
        _patch_once_a_launch()
        _types_once()


def _names_once() -> None:
    """The interpreter looks through all of Triton's names at every call; once is enough."""
    builtins: dict[Any, list[str]] = {}

    def patch(module: Any, builder: Any, scope: Any) -> None:
        if module not in builtins:
            members = inspect.getmembers(module)
            builtins[module] = [name for name, it in members if core.is_builtin(it)]
        for name in builtins[module]:
            if core.is_builtin(it := getattr(module, name)):
                interpreter._patch_attr(module, name, it, builder, scope)

    patch.hastened = True  # type: ignore[attr-defined]
    interpreter._patch_builtin = patch


def _patch_once_a_launch() -> None:
    """A kernel's launch replaces Triton's functions until it ends. So does every function that the
    kernel calls, although it finds them replaced."""
    patch, languages, active = interpreter._patch_lang, dict[int, set[int]](), set[int]()

    def patch_lang(fn: Any) -> Any:
        names = fn.__globals__
        if id(names) not in languages:
            languages[id(names)] = {id(it) for it in names.values() if it is tl or it is core}
        if active and languages[id(names)] <= active:
            return None  # inside a launch nobody uses it
        scope, outermost = patch(fn), not active
        active.update(languages[id(names)])
        if outermost:
            restore = scope.restore

            def restore_and_forget() -> None:
                restore()
                active.clear()

            scope.restore = restore_and_forget
        return scope

    interpreter._patch_lang = patch_lang


def _types_once() -> None:
    """numpy's types by name; the interpreter makes its table anew at every call."""
    look_up, known = interpreter._get_np_dtype, dict[str, Any]()

    def np_dtype(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in known:
            known[name] = look_up(kind)
        return known[name]

    interpreter._get_np_dtype = np_dtype
