"""What a backward sweep brings besides gradients, on its way to the attention that asked for it.

An attention must not be held by its own graph, nor the graph by what it brings, or neither would
ever be let go. So both hold one small thing that holds nothing else: the graph's node puts the
mass there, the attention looks whether it came. It is handed over while the operator is called,
because torch makes the node inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

__all__ = ["Brought", "bringing", "expected"]


class Brought:
    """The mass (*batch, Hq, S) that each key received, once a backward has brought it."""

    __slots__ = ("mass",)

    def __init__(self) -> None:
        self.mass: Tensor | None = None


_EXPECTED: ContextVar[Brought | None] = ContextVar("regard_brought", default=None)


@contextmanager
def bringing(brought: Brought) -> Iterator[None]:
    """The operator called within the block leaves its mass there."""
    token = _EXPECTED.set(brought)
    try:
        yield
    finally:
        _EXPECTED.reset(token)


def expected() -> Brought | None:
    """Where the operator that is called now shall leave its mass."""
    return _EXPECTED.get()
