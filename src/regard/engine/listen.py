"""Whoever wants to hear of every attention that is computed, while it is computed.

A listener says beforehand what it wants measured and gets the attention afterwards. It is called
by `attend`, so it hears of Hugging Face models, of regard's own layers and of anybody else who
calls it, in the thread (and context) that listens.

Measuring never changes the output, nor what autograd keeps: the implementation is chosen as if
nobody listened, and what that one does not measure on its way is asked afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from regard.engine.problem import Call
from regard.summary import Summary

if TYPE_CHECKING:
    from regard.engine.matrix import Attention


class Listener(Protocol):
    """Hears of attention."""

    def wants(self, call: Call) -> tuple[Summary, ...]:
        """What to measure during this call."""
        ...

    def heard(self, attention: Attention) -> None:
        """The finished attention. It must not be kept beyond this call without `clone()`."""
        ...


_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("regard_listeners", default=())


def listeners() -> tuple[Listener, ...]:
    """Who listens here and now."""
    return _LISTENERS.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, the listener hears of every attention."""
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


@contextmanager
def unheard() -> Iterator[None]:
    """Within the block nobody listens: for whoever computes attention about attention."""
    token = _LISTENERS.set(())
    try:
        yield
    finally:
        _LISTENERS.reset(token)
