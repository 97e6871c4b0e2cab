"""Who observes attention while it is computed, and who changes it.

A listener says beforehand what it wants measured; afterwards it gets the attention together with
what it said, so it keeps nothing between the two. It is called by `attend`, so it observes Hugging
Face models, regard's own layers and any other caller, in the thread (and context) that listens.
Measuring never changes the output, nor what autograd keeps: the implementation is chosen as if
there were no listener, and what that one does not measure on its way is asked afterwards.

An editor changes who may see whom before an implementation is chosen, so an edited call is as exact
and as fast as any with that mask, and questions are answered under it; and the output after it was
computed, so that listeners observe the changed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from regard.engine.call import Call
from regard.errors import UnavailableError
from regard.mask import Mask
from regard.summary import Summary

if TYPE_CHECKING:
    from regard.engine.attention import Attention


_Plan = TypeVar("_Plan")


@dataclass(frozen=True)
class Request(Generic[_Plan]):
    """What a listener decides about a call before it is computed, and is handed back with it."""

    summaries: tuple[Summary, ...] = ()  # to measure during the call
    plan: _Plan | None = None  # the listener's own


class Listener(Protocol[_Plan]):
    """Hears of attention."""

    def wants(self, call: Call) -> Request[_Plan]:
        """What to do about this call. Asked again before `heard`, the answer is the same."""
        ...

    def heard(self, attention: Attention, request: Request[_Plan]) -> None:
        """The finished attention, with what `wants` returned for it. The attention must not be
        kept beyond this call without `clone()`."""
        ...


SILENCE: ContextVar[object] = ContextVar("regard_silence", default=None)  # the block, if any
LISTENERS: ContextVar[tuple[Listener[Any], ...]] = ContextVar("regard_listeners", default=())


def listeners() -> tuple[Listener[Any], ...]:
    """Who listens here and now."""
    return LISTENERS.get()


@contextmanager
def listening(listener: Listener[Any]) -> Iterator[None]:
    """Within the block, the listener hears of every attention."""
    LISTENERS.set((*LISTENERS.get(), listener))
    try:
        yield
    finally:  # in whatever order blocks end
        LISTENERS.set(_without(LISTENERS.get(), listener))


@contextmanager
def unheard() -> Iterator[None]:
    """Within the block nobody listens who did before: for whoever computes attention about
    attention, and runs models to compare."""
    token, silence = LISTENERS.set(()), SILENCE.set(object())
    try:
        yield
    finally:
        SILENCE.reset(silence)
        LISTENERS.reset(token)


class Editor(Protocol):
    """Changes attention."""

    def mask(self, call: Call) -> Mask | None:
        """Who may see whom in this call; `call.mask` where nothing is to change."""
        ...

    def output(self, call: Call, output: Tensor) -> Tensor:
        """What the call gives in place of `output`, (*batch, Hq, L, Dv)."""
        ...


EDITORS: ContextVar[tuple[Editor, ...]] = ContextVar("regard_editors", default=())

# How many edit, in whatever thread. Traced code cannot read a context variable; it reads this,
# and is traced again when the number changes.
_active = 0
_LOCK = RLock()  # the collector may end a block in the middle


def editors() -> tuple[Editor, ...]:
    """Who edits here and now."""
    if torch.compiler.is_compiling():
        if _active:
            _refuse()
        return ()
    return EDITORS.get()


def _refuse() -> None:
    """By a function of its own: Dynamo of torch 2.11 and older goes on behind the making of an
    error, and then cannot raise one that it has not made."""
    raise UnavailableError(
        "attention is being changed (regard.knock_out) while torch.compile traces it, "
        "which would leave the change in the compiled code; run the model as it was "
        "before torch.compile"
    )


@contextmanager
def editing(editor: Editor) -> Iterator[None]:
    """Within the block, the editor is asked about every attention, after those before it."""
    EDITORS.set((*EDITORS.get(), editor))
    try:
        with uncompiled():
            yield
    finally:
        EDITORS.set(_without(EDITORS.get(), editor))


@contextmanager
def uncompiled() -> Iterator[None]:
    """Within the block, attention that is traced by torch.compile is an error: it is edited."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _without(those: tuple[Any, ...], other: Any) -> tuple[Any, ...]:
    """Less the last that is the other."""
    last = max((n for n, each in enumerate(those) if each is other), default=len(those))
    return (*those[:last], *those[last + 1 :])


def edited_call(call: Call, by: tuple[Editor, ...]) -> Call:
    """The call under the mask that all of them leave."""
    for editor in by:
        mask = editor.mask(call)
        if mask is not call.mask:
            call = replace(call, mask=mask)
            if mask is not None:
                mask.check(call.shape.extent)
    return call


def edited_output(call: Call, output: Tensor, by: tuple[Editor, ...]) -> Tensor:
    """The output that all of them leave."""
    for editor in by:
        output = editor.output(call, output)
    return output


def _count(change: int) -> None:
    global _active
    with _LOCK:
        _active += change
