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
from regard.declare import decode, is_portable
from regard.declare import encode as describe
from regard.declare import functions_in as rules_in
from regard.errors import InputError
from regard.mask import (
    Causal,
    Extent,
    Mask,
    Padding,
    Prefix,
    Rule,
    Window,
)
from regard.mask.base import Part


def odd(i: Any, j: Any) -> Any:
    return (i + j) % 2 == 1


def again(mask: Mask | None) -> Mask | None:
    return decode(describe(mask), iter(()) if mask is None else mask.arrays(), Mask)


@settings(max_examples=80, deadline=None)
@given(case=cases.cases())
def test_any_composition_there_and_back(case: cases.Case) -> None:
    rebuilt = again(case.mask)
    assert rebuilt is not None
    assert repr(rebuilt) == repr(case.mask) and describe(rebuilt) == describe(case.mask)
    np.testing.assert_array_equal(cases.answer(rebuilt, case.extent), case.matrix())
    part = Part(case.mask, 1, 2, case.extent.queries + 1, case.extent.keys + 2)
    assert repr(again(part)) == repr(part)


def test_the_text_says_the_structure_and_the_arrays_follow() -> None:
    mask = Causal() & Padding([3, 5])
    assert describe(mask) == (
        '["both/1",{"left":["causal/1",{"align":"end"}],'
        '"right":["padding/1",{"keys":{"array":0},"queries":null}]}]'
    )
    assert [array.tolist() for array in mask.arrays()] == [[3, 5]]
    other = decode(describe(mask), iter([torch.tensor([2, 0])]), Mask)
    assert other is not None and [array.tolist() for array in other.arrays()] == [[2, 0]]
    assert describe(None) == "null" and again(None) is None
    for without in (None, mask, ~Padding([1]) & Prefix(3)):
        assert rules_in(describe(without)) == []


def test_a_class_without_a_tag_is_named_in_this_process_alone() -> None:
    class Mine(Mask):
        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return i[:, None] == j

    mask: Mask = Causal() & Mine()
    assert not is_portable(mask) and is_portable(Causal())
    assert again(mask) == mask


# ── rules ────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_is_the_same_function_again() -> None:
    mask = again(Rule(odd, (1,)))
    assert isinstance(mask, Rule) and mask.fn is odd and mask.entry == (1,)
    assert describe(Rule(odd)) == describe(Rule(odd))
    assert describe(Rule(odd)) != describe(Rule(lambda i, j: odd(i, j)))


def test_a_rule_that_is_gone() -> None:
    def made() -> str:
        return describe(Causal() & Rule(lambda i, j: i > j))

    text = made()
    gc.collect()
    with pytest.raises(InputError, match="function of this Rule is gone; keep a reference to it"):
        decode(text, iter(()), Mask)
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
    found = decode(text, iter(()), Mask)
    assert found is not None
    np.testing.assert_array_equal(cases.answer(found, Extent(3, 3))[0], np.eye(3, dtype=bool))


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


# ── tags ─────────────────────────────────────────────────────────────────────────────────────


def test_a_class_of_the_same_name_takes_nobodys_place() -> None:
    ours = Padding

    class Padding2(Mask):
        __qualname__ = "Padding"

        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return i[:, None] >= j

    assert isinstance(again(ours([1, 3])), ours)
    assert type(again(Padding2())) is Padding2


def test_a_tag_is_given_once() -> None:
    with pytest.raises(InputError, match=r"Mine: the tag 'padding/1' is taken by regard\.mask\."):

        class Mine(Mask):
            tag = "padding/1"

            def allows(self, i: Any, j: Any, extent: Extent) -> Any: ...


def test_a_subclass_does_not_inherit_a_tag() -> None:
    class Longer(Window):
        pass

    assert type(again(Longer(3))) is Longer and not is_portable(Longer(3))


@pytest.mark.parametrize("wrong", ["dilated", "Dilated/1", "dilated/0", "local/3", 7])
def test_tags_have_a_name_and_a_version(wrong: Any) -> None:
    with pytest.raises(InputError, match="give a name and a version, such as 'dilated/1'"):
        type("Mine", (Mask,), {"tag": wrong, "allows": lambda *_: None})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["dilated/9",{"step":2}]', "there is no 'dilated/9' here; import the module"),
        ('["causal/1",{"align":"middle"}]', "align='middle'"),
        ('["causal/1",{"way":"end"}]', "Causal has no field way"),
        ('["window/1",{}]', "Window"),
        ('["padding/1",{"keys":3}]', "stands where an array belongs"),
        ('["padding/1",{"keys":{"array":0}}]', "fewer arrays"),
        ('["not/1",{"mask":"causal"}]', "no mask, bias or statistic"),
        ('["alibi/1",{"slopes":null}]', "floats|numbers"),
        ('["score/1",{"scale":1.0}]', "is a score rule, not a mask"),
        ('["window/1",{"left":1e999}]', "whole number"),
        ('["window/1",{"left":NaN}]', "no text of a mask"),
        (f'["window/1",{{"left":{2**60}}}]', "no number of ours"),
        ("[" * 100, "deeper"),
        ("causal", "no text"),
    ],
)
def test_texts_that_are_none_of_ours(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        decode(text, iter(()), Mask)


def test_masks_that_hold_arrays_are_equal_to_themselves_alone() -> None:
    one = Padding([1, 2])
    assert one == one and one != Padding([1, 2]) and Causal() == Causal() != Causal("start")
    assert hash(Window(3)) == hash(Window(3)) and len({one, Padding([1, 2])}) == 2
