"""Which layers, heads and queries somebody asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from regard.errors import InputError


@dataclass(frozen=True)
class Choice:
    """None stands for all."""

    layers: frozenset[int] | None = None
    heads: tuple[int, ...] | None = None
    queries: range | int | None = None  # rows from … to, or the last so many

    @classmethod
    def of(
        cls,
        layers: Iterable[int] | int | str | None,
        heads: Iterable[int] | int | str | None,
        queries: slice | range | int | str | None,
    ) -> Choice:
        """From what a caller gives."""
        wanted = _numbers(layers, "layers")
        kept = _numbers(heads, "heads")
        rows = parse_queries(queries)
        return cls(
            None if wanted is None else frozenset(wanted),
            None if kept is None else tuple(sorted(set(kept))),
            rows,
        )

    def has_layer(self, layer: int) -> bool:
        """Whether this layer is to be recorded."""
        return self.layers is None or layer in self.layers

    def heads_of(self, total: int) -> tuple[int, ...]:
        """The heads to record of a layer that has so many."""
        if self.heads is None:
            return tuple(range(total))
        wrong = [n for n in self.heads if n >= total]
        if wrong:
            raise InputError(f"head {wrong[0]} does not exist; this model has 0–{total - 1}")
        return self.heads

    def check_layers(self, count: int) -> None:
        """Every layer asked for exists."""
        wrong = [] if self.layers is None else sorted(n for n in self.layers if n >= count)
        if wrong:
            raise InputError(f"layer {wrong[0]} does not exist; this model has 0–{count - 1}")

    def rows(self, start: int, stop: int, length: int) -> range:
        """Which of the rows start … stop are to be recorded, of a prompt of this length."""
        if self.queries is None:
            return range(start, stop)
        wanted = self.queries
        if isinstance(wanted, int):
            wanted = range(max(length - wanted, 0), 2**62)
        first = max(start, wanted.start)
        return range(first, max(min(stop, wanted.stop), first))


def _numbers(given: Iterable[int] | int | str | None, what: str) -> list[int] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return parse_numbers(given, what)
    numbers = [given] if isinstance(given, int) else list(given)
    wrong = [n for n in numbers if type(n) is not int or n < 0]
    if wrong or not numbers:
        raise InputError(f"{what}={given!r}; give whole numbers from 0 on, such as [0, 5]")
    return numbers


def parse_numbers(text: str, what: str) -> list[int]:
    """`0,5-10` → 0, 5, 6, 7, 8, 9, 10."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InputError(f"{what} {text!r}; give numbers and ranges, such as 0,5-10")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def parse_queries(given: slice | range | int | str | None) -> range | int | None:
    """Rows from … to, or the last so many."""
    if given is None or (type(given) is int and given > 0):
        return given
    wanted = given
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d{0,18})\s*:\s*(\d{0,18})\s*", given)
        if match:
            wanted = slice(int(match[1] or 0), int(match[2]) if match[2] else None)
        elif re.fullmatch(r"\d{1,18}", given.strip()) and int(given) > 0:
            return int(given)
    if isinstance(wanted, slice) and wanted.step in (None, 1):
        start, stop = wanted.start or 0, 2**62 if wanted.stop is None else wanted.stop
        if all(hasattr(end, "__index__") for end in (start, stop)) and 0 <= start < stop:
            return range(start, stop)
    if isinstance(given, range) and given.step == 1 and 0 <= given.start < given.stop:
        return given
    raise InputError(
        f"queries={given!r}; give a range of rows such as '100:200', or a number n for the last n"
    )
