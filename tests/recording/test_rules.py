"""Masks and score rules come back from their texts, of this form and of the first, as one head
sees them; what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def table(*shape: int) -> Table:
    """Half of it may be seen."""
    return Table(DICE.random(shape) > 0.5)


MASKS: dict[str, Mask] = {
    "('causal','end')": Causal(), "('causal','start')": Causal("start"),
    "('window',3,4,'start')": Window(3, 4, "start"),
    "('window',None,None,'end')": Window(None, None), "('prefix',)": Prefix(np.array(7)),
    "('padding',False)": Padding(np.array(9)), "('padding',True)": Padding(KEYS % 3 > 0, ROWS < 9),
    "('documents',)": Documents(ROWS // 7, KEYS // 7), "('table',)": table(4, 20, 30),
    "('either',('both',('causal','end'),('window',5,0,'end')),('prefix',))":
        Causal() & Window(5, 0) | Prefix(np.array(3)),
    "('not',('both',('causal','end'),('padding',True)))":
        ~(Causal() & Padding(np.array(9), np.array(4))),
    "('part',('causal','end'),5,2,40,60)": Part(Causal(), 5, 2, 40, 60),
    "('both',('part',('table',),5,2,40,60),('table',))":
        Part(table(4, 40, 60), 5, 2, 40, 60) & table(1, 20, 1),
}  # fmt: skip


@pytest.mark.parametrize("first", MASKS)
def test_masks_come_back(first):
    mask = MASKS[first]
    whole = np.broadcast_to(mask.allows(ROWS, KEYS, EXTENT), (4, 20, 30))
    for text in (first, encode(mask)):
        for head in range(4):
            arrays = [np.asarray(array) for array in mask.arrays()]
            rules = rebuild(text, PLAIN, arrays, EXTENT, head)
            seen = rules.mask.allows(ROWS, KEYS, rules.extent)
            np.testing.assert_array_equal(np.broadcast_to(seen, (1, 20, 30))[0], whole[head])


BIASES: dict[str, Any] = {
    "None": None, "('alibi','end')": ALiBi(DICE.random(4)),
    "('relative',False,20,'start')": RelativeBias(DICE.random((32, 4)), False, 20, "start"),
    "('table',)": BiasTable(DICE.random((4, 20, 30))),
    "('part',('alibi','end'),3,0,25,30)": PartBias(ALiBi(DICE.random(4)), 3, 0, 25, 30),
    "('part',('table',),3,0,25,30)": PartBias(BiasTable(DICE.random((1, 25, 30))), 3, 0, 25, 30),
}  # fmt: skip


@pytest.mark.parametrize("first", BIASES)
@pytest.mark.parametrize("sink", [None, DICE.random(4)], ids=["plain", "sink"])
def test_score_rules_come_back(first, sink):
    rule = ScoreRule(0.3, 20.0, BIASES[first], sink)
    for text in (f"(0.3,20.0,{first},{sink is not None})", encode(rule)):
        for head in range(4):
            rules = rebuild("null", text, list(rule.arrays()), EXTENT, head)
            assert rules.mask is None and (rules.score.scale, rules.score.softcap) == (0.3, 20.0)
            assert rules.sink == (None if sink is None else pytest.approx(sink[head]))
            if rule.bias is not None:
                whole = np.broadcast_to(rule.bias.tile(ROWS, KEYS, EXTENT), (4, 20, 30))
                bias = rules.score.bias.tile(ROWS, KEYS, rules.extent)
                np.testing.assert_array_equal(np.broadcast_to(bias, (1, 20, 30))[0], whole[head])


class Untagged(Mask):
    """Of a class that no file can name."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return j[None, :] <= i[:, None]


def test_functions_and_classes_of_this_process_are_not_read_back():
    """Nor where JSON spells their words in another way."""
    alive = Causal() & Rule(lambda i, j: i > j)  # in this process, under a number
    text = encode(alive)
    for given, says in (
        (text, "a Rule, whose function is not in the file"),
        (text.replace('"function"', r'"\u0066unction"'), "which a file cannot name"),
        (encode(Untagged()), "which a file cannot name"),
        (r'["rule/1",{"fn":{"\u0066unction":-1},"entry":null}]', "the function of this Rule is"),
    ):
        with pytest.raises(FileError, match=says):
            rebuild(given, PLAIN, [], EXTENT, 0)


@pytest.mark.parametrize(
    ("mask", "arrays"),
    [
        (Table(np.ones((21, 30), bool)), None), (Table(np.ones((3, 20, 30), bool)), None),
        (Padding(KEYS > 3), [np.ones(29, bool)]), (Documents(ROWS, KEYS), [ROWS, ROWS]),
        (Prefix(np.array(3)), [np.ones(2)]), (Prefix(np.array(3)), [np.array([1, 2])]),
        (Causal(), [np.ones(3)]), (Padding(np.array(3)), []),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(mask, arrays):
    given = list(mask.arrays()) if arrays is None else arrays
    with pytest.raises(FileError):
        rebuild(encode(mask), PLAIN, given, EXTENT, 0)
