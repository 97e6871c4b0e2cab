"""What is attached to models: recordings, monitors and knock-outs, all of them here alone.

Nothing is written on a model or its configuration, so that copies, pickles, replicas and other
threads have the plain model, and nothing has to be put back in order. While any model is followed,

calls       `nn.Module`'s own call asks a table who follows the module. Followers are entered in
            the order in which they were attached and left in the opposite one, after any exception
            and Ctrl-C too; they may be detached in any order, by any thread, during a call
attributes  an attribute (a configuration's implementation, a function that a module holds) reads
            as another value where a follower of its owner is in scope, and as its own elsewhere
globals     functions of packages are exchanged for ones that behave as before where no follower
            is in scope, until nothing is followed any more

A follower is in scope in the context that attached it: its thread or asyncio task and those that
copy its context. One that is `everywhere` is so in all threads, during calls of its model. A thread
of autograd's own, where checkpointing runs layers again for their gradients, has no context; there
all followers of the model are in scope.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import nn

from regard.hear.packing import HeardCall

Substitutes: TypeAlias = Mapping[tuple[int, str], tuple[Any, Callable[[Any], Any]]]
"""By id and name: the owner of an attribute, and what stands for the value that it holds."""


class Follower:
    """Follows a model from `attach` to `detach`, or until nothing refers to it any more."""

    everywhere = False  # in all threads
    hears = False  # what others compute too; then compiled code is run as it was written
    attached = False
    elsewhere: str | None = None  # the thread that ran the model where this is not in scope

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.substitutes: Substitutes = {}

    def run(
        self, path: str, module: nn.Module, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        """`call` a module of the model with these arguments, and give what it returns."""
        return call()

    def prepared(self) -> Substitutes:
        """What stands for attributes while this follower is in scope; whatever is to be replaced
        for the process is replaced here."""
        return {}

    def not_run(self) -> str:
        """In words: the model was not run in this follower's scope."""
        name = type(self.model).__name__
        if self.elsewhere is None:
            return f"{name} was not run inside the block"
        return (
            f"{name} was run by another thread or task ({self.elsewhere}), which the block does "
            "not reach; run it where the block was opened, or in a copy of its context "
            "(asyncio.to_thread, contextvars.copy_context().run)"
        )

    def listens(self) -> bool:
        """Whether it hears here and now what functions compute."""
        return self.hears

    def see(self, call: HeardCall) -> None:
        """An attention that others computed, where the follower hears."""

    def miss(self, why: str) -> None:
        """An attention was computed that cannot be said; why, or ""."""

    def attach(self) -> None:
        """Follow the model."""
        handle: _Handle = weakref.ref(self, _forgotten)
        with _LOCK:
            # first: the collector may call `_forgotten` anywhere below
            self.attached = True
            _ATTACHED.append(handle)
            try:
                self.substitutes = self.prepared()
                for (_, name), (owner, _) in self.substitutes.items():
                    replace(type(owner), name, _Substituted(type(owner), name))
                for path, module in self.model.named_modules():
                    _CALLS[module] = (*_CALLS.get(module, ()), (handle, path))
                _settle()
            except BaseException:
                self.attached = False
                _settle()
                raise
        if not self.everywhere:
            _SCOPE.set((*_SCOPE.get(), handle))

    def detach(self) -> None:
        """Follow it no more; the last follower leaves everything as it was."""
        self.attached = False
        with _LOCK:
            _settle()
        _SCOPE.set(tuple(handle for handle in _SCOPE.get() if _live(handle)))


_Handle: TypeAlias = "weakref.ref[Follower]"
_LOCK = threading.RLock()
_ATTACHED: list[_Handle] = []
_CALLS: weakref.WeakKeyDictionary[nn.Module, tuple[tuple[_Handle, str], ...]] = (
    weakref.WeakKeyDictionary()
)
_SCOPE: ContextVar[tuple[_Handle, ...]] = ContextVar("regard_followers", default=())


def following() -> list[Follower]:
    """The followers in scope, in the order in which they came."""
    return [follower for handle in _SCOPE.get() if (follower := _live(handle)) is not None]


def _live(handle: _Handle) -> Follower | None:
    follower = handle()
    return follower if follower is not None and follower.attached else None


def in_backward() -> bool:
    """Whether autograd is running: then a forward is a recomputation by checkpointing."""
    return torch._C._current_graph_task_id() != -1


# ── calls ────────────────────────────────────────────────────────────────────────────────────

_CALL: Callable[..., Any] = nn.Module.__call__
_CALL_IMPL: Callable[..., Any] = nn.Module._call_impl


def _call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`module(…)`: one with code compiled by `module.compile()` goes past `_call_impl`."""
    if torch.compiler.is_compiling() or module._compiled_call_impl is None:
        return _CALL(module, *args, **kwargs)
    return _followed(_CALL, module, args, kwargs)


def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`module(…)`, also behind `torch.compile(module)`."""
    if torch.compiler.is_compiling():
        return _CALL_IMPL(module, *args, **kwargs)
    return _followed(_CALL_IMPL, module, args, kwargs)


def _followed(real: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
    calls = _CALLS.get(module)
    if calls is None:
        return real(module, *args, **kwargs)
    scope = joined = _SCOPE.get()
    entered = []
    for handle, path in calls:
        follower = _live(handle)
        if follower is None:
            continue
        if handle not in scope:
            if not (follower.everywhere or _is_autograds_thread()):
                follower.elsewhere = threading.current_thread().name
                continue
            joined = (*joined, handle)
        entered.append((follower, path))
    call: Callable[[], Any] = lambda: real(module, *args, **kwargs)  # noqa: E731
    for follower, path in reversed(entered):
        call = _within(follower, path, module, args, kwargs, call)
    if joined is scope:
        return call()
    token = _SCOPE.set(joined)
    try:
        return call()
    finally:
        _SCOPE.reset(token)


def _within(
    follower: Follower, path: str, module: nn.Module, args: Any, kwargs: Any, call: Any
) -> Callable[[], Any]:
    return lambda: follower.run(path, module, args, kwargs, call)


def _is_autograds_thread() -> bool:
    return in_backward() and isinstance(threading.current_thread(), threading._DummyThread)


# ── attributes ───────────────────────────────────────────────────────────────────────────────


class _Substituted:
    """An attribute of a class's instances, which reads as another value where it is followed."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind, self._name = kind, name
        self._own = vars(kind).get(name, _NONE)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return getattr(super(self._kind, kind), self._name) if self._own is _NONE else self._own
        stored = self._stored(owner)
        return stored if torch.compiler.is_compiling() else _substitute(owner, self._name, stored)

    def _stored(self, owner: Any) -> Any:
        held = object.__getattribute__(owner, "__dict__")
        if self._name in held:
            return held[self._name]
        if self._own is _NONE:  # or an AttributeError, after which `__getattr__` is asked
            return getattr(super(self._kind, owner), self._name)
        bind = getattr(self._own, "__get__", None)
        return self._own if bind is None else bind(owner, type(owner))

    def __set__(self, owner: Any, value: Any) -> None:
        held = object.__getattribute__(owner, "__dict__")
        stored = held.get(self._name, _NONE)
        # what is written back as it was read is no change
        if stored is _NONE or _substitute(owner, self._name, stored) is not value:
            held[self._name] = value

    def __delete__(self, owner: Any) -> None:
        held = object.__getattribute__(owner, "__dict__")
        if self._name not in held:
            raise AttributeError(self._name)
        del held[self._name]


_NONE: Any = object()


def _substitute(owner: Any, name: str, value: Any) -> Any:
    for follower in following():
        _, stands = follower.substitutes.get((id(owner), name), _NOTHING)
        value = stands(value)
    return value


_NOTHING: tuple[Any, Callable[[Any], Any]] = (None, lambda value: value)


# ── globals ──────────────────────────────────────────────────────────────────────────────────

_REPLACED: dict[tuple[int, str], tuple[Any, str, Any, Any]] = {}  # owner, name, before, ours
_LOADED: list[int] = []  # how many Python modules there were when the first was followed
_STANCE: list[AbstractContextManager[Any]] = []  # what holds compiled code back
_COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")


def replace(owner: Any, name: str, ours: Any) -> None:
    """Exchange an attribute of a module or a class until nothing is followed any more. Called by
    followers while they are made."""
    with _LOCK:
        if (id(owner), name) not in _REPLACED:
            _REPLACED[id(owner), name] = (owner, name, vars(owner).get(name, _NONE), ours)
            setattr(owner, name, ours)


def loaded_modules() -> Iterator[ModuleType]:
    """Every Python module that is loaded."""
    # by their type alone: some objects that stand there for modules warn when they are looked at
    return (one for one in list(sys.modules.values()) if issubclass(type(one), ModuleType))


def _settle() -> None:
    """As those who follow now need it. The collector may call `_forgotten` in the middle, which
    does the same: nothing is iterated over but copies."""
    _ATTACHED[:] = [handle for handle in tuple(_ATTACHED) if _live(handle)]
    compiled = False
    for reference in _CALLS.keyrefs():
        module = reference()
        if module is not None:
            calls = _CALLS.get(module, ())
            left = tuple(call for call in calls if _live(call[0]))
            compiled = compiled or (bool(left) and module._compiled_call_impl is not None)
            if not left:
                _CALLS.pop(module, None)
            elif len(left) < len(calls):
                _CALLS[module] = left
    live = [follower for handle in tuple(_ATTACHED) if (follower := handle()) is not None]
    _hold_compiled(any(follower.hears for follower in live))
    if live:
        _LOADED[:] = _LOADED or [len(sys.modules)]
        replace(nn.Module, "_call_impl", _call_impl)
        if compiled:
            replace(nn.Module, "__call__", _call)  # a slot, which takes long with many subclasses
    else:
        _restore()


def _hold_compiled(held: bool) -> None:
    """Compiled code says nothing of what it computes. Without it, its import takes a second."""
    if not held:
        while _STANCE:
            _STANCE.pop().__exit__(None, None, None)
    elif not _STANCE and any(name in sys.modules for name in _COMPILERS):
        _STANCE.append(torch.compiler.set_stance("force_eager"))


def _restore() -> None:
    replaced = list(_REPLACED.values())
    ours = {id(put): before for _, _, before, put in replaced}
    for owner, name, before, put in replaced:
        if vars(owner).get(name) is put:  # else it was exchanged once more, by others
            delattr(owner, name) if before is _NONE else setattr(owner, name, before)
    grown = bool(_LOADED) and len(sys.modules) != _LOADED[0]
    for module in loaded_modules() if grown else ():  # that imported what was exchanged
        for name, value in list(vars(module).items()):
            if id(value) in ours and module.__name__ != __name__:
                setattr(module, name, ours[id(value)])
    _REPLACED.clear()
    _LOADED.clear()


def _forgotten(_: _Handle) -> None:
    with _LOCK:
        _settle()
