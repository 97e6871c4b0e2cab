"""Functions of other packages, and whoever holds them: modules that imported them, the model.

Nothing is imported: packages that are there already are looked through, and for as long as a model
is followed their functions are held by others that tell of each call, to followers in scope.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import torch
from torch import nn

from regard.hear.attached import Substitutes, following, loaded_modules, replace
from regard.hear.functions import FUNCTIONS, Reader, dot_product_attention
from regard.hear.packing import HeardCall, UnreadableError, read_by

_REAL = "__regard_stands_for__"
_INSIDE: ContextVar[bool] = ContextVar("regard_inside_a_heard_function", default=False)
_ENGINE = "transformer_engine."
_TELLING: dict[int, tuple[Any, Any]] = {}  # by id: a function and what tells of its calls


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


def substituted_functions(model: nn.Module) -> Substitutes:
    """What modules of the model hold, for as long as they are followed; whoever else holds one of
    the functions holds one that tells of its calls until nothing is followed."""
    kinds = {id(kind): kind for module in model.modules() for kind in type(module).__mro__[:-1]}
    for kind in kinds.values():
        forward = vars(kind).get("forward")
        if kind.__name__ == "DotProductAttention" and kind.__module__.startswith(_ENGINE):
            replace(kind, "forward", _telling(forward, _of_engine))
    around: dict[int, Any] = {}
    for home, readers in FUNCTIONS.items():
        there = sys.modules.get(home)
        for name, reader in readers.items():
            real = getattr(there, name, None)
            real = getattr(real, _REAL, real)  # where a model is followed already
            if callable(real):
                around.setdefault(id(real), _telling(real, reader))
    if not around:
        return {}
    for owner in (*loaded_modules(), *kinds.values()):
        for name, value in list(vars(owner).items()):
            if id(value) in around:
                replace(owner, name, around[id(value)])
            elif type(value) is staticmethod and id(value.__func__) in around:
                replace(owner, name, staticmethod(around[id(value.__func__)]))
    return {
        (id(module), name): (module, lambda held: around.get(id(held), held))
        for module in model.modules()
        for name, value in vars(module).items()
        if id(value) in around
    }


def is_heard() -> bool:
    """Whether a follower in scope hears what functions compute."""
    return any(follower.listens() for follower in following())


def tell(call: Callable[[], HeardCall]) -> None:
    """Followers get a call that was made, as what says what was computed, or raises
    UnreadableError."""
    hearing = [follower for follower in following() if follower.listens()]
    if not hearing:
        return
    with torch.no_grad():
        try:
            heard = call()
        except UnreadableError as why:
            miss(str(why))
            return
        for follower in hearing:
            follower.see(heard)


def miss(why: str) -> None:
    """Followers learn that attention was computed and cannot be said."""
    for follower in following():
        follower.miss(why)


def _of_engine(returned: Any, module: Any, *args: Any, **kwargs: Any) -> HeardCall:
    return read_by(dot_product_attention, module, returned, *args, **kwargs)


def _telling(real: Any, reader: Reader) -> Any:
    if id(real) in _TELLING:
        return _TELLING[id(real)][1]

    @wraps(real)
    def function(*args: Any, **kwargs: Any) -> Any:
        if is_inside() or not is_heard():
            return real(*args, **kwargs)
        with inside():
            returned = real(*args, **kwargs)
        tell(lambda: read_by(reader, returned, *args, **kwargs))
        return returned

    setattr(function, _REAL, real)
    _TELLING[id(real)] = (real, function)
    return function
