"""Masks as text and arrays, and back."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from mask import cases
from regard.errors import InputError
from regard.mask import (
    Causal,
    Documents,
    Extent,
    Mask,
    Padding,
    Prefix,
    Rule,
    Table,
    Verdict,
    Window,
)
from regard.mask.part import Part
from regard.mask.spec import describe, rebuild, rules_in


def odd(i: Any, j: Any) -> Any:
    return (i + j) % 2 == 1


EXTENT = Extent(3, 3, (2,), 2)
MASKS = (
    Causal(),
    Causal("start"),
    Window(2),
    Window(None, 1, "start"),
    Window(0, None),
    Prefix(2),
    Prefix([1, 2]),
    Padding([1, 3]),
    Padding([1, 3], [2, 0]),
    Padding(np.array([[True, False, True]])),
    Documents([0, 0, 1]),
    Documents([0, 1, 2], [2, 1, 2]),
    Table(np.eye(3, dtype=bool)),
    Rule(odd),
    Rule(odd, (1,)),
    ~Causal(),
    Causal() & Padding([1, 3]),
    Padding([2, 1]) | (Rule(odd) & ~Prefix([0, 3])),
    Part(Causal() & Padding([4, 2]), 1, 2, 4, 5),
)


def again(mask: Mask | None) -> Mask | None:
    return rebuild(describe(mask), [] if mask is None else mask.arrays())


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_there_and_back(mask: Mask) -> None:
    found = again(mask)
    assert found is not None
    assert repr(found) == repr(mask)
    assert describe(found) == describe(mask)
    np.testing.assert_array_equal(cases.answer(found, EXTENT), cases.answer(mask, EXTENT))


@settings(max_examples=80, deadline=None)
@given(case=cases.cases())
def test_any_composition_there_and_back(case: cases.Case) -> None:
    found = again(case.mask)
    assert found is not None
    np.testing.assert_array_equal(cases.answer(found, case.extent), case.matrix())


def test_no_mask() -> None:
    assert describe(None) == "None"
    assert again(None) is None


def test_the_text_says_the_structure_and_the_arrays_follow() -> None:
    mask = Causal() & Padding([3, 5])
    assert describe(mask) == "('both',('causal','end'),('padding',False))"
    assert [array.tolist() for array in mask.arrays()] == [[3, 5]]


def test_other_arrays_make_another_mask() -> None:
    mask = rebuild(describe(Prefix(1) | Padding([1, 1])), [torch.tensor(2), torch.tensor([3, 0])])
    assert mask is not None
    assert [array.tolist() for array in mask.arrays()] == [2, [3, 0]]


def test_different_structures_have_different_texts() -> None:
    texts = [describe(mask) for mask in MASKS]
    same = {describe(Padding([1, 3])), describe(Prefix(2)), describe(Documents([0]))}
    assert len(set(texts)) == len(texts) - len(same)  # those differ in their arrays alone


def test_a_mask_of_another_kind_is_refused() -> None:
    class Mine(Mask):
        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return i[:, None] == j

        def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
            return Verdict.SOME

    with pytest.raises(InputError, match=r"a Mine mask cannot be described; use regard\.Rule"):
        describe(Causal() & Mine())


# ── rules ────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_is_the_same_function_again() -> None:
    mask = again(Rule(odd, (1,)))
    assert isinstance(mask, Rule) and mask.fn is odd and mask.entry == (1,)


def test_one_function_has_one_name() -> None:
    assert describe(Rule(odd)) == describe(Rule(odd))
    assert describe(Rule(odd)) != describe(Rule(lambda i, j: odd(i, j)))


def test_a_rule_that_is_gone() -> None:
    def made() -> str:
        return describe(Causal() & Rule(lambda i, j: i > j))

    text = made()
    gc.collect()
    with pytest.raises(InputError, match="function of this Rule is gone; keep a reference to it"):
        rebuild(text, [])
    with pytest.raises(InputError, match="function of this Rule is gone"):
        rules_in(text)


def test_holding_the_rules_of_a_text_keeps_it_valid() -> None:
    def made() -> tuple[str, list[Any]]:
        mask = ~(Rule(lambda i, j: i > j) | Part(Rule(lambda i, j: i < j), 0, 0, 3, 3))
        return describe(mask), rules_in(describe(mask))

    text, held = made()
    gc.collect()
    assert len(held) == 2
    assert rules_in(text) == held
    found = rebuild(text, [])
    assert found is not None
    np.testing.assert_array_equal(cases.answer(found, Extent(3, 3))[0], np.eye(3, dtype=bool))


@pytest.mark.parametrize("mask", [None, Causal(), ~Padding([1]) & Prefix(3)], ids=repr)
def test_a_text_without_rules(mask: Mask | None) -> None:
    assert rules_in(describe(mask)) == []


@dataclass
class Later:
    """Has an equality, hence no hash."""

    n: int

    def __call__(self, i: Any, j: Any) -> Any:
        return i >= j + self.n


class Slim:
    """Takes no weak references."""

    __slots__ = ()

    def __call__(self, i: Any, j: Any) -> Any:
        return i >= j


def test_any_callable_can_be_a_rule() -> None:
    first, second, slim = Later(1), Later(1), Slim()
    assert describe(Rule(first)) == describe(Rule(first)) != describe(Rule(second))
    assert describe(Rule(slim)) == describe(Rule(slim))
    for fn in (first, second, slim):
        found = again(Rule(fn))
        assert isinstance(found, Rule) and found.fn is fn
        assert rules_in(describe(found)) == [fn]
