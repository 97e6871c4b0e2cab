"""No concrete mask, bias or statistic is asked for by class outside its module and the kernels."""

from __future__ import annotations

import pytest

from house.checks import kinds
from house.checks.source import modules

MASKS = """
class Mask: ...
class Causal(Mask):
    def same(self, other): return isinstance(other, Causal)
class Window(Mask): ...
class Rare(Window): ...
"""
TESTS = {
    "isinstance(x, Causal)": "Causal",
    "isinstance(x, int | Causal)": "Causal",
    "isinstance(x, (int, Window))": "Window",
    "isinstance(x, masks.Rare)": "Rare",
    "issubclass(type(x), Causal)": "Causal",
    "type(x) is Causal": "Causal",
    "type(x) in (Causal, int)": "Causal",
    "isinstance(x, BANDS)": "Window",
    "{Causal: 1}[type(x)]": "Causal",
    "{Causal: 1}.get(type(x))": "Causal",
}
FINE = (
    "isinstance(x, Mask)",
    "x == Causal()",
    "x in (Causal(), Window())",
    "Causal(x)",
    "[Causal]",
)


def test_no_kind_is_asked_for_by_class(package, clean):
    clean(kinds.class_tests(package))


def test_every_kind_is_known(package):
    found = kinds.concrete(modules(package))
    masks = {"Causal", "Window", "Padding", "Rule", "Both", "Either", "Not", "Part"}
    assert masks | {"ALiBi", "PartBias", "Entropy", "Received", "Pooled", "Top"} <= found.keys()
    assert not kinds.OPEN & found.keys()


@pytest.mark.parametrize("text", TESTS)
def test_a_test_for_a_class_is_found(plant, text):
    source = f"from fake.masks import Causal, Window\nBANDS = (Window,)\ndef f(x): return {text}\n"
    root = plant({"fake/masks.py": MASKS, "fake/use.py": source})
    (wrong,) = kinds.class_tests(root / "fake", {})
    assert wrong == f"use.py:3: {TESTS[text]} is asked for by class; ask what it declares"


def test_a_pattern_and_a_name_of_ones_own_are_found(plant):
    source = "from .masks import Causal as C\ndef f(x):\n    match x:\n        case C(): return 1\n"
    root = plant({"fake/masks.py": MASKS, "fake/use.py": source})
    (wrong,) = kinds.class_tests(root / "fake", {})
    assert wrong.startswith("use.py:4: Causal is asked for by class")


@pytest.mark.parametrize("text", FINE)
def test_declarations_and_values_may_be_asked_for(plant, text):
    source = f"from fake.masks import Causal, Mask, Window\ndef f(x): return {text}\n"
    root = plant({"fake/masks.py": MASKS, "fake/use.py": source})
    assert kinds.class_tests(root / "fake", {}) == []


def test_a_lowering_table_is_an_exception_while_it_is_one(plant):
    source = "from fake.masks import Causal\ndef f(x): return isinstance(x, Causal)\n"
    root = plant({"fake/masks.py": MASKS, "fake/kernel.py": source})
    allowed = {"kernel.py": "reads causal masks", "gone.py": "did once"}
    assert kinds.class_tests(root / "fake", allowed) == [
        "gone.py asks for no class: it needs no exception"
    ]


def test_another_class_of_the_same_name_is_not_meant(plant):
    source = "class Causal: ...\ndef f(x): return isinstance(x, Causal)\n"
    root = plant({"fake/masks.py": MASKS, "fake/use.py": source})
    assert kinds.class_tests(root / "fake", {}) == []
