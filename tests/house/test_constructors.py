"""Few positional arguments; a question changes nothing."""

from __future__ import annotations

from house.checks import constructors

UNITS = ("recorder", "recording", "monitor", "intervene")

WIDE = """
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, NamedTuple
@dataclass(frozen=True)
class Wide:
    a: int; b: int; c: int; d: int; e: int; f: int; g: int = 0
@dataclass(frozen=True, kw_only=True)
class Named:
    a: int; b: int; c: int; d: int; e: int; f: int; g: int
@dataclass
class Some:
    limit: ClassVar[int] = 3
    a: int; b: int; c: int; d: int; e: int; f: int
    made: int = field(init=False)
    _: KW_ONLY
    g: int = 0
class Tuple(NamedTuple):
    a: int; b: int; c: int; d: int; e: int; f: int; g: int
class Plain:
    def __init__(self, a, b, c, d, e, f, g): ...
class Short:
    def __init__(self, a, b, c, d, e, f, *, g): ...
"""
ASKED = """
class Asked:
    @property
    def size(self):
        self.count += 1
        return 3
    @property
    def made(self):
        if self._made is None:
            self._made = 3
        return self._made
    def is_open(self):
        self._seen["x"], y = 1, 2
    def wants(self, call):
        self._asked = call
    def _has_room(self, size):
        self.room: int = size
    def begin(self):
        self.count = 0
    @property
    def order(self):
        self._calls.append(1)
        return self._order.setdefault("x", 3)
"""


def test_no_constructor_has_many_positional_arguments(package, clean):
    clean(constructors.long_constructors(package, UNITS))


def test_no_question_changes_anything(package, clean):
    clean(constructors.changing_questions(package))


def test_long_constructors_are_found(plant):
    root = plant({"fake/__init__.py": "", "fake/recorder.py": WIDE, "fake/nn.py": WIDE})
    found = constructors.long_constructors(root / "fake", ("recorder",))
    assert [line.split(": ")[1].split()[0] for line in found] == ["Wide", "Tuple", "Plain"]
    assert found[0] == (
        "fake.recorder:5: Wide takes 7 positional arguments; at most 6, the others by keyword"
    )


def test_questions_that_change_something_are_found(plant):
    root = plant({"fake/__init__.py": "", "fake/asked.py": ASKED})
    found = constructors.changing_questions(root / "fake")
    assert [line.split(": ")[1] for line in found] == [
        "Asked.size reads like a question and changes self.count",
        "Asked.is_open reads like a question and changes self._seen",
        "Asked.wants reads like a question and changes self._asked",
        "Asked._has_room reads like a question and changes self.room",
        "Asked.order reads like a question and changes self._calls",
        "Asked.order reads like a question and changes self._order",
    ]
