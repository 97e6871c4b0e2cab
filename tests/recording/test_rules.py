"""Masks and score rules come back from their text as one head sees them."""

from __future__ import annotations

import numpy as np
import pytest

import regard.summary  # noqa: F401 - so that the tags of statistics are known
from regard.declare import encode
from regard.errors import FileError
from regard.mask import Causal, Documents, Extent, Mask, Padding, Prefix, Rule, Table, Window
from regard.mask.base import Part
from regard.recording.rules import rebuild
from regard.score import ALiBi, BiasTable, PartBias, RelativeBias, ScoreRule

EXTENT = Extent(20, 30, (), 4)
PLAIN = "(1.0,None,None,False)"
DICE = np.random.default_rng(0)
ROWS, KEYS = np.arange(20), np.arange(30)

MASKS = (
    Causal(), Causal("start"), Window(3, 4, "start"), Window(None, None), Prefix(np.array(7)),
    Padding(np.array(9)), Padding(KEYS % 3 > 0, ROWS < 9), Documents(ROWS // 7, KEYS // 7),
    Table(DICE.random((20, 30)) > 0.5), Table(DICE.random((4, 20, 30)) > 0.5),
    Table(DICE.random((1, 20, 1)) > 0.5), Causal() & Window(5) | Prefix(np.array(3)),
    ~(Causal() & Padding(np.array(9), np.array(4))), Part(Causal(), 5, 2, 40, 60),
    Part(Table(DICE.random((4, 40, 60)) > 0.5), 5, 2, 40, 60) & Causal(),
)  # fmt: skip


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_masks_come_back(mask):
    whole = np.broadcast_to(mask.allows(ROWS, KEYS, EXTENT), (4, 20, 30))
    for head in range(4):
        arrays = [np.asarray(array) for array in mask.arrays()]
        rules = rebuild(encode(mask), PLAIN, arrays, EXTENT, head)
        found = rules.mask.allows(ROWS, KEYS, rules.extent)
        np.testing.assert_array_equal(np.broadcast_to(found, (1, 20, 30))[0], whole[head])


BIASES = (
    None, ALiBi(DICE.random(4)), RelativeBias(DICE.random((32, 4)), False, 20, "start"),
    BiasTable(DICE.random((20, 30))), BiasTable(DICE.random((4, 20, 30))),
    BiasTable(DICE.random((1, 1, 30))), PartBias(ALiBi(DICE.random(4)), 3, 0, 25, 30),
    PartBias(BiasTable(DICE.random((4, 25, 30))), 3, 0, 25, 30),
)  # fmt: skip


@pytest.mark.parametrize("bias", BIASES, ids=repr)
@pytest.mark.parametrize("sink", [None, DICE.random(4)], ids=["plain", "sink"])
def test_score_rules_come_back(bias, sink):
    rule = ScoreRule(0.3, 20.0, bias, sink)
    for head in range(4):
        rules = rebuild("null", encode(rule), list(rule.arrays()), EXTENT, head)
        assert rules.mask is None and (rules.score.scale, rules.score.softcap) == (0.3, 20.0)
        assert rules.sink == (None if sink is None else pytest.approx(sink[head]))
        if bias is not None:
            whole = np.broadcast_to(bias.tile(ROWS, KEYS, EXTENT), (4, 20, 30))
            found = rules.score.bias.tile(ROWS, KEYS, rules.extent)
            np.testing.assert_array_equal(np.broadcast_to(found, (1, 20, 30))[0], whole[head])


def test_only_biases_that_can_hide_are_looked_at():
    def hides(bias):
        rule = ScoreRule(1.0, None, bias)
        return rebuild("null", encode(rule), list(rule.arrays()), EXTENT, 0).hides_by_bias

    assert not hides(None) and not hides(ALiBi(np.ones(4))) and hides(BiasTable(np.ones((20, 30))))
    table = np.ones((32, 4))
    assert not hides(RelativeBias(table))
    table[3, 0] = -np.inf
    assert hides(RelativeBias(table)) and hides(PartBias(RelativeBias(table), 0, 0, 20, 30))


def test_a_function_is_not_read_back():
    text = encode(Causal() & Rule(lambda i, j: i > j))
    with pytest.raises(FileError, match="a Rule, whose function is not in the file"):
        rebuild(text, PLAIN, [], EXTENT, 0)


def test_nor_is_one_that_json_spells_in_another_way():
    rule = Rule(lambda i, j: i > j)  # alive in this process, under a number
    text = encode(rule).replace('"function"', r'"\u0066unction"')
    with pytest.raises(FileError, match="which a file cannot name"):
        rebuild(text, PLAIN, [], EXTENT, 0)


@pytest.mark.parametrize("number", ["[]", "{}", "null", '"1"', "1.5", "-1"])
def test_numbers_of_functions_that_are_none(number):
    text = f'["rule/1",{{"fn":{{"\\u0066unction":{number}}},"entry":null}}]'
    with pytest.raises(FileError, match="the function of this Rule is gone"):
        rebuild(text, PLAIN, [], EXTENT, 0)


def test_a_class_without_a_tag_is_not_read_back():
    class Untagged(Mask):
        def allows(self, i, j, extent):
            return j[None, :] <= i[:, None]

    with pytest.raises(FileError, match="which a file cannot name"):
        rebuild(encode(Untagged()), PLAIN, [], EXTENT, 0)


@pytest.mark.parametrize(
    ("mask", "score"),
    [
        ('["not/1",{"mask":["entropy/1",{}]}]', PLAIN),
        ('["not/1",{"mask":null}]', PLAIN),
        ('["both/1",{"left":["causal/1",{}],"right":["alibi/1",{"slopes":{"array":0}}]}]', PLAIN),
        ('["either/1",{"left":null,"right":["causal/1",{}]}]', PLAIN),
        ("null", '["score/1",{"scale":1.0,"bias":["causal/1",{}]}]'),
    ],
)
def test_parts_of_another_family_are_refused(mask, score):
    with pytest.raises(FileError, match=r"give a (mask|bias)"):
        rebuild(mask, score, [np.ones(4)], EXTENT, 0)


@pytest.mark.parametrize(
    ("mask", "arrays"),
    [
        (Table(np.ones((21, 30), bool)), None),
        (Table(np.ones((3, 20, 30), bool)), None),
        (Padding(KEYS > 3), [np.ones(29, bool)]),
        (Documents(ROWS, KEYS), [ROWS, ROWS]),
        (Prefix(np.array(3)), [np.ones(2)]),
        (Prefix(np.array(3)), [np.array([1, 2])]),
        (Causal(), [np.ones(3)]),
        (Padding(np.array(3)), []),
    ],
)
def test_arrays_that_do_not_fit_are_refused(mask, arrays):
    given = list(mask.arrays()) if arrays is None else arrays
    with pytest.raises(FileError):
        rebuild(encode(mask), PLAIN, given, EXTENT, 0)
