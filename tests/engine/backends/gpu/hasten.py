"""Triton's interpreter without what it does over and over; results are the same to the bit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

__all__ = ["as_it_was", "hasten"]

_NEEDED = {  # of this Triton
    interpreter: ("_patch_builtin", "_patch_attr", "_patch_lang", "_get_np_dtype",
                  "interpreter_builder", "interpreter_semantic"),
    core: ("_unwrap_if_constexpr", "block_type", "constexpr", "dtype", "tensor"),
    tl.standard: ("_xor_combine",),
    TritonSemantic: ("binary_op_type_checking_impl", "broadcast_impl_value",
                     "computation_type_impl"),
    interpreter.ReduceOps: ("generic_reduce",),
}  # fmt: skip
_REPLACED: list[tuple[Any, str, Any]] = []


def hasten() -> None:
    """Once in a process. Another Triton, in which these are not there, is left as it is."""
    if not all(hasattr(owner, name) for owner, names in _NEEDED.items() for name in names):
        return
    if not _REPLACED:
        _names_once()
        _patch_once_a_launch()
        _types_once()
        _shapes_once()
        _operands_alike()
        _exclusive_or_at_once()
        _no_unread_overflow()


@contextmanager
def as_it_was() -> Iterator[None]:
    """Triton's own interpreter again, to compare with."""
    mine = [(owner, name, getattr(owner, name)) for owner, name, _ in _REPLACED]
    for owner, name, original in _REPLACED:
        setattr(owner, name, original)
    try:
        yield
    finally:
        for owner, name, it in mine:
            setattr(owner, name, it)


def _replace(owner: Any, name: str, it: Any) -> None:
    _REPLACED.append((owner, name, getattr(owner, name)))
    setattr(owner, name, it)


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

    _replace(interpreter, "_patch_builtin", patch)


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

    def patch_attr(module: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        semantic = interpreter.interpreter_semantic

        def with_semantic(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return member(*args, **kwargs)

        scope.set_attr(module, name, with_semantic)

    _replace(interpreter, "_patch_lang", patch_lang)
    _replace(interpreter, "_patch_attr", patch_attr)


def _types_once() -> None:
    """numpy's types by name; the interpreter makes its table anew at every call. A type is itself
    before it is compared by name, and numbers and tensors hold nothing to unwrap."""
    look_up, known = interpreter._get_np_dtype, dict[str, Any]()
    unwrap, same = core._unwrap_if_constexpr, core.dtype.__eq__
    bare = {int, float, bool, str, type(None), core.tensor, core.dtype}

    def np_dtype(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in known:
            known[name] = look_up(kind)
        return known[name]

    def unwrapped(it: Any) -> Any:
        kind = type(it)
        if kind in bare:
            return it
        return it.value if kind is core.constexpr else unwrap(it)

    def equal(self: Any, other: Any) -> bool:
        return self is other or same(self, other)

    _replace(interpreter, "_get_np_dtype", np_dtype)
    _replace(core, "_unwrap_if_constexpr", unwrapped)
    _replace(core.dtype, "__eq__", equal)


def _shapes_once() -> None:
    """A shape is checked, counted and wrapped when it first occurs, not for every block and every
    tensor of it."""
    make, start = core.block_type.__init__, core.tensor.__init__
    known: dict[tuple[int, ...], tuple[Any, ...]] = {}
    wrapped: dict[int, tuple[Any, Any]] = {}  # by the address of a shape in `known`; 0: no shape

    def block_type(self: Any, element_ty: Any, shape: Any) -> None:
        key = tuple(map(core._unwrap_if_constexpr, shape))
        if key not in known:
            make(self, element_ty, shape)
            known[key] = self.shape, self.numel, f"<{self.shape}, "
        self.element_ty = element_ty
        self.shape, self.numel, name = known[key]
        self.name = f"{name}{element_ty}>"

    def tensor(self: Any, handle: Any, kind: Any) -> None:
        place = id(kind.shape) if kind.is_block() else 0
        if place not in wrapped:
            start(self, handle, kind)
            wrapped[place] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, kind, kind.scalar
        self.shape, self.numel = wrapped[place]

    _replace(core.block_type, "__init__", block_type)
    _replace(core.tensor, "__init__", tensor)


def _operands_alike() -> None:
    """Operands of one type and shape need neither a cast nor a broadcast; what types of others
    give is looked up once."""
    check = TritonSemantic.binary_op_type_checking_impl
    broadcast = TritonSemantic.broadcast_impl_value
    promote, promoted = TritonSemantic.computation_type_impl, dict[tuple[Any, ...], Any]()

    def checked(
        self: Any, lhs: Any, rhs: Any, ptr: bool = False, other_ptr: bool = False,
        arithmetic_check: bool = True, div_or_mod: bool = False,
    ) -> Any:  # fmt: skip
        if not div_or_mod and type(lhs) is type(rhs) is core.tensor:
            kind = lhs.dtype
            if kind is rhs.dtype and lhs.shape is rhs.shape and not kind.is_ptr():
                return lhs, rhs
        return check(self, lhs, rhs, ptr, other_ptr, arithmetic_check, div_or_mod)

    def compatible(self: Any, lhs: Any, rhs: Any) -> Any:
        return (lhs, rhs) if lhs.shape is rhs.shape else broadcast(self, lhs, rhs)

    def type_of(self: Any, a: Any, a_scalar: bool, b: Any, b_scalar: bool, div: bool) -> Any:
        key = a.name, a_scalar, b.name, b_scalar, div
        if key not in promoted:
            promoted[key] = promote(self, a, a_scalar, b, b_scalar, div)
        return promoted[key]

    _replace(TritonSemantic, "computation_type_impl", type_of)
    _replace(TritonSemantic, "binary_op_type_checking_impl", checked)
    _replace(TritonSemantic, "broadcast_impl_value", compatible)


def _exclusive_or_at_once() -> None:
    """The interpreter calls a function for every element."""
    each = interpreter.ReduceOps.generic_reduce

    def reduce(self: Any, given: Any) -> Any:
        if self.combine_fn is not tl.standard._xor_combine or self.axis is None:
            return each(self, given)
        data, axis = given[0].handle.data, self.axis
        found = np.bitwise_xor.reduce(data, axis, keepdims=self.keep_dims)
        return [self.to_tensor(found, given[0].dtype)]

    _replace(interpreter.ReduceOps, "generic_reduce", reduce)


def _no_unread_overflow() -> None:
    """Sums of integers are made again in 64 bits, for an assertion of debug mode alone."""
    options = interpreter.interpreter_builder.options
    if not options.debug:
        unread = replace(options, sanitize_overflow=False)
        _replace(interpreter.interpreter_builder, "options", unread)
