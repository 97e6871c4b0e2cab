"""Padding, Documents, Rule: known pictures, and what is refused."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import torch

from mask.cases import answer
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Causal, Documents, Extent, Padding, Rule, Verdict


def test_padding_by_lengths_or_by_flags_is_the_same():
    extent = Extent(2, 4, (2,))
    lengths, flags = Padding([1, 3]), Padding(np.arange(4) < np.array([[1], [3]]))
    np.testing.assert_array_equal(answer(lengths, extent), answer(flags, extent))
    np.testing.assert_array_equal(answer(lengths, extent)[:, 0, 0].sum(-1), [1, 3])


def test_padded_queries_see_nothing():
    seen = answer(Padding(keys=4, queries=[1, 2]), Extent(2, 4, (2,)))
    np.testing.assert_array_equal(seen[:, 0].sum(-1), [[4, 0], [4, 4]])


def test_flags_may_have_holes():
    seen = answer(Padding(np.array([True, False, True])), Extent(1, 3))
    np.testing.assert_array_equal(seen[0, 0], [True, False, True])


def test_documents_see_only_themselves():
    seen = answer(Causal() & Documents([0, 0, 1, 1]), Extent(4, 4))[0]
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    np.testing.assert_array_equal(seen, expected)


def test_documents_across_two_sequences():
    seen = answer(Documents([5, 7], [7, 5, 5]), Extent(2, 3))[0]
    np.testing.assert_array_equal(seen, [[0, 1, 1], [1, 0, 0]])


def test_packed_documents_skip_most_tiles():
    ids = np.repeat(np.arange(8), 64)
    mask, extent = Documents(ids), Extent(512, 512)
    tiles = [range(n, n + 64) for n in range(0, 512, 64)]
    for a in tiles:
        for b in tiles:
            wanted = Verdict.ALL if a == b else Verdict.NONE
            assert mask.verdict(a, b, extent) is wanted
    assert mask.verdict(range(32, 96), range(64), extent) is Verdict.SOME


def test_a_batch_that_disagrees_is_mixed():
    extent = Extent(4, 8, (2,))
    padding = Padding([2, 6])
    assert padding.verdict(range(4), range(2), extent) is Verdict.ALL
    assert padding.verdict(range(4), range(2, 6), extent) is Verdict.SOME
    assert padding.verdict(range(4), range(6, 8), extent) is Verdict.NONE
    both = Padding([8, 8], queries=[2, 2])
    assert both.verdict(range(2), range(8), extent) is Verdict.ALL
    assert both.verdict(range(2, 4), range(8), extent) is Verdict.NONE
    assert both.verdict(range(1, 3), range(8), extent) is Verdict.SOME


def test_a_rule_is_evaluated_with_numpy_or_torch():
    mask, extent = Rule(lambda i, j: (i - j) % 2 == 0), Extent(3, 4)
    expected = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    np.testing.assert_array_equal(answer(mask, extent)[0], expected)
    seen = mask.allows(torch.arange(3), torch.arange(4), extent)
    np.testing.assert_array_equal(seen.numpy(), expected)


def test_a_rule_may_know_its_batch_entry_and_head():
    mask, extent = Rule(lambda b, h, i, j: (j <= b) & (h == 1)), Extent(2, 3, (3,), heads=2)
    seen = answer(mask, extent)
    assert seen[:, 0].sum() == 0
    np.testing.assert_array_equal(seen[:, 1, 0].sum(-1), [1, 2, 3])
    seen = mask.allows(torch.arange(2), torch.arange(3), extent)
    assert tuple(seen.shape) == (3, 2, 2, 3)


def test_a_rule_may_ignore_an_argument():
    seen = Rule(lambda i, j: j < 2).allows(np.arange(3), np.arange(4), Extent(3, 4))
    assert seen.shape == (3, 4) and seen.sum() == 6


def test_rules_of_many_makes():
    extent = Extent(3, 3)
    lower = np.tril(np.ones((3, 3), bool))

    def with_default(i, j, slack=0):
        return j <= i + slack

    class Callable:
        def __call__(self, i, j):
            return j <= i

    rules = (
        operator.ge,
        with_default,
        functools.partial(with_default, slack=0),
        Callable(),
        lambda *indices: indices[0] >= indices[1],
    )
    for fn in rules:
        np.testing.assert_array_equal(answer(Rule(fn), extent)[0], lower)


def test_a_rule_is_opaque():
    mask = Rule(lambda i, j: j < 0)
    assert mask.verdict(range(2), range(2), Extent(2, 2)) is Verdict.SOME


@pytest.mark.parametrize("bad", [None, 3, Causal()])
def test_a_rule_takes_a_function(bad):
    with pytest.raises(DTypeError, match="takes a function"):
        Rule(bad)


def test_a_rule_takes_a_function_of_two_or_four():
    for fn in (lambda: None, lambda i: i, lambda i, j, k: i, lambda a, b, c, d, e: a):
        with pytest.raises(InputError, match=r"\(i, j\) or \(batch, head, i, j\)"):
            Rule(fn)


@pytest.mark.parametrize("fn", [lambda i, j: True, lambda i, j: i - j, lambda i, j: None])
def test_a_rule_must_return_booleans(fn):
    with pytest.raises(DTypeError, match="must return booleans"):
        Rule(fn).allows(np.arange(2), np.arange(2), Extent(2, 2))


@pytest.mark.parametrize("bad", [1.5, [1.0], "ab", None])
def test_padding_takes_lengths_or_booleans(bad):
    with pytest.raises(DTypeError, match=r"Padding\(keys\) has dtype .*; give lengths or booleans"):
        Padding(bad)
    if bad is not None:
        with pytest.raises(DTypeError, match=r"Padding\(queries\)"):
            Padding(1, bad)


def test_one_boolean_is_no_padding():
    with pytest.raises(ShapeError, match=r"single boolean; give one per token, or lengths"):
        Padding(True)


def test_padding_must_fit():
    extent = Extent(2, 3, (2,))
    for fine in (Padding(1), Padding([1, 2]), Padding(np.ones(3, bool)), Padding([1], [2, 2])):
        fine.check(extent)
    for wrong, words in (
        (Padding([1, 2, 3]), r"Padding\(keys\) as lengths has shape \(3,\)"),
        (Padding(np.ones((2, 4), bool)), r"Padding\(keys\) has 4 booleans for 3 keys"),
        (Padding(np.ones((3, 3), bool)), r"Padding\(keys\) has shape \(3,\)"),
        (Padding(1, np.ones(3, bool)), r"Padding\(queries\) has 3 booleans for 2 queries"),
        (Padding(1, [1, 1, 1]), r"Padding\(queries\) as lengths"),
    ):
        with pytest.raises(ShapeError, match=words):
            wrong.check(extent)


@pytest.mark.parametrize("bad", [[1.0, 2.0], np.array([True]), "ab"])
def test_documents_take_whole_numbers(bad):
    with pytest.raises(DTypeError, match=r"Documents\(query_ids\) has dtype .*; give whole"):
        Documents(bad)


def test_one_number_is_no_document():
    with pytest.raises(ShapeError, match="give one id per token"):
        Documents(3)


def test_documents_must_fit():
    Documents([0, 1], [0, 1, 1]).check(Extent(2, 3))
    Documents([[0, 1]], [0, 1, 1]).check(Extent(2, 3, (4,)))
    for wrong, words in (
        (Documents([0, 1]), r"key_ids\) has 2 ids for 3 key tokens; give key_ids too"),
        (Documents([0, 1, 2], [0, 1, 2]), r"query_ids\) has 3 ids for 2 query tokens"),
        (Documents(np.zeros((2, 2), int), [0, 1, 1]), r"query_ids\) has shape \(2,\)"),
    ):
        with pytest.raises(ShapeError, match=words):
            wrong.check(Extent(2, 3))


def test_names_show_shapes_not_numbers():
    assert repr(Padding([1, 2])) == "Padding(keys=<int64 (2,)>, queries=None)"
    assert "query_ids=<int32 (4,)>" in repr(Documents(torch.zeros(4, dtype=torch.int32)))
