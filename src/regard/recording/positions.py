"""What the positions of each place stand for (`regard.axes`), as a recording's note has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from regard.axes import Axis, Tokens
from regard.errors import FileError

AXES_NOTE: Final = "axes/"  # of prompt 0: `axes/0`


@dataclass(frozen=True)
class Positions:
    """The axes of a prompt: for a place's label those of its queries and of its keys."""

    places: Mapping[str, tuple[Axis | None, Axis | None]] = field(default_factory=dict)

    def of(self, label: str, queries: int, keys: int, heads: int) -> tuple[Axis, Axis]:
        """Of a place with so many of each; text where nothing else is known, or where windows that
        are to be heads do not divide these."""
        known = self.places.get(label, (None, None))
        found = [
            axis
            if axis is not None and len(axis) == count and _divides(axis, heads)
            else Axis((Tokens(count),))
            for axis, count in zip(known, (queries, keys), strict=True)
        ]
        return found[0], found[1]

    def to_json(self) -> str:
        """The note: every axis once, places by the numbers of theirs."""
        axes = [axis for pair in self.places.values() for axis in pair if axis is not None]
        every = list(dict.fromkeys(axes))
        numbers = {axis: n for n, axis in enumerate(every)}
        return json.dumps(
            {
                "axes": [axis.to_json() for axis in every],
                "places": {
                    label: [None if axis is None else numbers[axis] for axis in pair]
                    for label, pair in self.places.items()
                },
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Positions:
        """Read back; FileError where it cannot be."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise FileError("axes whose note is no JSON") from None
        if not isinstance(value, dict) or not isinstance(value.get("places"), dict):
            raise FileError("axes whose note is no JSON object of places")
        listed = value.get("axes")
        if not isinstance(listed, list):
            raise FileError("axes that are no list")
        axes = [Axis.from_json(one) for one in listed]
        return cls({label: _pair(one, axes) for label, one in value["places"].items()})


def _divides(axis: Axis, heads: int) -> bool:
    return all(heads % (grid.windows[0] * grid.windows[1]) == 0 for _, grid in axis.grids())


def _pair(value: Any, axes: list[Axis]) -> tuple[Axis | None, Axis | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise FileError("the axes of a place that are no pair")
    found = [_one(number, axes) for number in value]
    return found[0], found[1]


def _one(number: Any, axes: list[Axis]) -> Axis | None:
    if number is None:
        return None
    if type(number) is not int or not 0 <= number < len(axes):
        raise FileError(f"an axis that is none of the {len(axes)} listed")
    return axes[number]
