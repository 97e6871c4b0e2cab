"""Every public name of the package is documented and hinted."""

from __future__ import annotations

from house.checks import documented

POOR = '''
class Thing:
    """Documented."""

    def method(self, x, *, y: int = 0, **rest):
        """Documented."""

    def bare(self) -> None: ...

    @property
    def size(self) -> int:
        """Documented."""

    @size.setter
    def size(self, value: int) -> None: ...

    def _hidden(self, x): ...

class _Hidden:
    def method(self, x): ...

def function() -> None:
    def inner(x): ...

@triton.jit
def kernel(q, k):
    """Documented."""
'''


def test_every_public_name_is_documented(repository, package, clean):
    clean(documented.undocumented(package) + documented.undocumented(repository / "bench"))


def test_every_public_name_is_hinted(package, clean):
    clean(documented.unhinted(package))


OVERRIDES = '''
"""Documented."""

class Base:
    """Documented."""

    def size(self) -> int:
        """Documented."""

class Derived(Base):
    """Documented."""

    def size(self) -> int: ...

    def other(self) -> int: ...
'''


def test_overrides_need_no_words_of_their_own(plant):
    root = plant({"fake/__init__.py": '"""Fine."""', "fake/kinds.py": OVERRIDES})
    assert documented.undocumented(root / "fake") == [
        "fake.kinds.Derived.other has no docstring",
    ]


def test_missing_words_and_types_are_found(plant):
    root = plant({"fake/__init__.py": '"""Fine."""', "fake/poor.py": POOR})
    assert documented.undocumented(root / "fake") == [
        "fake.poor has no docstring",
        "fake.poor.function has no docstring",
        "fake.poor.Thing.bare has no docstring",
    ]
    assert documented.unhinted(root / "fake") == [
        "fake.poor.Thing.method has no type for x, rest, return"
    ]
