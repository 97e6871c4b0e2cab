"""Heads as people name them: L5H1, L5 for a whole layer, cross for a whole stack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from regard.errors import InputError
from regard.hear.names import Spot

HeadNames: TypeAlias = "str | tuple[int, int] | tuple[str, int, int]"

_LABEL = re.compile(r"(?:(?P<stack>.+)\.)?[lL](?P<layer>[0-9]{1,9})(?:[hH](?P<head>[0-9]{1,9}))?")
_STACK = re.compile(r"[A-Za-z_][\w.*]*")
_SUCH = "'L5H1', (5, 1), 'L5' for a layer, 'cross.L2H0' or ('cross', 2, 0)"


@dataclass(frozen=True)
class Heads:
    """One head, all heads of a layer, or all layers of a stack: None stands for all."""

    stack: str
    layer: int | None
    head: int | None

    @property
    def label(self) -> str:
        """As it is written: L5H1, cross.L2."""
        layer = "" if self.layer is None else f"L{self.layer}"
        head = "" if self.head is None else f"H{self.head}"
        return ".".join(part for part in (self.stack, layer + head) if part)

    def stand_at(self, spot: Spot) -> bool:
        """Whether they are heads of this place."""
        same = self.stack.lower() == spot.stack.lower()
        return same and self.layer in (None, spot.layer)

    def chosen(self, total: int) -> range:
        """Which of a layer's heads they are."""
        if self.head is None:
            return range(total)
        if self.head >= total:
            raise InputError(f"{self.label} does not exist; this layer has the heads 0–{total - 1}")
        return range(self.head, self.head + 1)


def read_heads(given: HeadNames | Iterable[HeadNames]) -> tuple[Heads, ...]:
    """Several names, or a single label; InputError for what names no head."""
    if isinstance(given, str):
        return (_read(given),)
    if not isinstance(given, Iterable):
        raise InputError(f"heads={given!r}; give a list of heads, such as [{_SUCH}]")
    return tuple(_read(one) for one in given)


def _read(given: Any) -> Heads:
    if isinstance(given, str):
        match = _LABEL.fullmatch(given.strip())
        if match is not None:
            head = None if match["head"] is None else int(match["head"])
            return Heads(match["stack"] or "", int(match["layer"]), head)
        if _STACK.fullmatch(given.strip()):
            return Heads(given.strip(), None, None)
    if isinstance(given, tuple) and len(given) in (2, 3):
        *stack, layer, head = given
        named = all(isinstance(one, str) for one in stack)
        if named and all(_is_number(one) for one in (layer, head)):
            return Heads(stack[0] if stack else "", int(layer), int(head))
    raise InputError(f"{given!r} names no head; give {_SUCH}, numbers from 0 on")


def _is_number(value: Any) -> bool:
    fine = hasattr(value, "__index__") and not isinstance(value, bool)
    return fine and value.__index__() >= 0
