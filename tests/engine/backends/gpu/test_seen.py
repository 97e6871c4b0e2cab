"""Masks in the kernels' normal form, against the masks themselves."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.test_spelt import read
from regard.engine.backends.gpu import seen, spelt
from regard.engine.backends.gpu.seen import Form, Seen, normal_form, seen_by
from regard.errors import UnavailableError
from regard.mask import Extent, Mask
from regard.mask.base import Part

QUERIES, KEYS, BATCH = 13, 21, 2
EXTENT = Extent(QUERIES, KEYS, (BATCH,), 1)
CPU = torch.device("cpu")
IDS = torch.tensor([[0] * 9 + [1] * 5 + [2] * 7, [3] * 2 + [1] * 12 + [3] * 7])
FLAGS = torch.arange(KEYS).expand(BATCH, -1) % 4 != 1
LENGTHS = torch.tensor([5, 17])


def tensors(array: Any) -> Tensor:
    return torch.as_tensor(array)


MASKS: list[Mask] = [
    mask.map(tensors)
    for mask in (
        regard.Causal(), regard.Causal("start"), regard.Window(4), regard.Window(3, 2, "start"),
        regard.Window(None, None), regard.Causal() & regard.Window(6, 6, "start"),
        regard.Padding(LENGTHS), regard.Padding(LENGTHS, torch.tensor([3, 9])),
        regard.Padding(FLAGS), regard.Padding(FLAGS, torch.arange(QUERIES).expand(BATCH, -1) > 4),
        regard.Documents(IDS[:, -QUERIES:], IDS), regard.Prefix(6), regard.Prefix(LENGTHS),
        regard.Causal() | regard.Prefix(6), regard.Causal() | regard.Window(None, 3, "start"),
        ~regard.Window(4), ~regard.Causal(), ~~regard.Causal(), ~regard.Window(None, None),
        ~(regard.Prefix(3) | ~regard.Causal()), regard.Window(2, 1) | ~regard.Prefix(15),
        regard.Causal() & regard.Documents(IDS[:, -QUERIES:], IDS) & regard.Padding(LENGTHS),
        regard.Padding(FLAGS) & regard.Padding(~FLAGS) & regard.Causal(),
        regard.mask.Table(torch.rand(BATCH, 1, QUERIES, KEYS) > 0.5) & regard.Causal(),
    )
]  # fmt: skip


def evaluated(seen: Seen, queries: int, keys: int) -> Tensor:
    """(BATCH, 1, queries, keys), as a kernel evaluates it."""
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    ok = torch.ones(BATCH, queries, keys, dtype=torch.bool)
    if seen.least is not None:
        ok &= j - i >= seen.least
    if seen.most is not None:
        ok &= j - i <= seen.most
    within = torch.zeros_like(ok) if seen.spans else torch.ones_like(ok)
    for low, high in seen.spans:
        after = torch.ones_like(ok) if low is None else j >= low[..., None]
        within |= after if high is None else after & (j < high[..., None])
    ok &= within
    if seen.query_ids is not None and seen.key_ids is not None:
        ok &= seen.query_ids[..., :, None] == seen.key_ids[..., None, :]
    if seen.flags is not None:
        ok &= seen.flags[..., None, :]
    if seen.spelt is not None:
        return ok[:, None] & read(seen.spelt, queries, keys)
    return ok[:, None] if seen.table is None else ok[:, None] & seen.table


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_the_normal_form_allows_what_the_mask_allows(mask):
    i, j = torch.arange(QUERIES), torch.arange(KEYS)
    right = mask.allows(i, j, EXTENT).expand(BATCH, 1, QUERIES, KEYS)
    assert torch.equal(evaluated(seen_by(mask, EXTENT, CPU), QUERIES, KEYS), right)


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_a_part_of_a_problem(mask):
    part = Part(mask, 4, 6, QUERIES, KEYS)
    here = Extent(5, 9, (BATCH,), 1)
    right = part.allows(torch.arange(5), torch.arange(9), here).expand(BATCH, 1, 5, 9)
    assert torch.equal(evaluated(seen_by(part, here, CPU), 5, 9), right)


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_the_text_of_a_mask_is_enough_to_judge_it(mask):
    assert normal_form(mask, EXTENT).why_not == ""
    assert normal_form(Part(mask, 0, 0, QUERIES, KEYS), EXTENT).why_not == ""


OPAQUE = [
    regard.Rule(lambda i, j: (i + j) % 3 == 0),
    regard.Causal() | regard.Documents(IDS[:, -QUERIES:], IDS),
    ~regard.Window(3) & ~regard.Window(5, 4),
    regard.Documents(IDS[:, -QUERIES:], IDS) & regard.Documents(IDS[:, :QUERIES], IDS),
    regard.mask.Table(torch.ones(QUERIES, KEYS, dtype=torch.bool))
    & regard.mask.Table(torch.ones(QUERIES, 1, dtype=torch.bool)),
]


@pytest.mark.parametrize("mask", OPAQUE, ids=repr)
def test_any_other_mask_is_spelt_out(mask):
    assert normal_form(mask, EXTENT) == Form(table=True)
    held = mask.map(tensors)
    right = held.allows(torch.arange(QUERIES), torch.arange(KEYS), EXTENT)
    found = evaluated(seen_by(held, EXTENT, CPU), QUERIES, KEYS)
    assert torch.equal(found, right.expand(found.shape))


def test_a_mask_that_would_be_too_large_is_a_reason(monkeypatch):
    monkeypatch.setattr(spelt, "MOST", 2047)  # less than the bits of one square
    monkeypatch.setattr(spelt, "_KEPT", OrderedDict())
    rule = regard.Rule(lambda i, j: i == j)
    for device in ("cpu", "meta"):
        why_not = normal_form(rule, EXTENT, device).why_not
        assert "of masks it knows no Rule, and as a table it takes" in why_not
    with pytest.raises(UnavailableError, match="'triton' cannot serve this call"):
        seen_by(rule, EXTENT, CPU)


def test_what_shapes_refuse_is_judged_again_where_squares_can_be_counted(monkeypatch):
    monkeypatch.setattr(spelt, "MOST", 2400)  # the index, and one square's bits
    monkeypatch.setattr(spelt, "_LITTLE", 0)
    monkeypatch.setattr(spelt, "_KEPT", OrderedDict())
    monkeypatch.setattr(seen, "_FORMS", {})
    long = Extent(300, 300)
    assert normal_form(Everything(), long, "meta").why_not
    with monkeypatch.context() as patch:
        patch.setattr(spelt, "unwatched", lambda _: False)
        assert normal_form(Everything(), long, "cpu").why_not
    assert normal_form(Everything(), long, "cpu") == Form(table=True)


class Everything(Mask):
    """A mask with a tag and without a form that kernels know."""

    tag = "test.everything/1"

    def allows(self, i, j, extent):
        return (i[:, None] >= 0) & (j >= 0)


def test_any_callable_can_be_a_rule_and_none_is_kept_alive():
    @dataclass
    class Later:  # has an equality, hence no hash
        n: int

        def __call__(self, i, j):
            return i >= j + self.n

    rule = regard.Rule(Later(2))
    right = rule.allows(torch.arange(QUERIES), torch.arange(KEYS), EXTENT)
    assert normal_form(rule, EXTENT) == Form(table=True)
    found = evaluated(seen_by(rule, EXTENT, CPU), QUERIES, KEYS)
    assert torch.equal(found, right.expand(found.shape))
    fleeting = regard.Rule(lambda i, j: i > j)
    gone = weakref.ref(fleeting.fn)
    normal_form(fleeting, EXTENT)
    del fleeting
    gc.collect()
    assert gone() is None


def test_no_mask_says_nothing():
    assert seen_by(None, EXTENT, CPU) == Seen()
    assert normal_form(None, EXTENT).why_not == ""


def test_documents_and_flags_say_which_keys_can_matter():
    documents = regard.Documents(IDS[:, -QUERIES:], IDS).map(tensors)
    (span,) = seen_by(documents, EXTENT, CPU).spans
    assert span.low is not None and span.high is not None
    assert span.low[0, 0] == 0 and span.high[0, 0] == 9  # document 0
    assert span.low[1, -1] == 0 and span.high[1, -1] == KEYS  # document 3, in two places
    (span,) = seen_by(regard.Padding(FLAGS).map(tensors), EXTENT, CPU).spans
    assert span.low is not None and span.low[0, 0] == 0
