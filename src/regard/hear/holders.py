"""Functions of other packages, and whoever holds them: modules that imported them, the model.

Nothing is imported: packages that are there already are looked through, and for as long as a block
lasts their functions are held by others that tell of each call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any

from torch import nn

from regard.hear.functions import FUNCTIONS, Reader
from regard.hear.packing import HeardCall, read_by

Tell = Callable[[Callable[[], HeardCall]], None]
_REAL = "__regard_stands_for__"
_TELL: ContextVar[tuple[Tell, ...]] = ContextVar("regard_told_of_functions", default=())
_INSIDE: ContextVar[bool] = ContextVar("regard_inside_a_heard_function", default=False)


def is_inside() -> bool:
    """Whether a function that is heard is at work: what it calls is its own business."""
    return _INSIDE.get()


@contextmanager
def inside() -> Iterator[None]:
    """Within the block, a function that is heard is at work."""
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


@contextmanager
def told_of_functions(tell: Tell) -> Iterator[None]:
    """Within the block, `tell` gets every call of a function that `functions_around` found, as
    something that says what was computed, or raises UnreadableError."""
    token = _TELL.set((*_TELL.get(), tell))
    try:
        yield
    finally:
        _TELL.reset(token)


@contextmanager
def functions_around(model: nn.Module) -> Iterator[None]:
    """Within the block, whoever holds one of the functions holds one that tells of its calls."""
    around: dict[int, Any] = {}
    for home, readers in FUNCTIONS.items():
        there = sys.modules.get(home)
        for name, reader in readers.items():
            real = getattr(there, name, None)
            real = getattr(real, _REAL, real)  # where somebody else listens too
            if callable(real):
                around.setdefault(id(real), _telling(real, reader))
    held = list(_holders(model, around)) if around else []
    try:
        for owner, name, _, telling in held:
            setattr(owner, name, telling)
        yield
    finally:
        for owner, name, real, _ in held:
            setattr(owner, name, real)


def tell(call: Callable[[], HeardCall]) -> None:
    """Whoever listens is told of a call that was made."""
    for one in _TELL.get():
        one(call)


def _telling(real: Any, reader: Reader) -> Any:
    @wraps(real)
    def function(*args: Any, **kwargs: Any) -> Any:
        if is_inside() or not _TELL.get():
            return real(*args, **kwargs)
        with inside():
            found = real(*args, **kwargs)
        tell(lambda: read_by(reader, found, *args, **kwargs))
        return found

    setattr(function, _REAL, real)
    return function


def _holders(model: nn.Module, around: dict[int, Any]) -> Iterator[tuple[Any, str, Any, Any]]:
    """Who holds a function, by what name, what is held, and what is to be held instead."""
    # by their type alone: some objects that stand there for modules warn when they are looked at
    there = [one for one in list(sys.modules.values()) if issubclass(type(one), ModuleType)]
    owners: dict[int, Any] = {id(one): one for one in there}
    for module in model.modules():
        owners[id(module)] = module
        owners |= {id(kind): kind for kind in type(module).__mro__[:-1]}
    for owner in owners.values():
        for name, value in list(vars(owner).items()):
            if id(value) in around:
                yield owner, name, value, around[id(value)]
            elif type(value) is staticmethod and id(value.__func__) in around:
                yield owner, name, value, staticmethod(around[id(value.__func__)])
