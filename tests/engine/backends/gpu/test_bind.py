"""What kernels are told of a call and of its mask is what it says, in every form that a mask has;
nothing is copied or made that need not be."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import regard
from each.conftest import DEVICE, call_of
from engine.backends.gpu.paths import named
from regard.engine.backends.gpu import bind as bind_page
from regard.engine.backends.gpu import seen as seen_page
from regard.engine.backends.gpu import spelt
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.seen import Form, normal_form, seen_by
from regard.errors import UnavailableError
from regard.mask import Causal, Documents, Extent, Mask, Padding, Prefix, Rule, Table, Window
from regard.mask.base import Part
from regard.score import PartBias
from regard.testing import Inputs, Yardstick

CPU = torch.device("cpu")


def bound_of(x: Tensor, **options: Any) -> Bound:
    return bind(call_of(Inputs(x, x, x, options)))


def expect_right(q: Tensor, k: Tensor, right: Any = None, **options: Any) -> None:
    """By the kernels as by the definition, or as `right` (output and lse) has it."""
    a = regard.attend(q, k, k, implementation="triton", **options)
    if right is None:
        dense = regard.attend(q, k, k, implementation="dense", **options)
        right = dense.output, dense.lse
    torch.testing.assert_close(a.output, right[0], msg=lambda text: f"{options}: {text}")
    torch.testing.assert_close(a.lse, right[1], msg=lambda text: f"{options}: {text}")


# ── every mask and every score rule ──────────────────────────────────────────────────────────

QUERIES, KEYS, BATCH = 13, 21, 2
EXTENT = Extent(QUERIES, KEYS, (BATCH,), 1)
IDS = torch.tensor([[0] * 9 + [1] * 5 + [2] * 7, [3] * 2 + [1] * 12 + [3] * 7])
FLAGS = torch.arange(KEYS).expand(BATCH, -1) % 4 != 1
LENGTHS = torch.tensor([5, 17])
DOCUMENTS = Documents(IDS[:, -QUERIES:], IDS)
MASKS: list[Mask] = [
    mask.map(torch.as_tensor)
    for mask in (
        Causal(), Causal("start"), Window(4), Window(3, 2, "start"), Window(None, None),
        Causal() & Window(6, 6, "start"), Padding(LENGTHS),
        Padding(LENGTHS, torch.tensor([3, 9])), Padding(FLAGS),
        Padding(FLAGS, torch.arange(QUERIES).expand(BATCH, -1) > 4), DOCUMENTS, Prefix(6),
        Prefix(LENGTHS), Causal() | Prefix(6), Causal() | Window(None, 3, "start"), ~Window(4),
        ~Causal(), ~~Causal(), ~Window(None, None), ~(Prefix(3) | ~Causal()),
        Window(2, 1) | ~Prefix(15), Causal() & DOCUMENTS & Padding(LENGTHS),
        Padding(FLAGS) & Padding(~FLAGS) & Causal(),
        Table(torch.rand(BATCH, 1, QUERIES, KEYS) > 0.5) & Causal(),
        # two intervals, one of them for all entries, the other told for each
        Window(1) | Prefix(LENGTHS), Prefix(LENGTHS) | Window(1), Window(1) | Padding(LENGTHS),
        ~Padding(LENGTHS) | Causal(), ~Prefix(LENGTHS) | Prefix(2), Prefix(2) | ~Prefix(LENGTHS),
        (Window(1) | Prefix(3)) & Padding(LENGTHS), (Window(1) | Prefix(LENGTHS)) & Padding([6]),
    )
]  # fmt: skip
OPAQUE: list[Mask] = [
    Rule(lambda i, j: (i + j) % 3 == 0), Causal() | DOCUMENTS, ~Window(3) & ~Window(5, 4),
    DOCUMENTS & Documents(IDS[:, :QUERIES], IDS),
    Table(torch.ones(QUERIES, KEYS, dtype=torch.bool))
    & Table(torch.ones(QUERIES, 1, dtype=torch.bool)),
]  # fmt: skip


def tensors(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


@pytest.mark.kernels
@pytest.mark.parametrize("part", [False, True])
def test_every_form_of_a_mask(part: bool) -> None:
    """Whole, and as where a long problem is taken apart."""
    query, key = tensors(BATCH, 1, QUERIES, 16), tensors(BATCH, 1, KEYS, 16)
    for mask in (*MASKS, *OPAQUE):
        given = mask.map(lambda array: torch.as_tensor(array, device=DEVICE))
        if part:
            given = Part(given, 4, 6, QUERIES, KEYS)
            expect_right(query[..., 4:9, :], key[..., 6:15, :], mask=given)
        else:
            expect_right(query, key, mask=given)


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["bias table", "alibi", "relative bias"])
def test_a_part_of_a_bias_keeps_its_place(name: str) -> None:
    inputs = named(name).inputs(torch.float32, device=DEVICE)
    whole = call_of(inputs)
    place = (11, 29, whole.shape.queries, whole.shape.keys)
    q, k = inputs.query[..., 11:42, :], inputs.key[..., 29:93, :]
    mask = None if whole.mask is None else Part(whole.mask, *place)
    scores = Yardstick(whole).exact.masked[..., 11:42, 29:93]
    output = scores.softmax(-1).nan_to_num() @ k.double().repeat_interleave(2, 1)
    right = output.float(), scores.logsumexp(-1).float()
    expect_right(q, k, right, mask=mask, bias=PartBias(whole.score.bias, *place))


@pytest.mark.parametrize("mask", [*MASKS, *OPAQUE], ids=repr)
def test_the_text_of_a_mask_is_enough_to_judge_it(mask: Mask) -> None:
    """What has no form of its own is spelt out."""
    for rule in (mask, Part(mask, 0, 0, QUERIES, KEYS)):
        form = normal_form(rule, EXTENT)
        assert form.why_not == ""
        assert form == Form(table=True) or not any(mask is other for other in OPAQUE)


def test_a_mask_that_would_be_too_large_is_a_reason() -> None:
    rule = Rule(lambda i, j: i == j)
    with patch.multiple(spelt, MOST=2047, _KEPT=OrderedDict()):  # less than one square's bits
        for device in ("cpu", "meta"):
            why_not = normal_form(rule, EXTENT, device).why_not
            assert "of masks it knows no Rule, and as a table it takes" in why_not
        with pytest.raises(UnavailableError, match="'triton' cannot serve this call"):
            seen_by(rule, EXTENT, CPU)


class Everything(Mask):
    """A mask with a tag and without a form that kernels know."""

    tag = "test.everything/1"

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return (i[:, None] >= 0) & (j >= 0)


def test_what_shapes_refuse_is_judged_again_where_squares_can_be_counted() -> None:
    long = Extent(300, 300)
    small = {"MOST": 2400, "_LITTLE": 0, "_KEPT": OrderedDict()}  # the index, one square's bits
    with patch.multiple(spelt, **small), patch.object(seen_page, "_FORMS", {}):
        assert normal_form(Everything(), long, "meta").why_not
        with patch.object(spelt, "unwatched", lambda _: False):
            assert normal_form(Everything(), long, "cpu").why_not
        assert normal_form(Everything(), long, "cpu") == Form(table=True)


def test_any_callable_can_be_a_rule_and_none_is_kept_alive() -> None:
    @dataclass
    class Later:  # has an equality, hence no hash
        n: int

        def __call__(self, i: Any, j: Any) -> Any:
            return i >= j + self.n

    assert normal_form(Rule(Later(2)), EXTENT) == Form(table=True)
    fleeting = Rule(lambda i, j: i > j)
    gone = weakref.ref(fleeting.fn)
    normal_form(fleeting, EXTENT)
    del fleeting
    gc.collect()
    assert gone() is None


# ── as kernels can read it ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("dtype", "narrowest"), [(torch.bfloat16, 1), (torch.float32, 1), (torch.float64, 4)], ids=str
)
def test_doubles_stand_beside_nothing_narrow(dtype: torch.dtype, narrowest: int) -> None:
    """What the compiler of Triton 3.6 cannot lay out; elsewhere a boolean stays a byte."""
    for name in ("scattered padding", "boolean table"):
        rule = bind(call_of(named(name).inputs(dtype))).rule
        bits = rule.table if rule.flags is None else rule.flags
        assert bits is not None and bits.itemsize == narrowest
    narrow = named("bias table").inputs(dtype)
    narrow.options["bias"] = narrow.options["bias"].to(torch.bfloat16)
    rule = bind(call_of(narrow)).rule
    assert rule.bias is not None and rule.bias.itemsize == max(2, narrowest)
    squares = bound_of(torch.randn(1, 1, 6, 16, dtype=dtype), mask=Everything()).rule.spelt
    assert squares is not None
    assert squares.bits.dtype == (torch.int32 if dtype == torch.float64 else torch.uint8)
    kind = Tensor if dtype == torch.float64 else float  # Triton's own numbers are single
    rule = bind(call_of(named("cap, alibi, sink, causal").inputs(dtype))).rule
    assert isinstance(rule.scale, kind) and isinstance(rule.softcap, kind)
    assert float(rule.scale) == 0.7 and float(rule.softcap) == 5.0


@pytest.fixture
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_page, "_RULES", {})


@pytest.mark.usefixtures("nothing_remembered")
def test_equal_numbers_of_any_type_make_one_rule() -> None:
    """Kernels are compiled by type, so what comes first must not decide for the others."""
    x = torch.randn(1, 2, 6, 16)
    for number in (True, 1, 1.0):
        rule = bound_of(x, scale=number, softcap=number).rule
        assert type(rule.scale) is float and type(rule.softcap) is float


@pytest.mark.kernels
def test_rules_that_differ_are_told_apart() -> None:
    """Each in the company of all the others, whichever came before; also where another thread
    clears the memory between two lines."""
    wide, narrow = tensors(1, 2, 6, 16), tensors(1, 2, 9, 16)
    options: list[dict[str, Any]] = [
        {}, {"mask": Causal()}, {"mask": Causal(align="start")}, {"mask": Window(2)},
        {"mask": Window(2, None)}, {"scale": 0.5}, {"softcap": 2.0},
        {"mask": Causal(), "softcap": 2.0},
    ]  # fmt: skip
    forgetful = type("Forgetful", (dict,), {"__setitem__": lambda *_: None})()
    for memory, rules in (({}, options * 2), (forgetful, options[:1])):
        with patch.object(bind_page, "_RULES", memory):
            for more in rules:
                for key in (wide, narrow, narrow[:, :1]):
                    expect_right(wide, key, **more)
    there = replace(call_of(Inputs(wide, narrow, narrow, {})), place=1)
    assert bind(there).rule.position == 1
    assert bind(replace(there, place=None)).rule.position == 3


@pytest.mark.usefixtures("nothing_remembered")
def test_rules_with_tensors_are_not_remembered() -> None:
    """The bits of a mask that is spelt out are kept elsewhere, where their size is watched."""
    x = torch.randn(1, 2, 6, 16)
    for more in (
        {"mask": torch.ones(6, 6, dtype=torch.bool)}, {"bias": torch.zeros(6, 6)},
        {"sink": torch.zeros(2)}, {"mask": Prefix(2)},
    ):  # fmt: skip
        bound_of(x, **more)
    bound_of(x.double())
    first, second = (bound_of(x.repeat(2, 2, 1, 1), mask=Everything()).rule.spelt for _ in "ab")
    assert not bind_page._RULES
    assert first is not None and second is not None and first.bits is second.bits
    assert first.squares.stride()[:2] == (0, 0) and first.squares.shape == (2, 4, 1, 1)


def test_what_all_share_is_not_copied() -> None:
    """A table for all heads; one length for all entries, or one for each."""
    x = torch.randn(3, 4, 8, 16)
    table = torch.rand(8, 8) > 0.2
    made = bound_of(x, mask=table).rule.table
    assert made is not None and made.shape == (3, 4, 8, 8) and made.stride()[:2] == (0, 0)
    assert made.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()
    alike, each = bound_of(x, mask=Prefix(3)).rule, bound_of(x, mask=Padding([3, 8, 1])).rule
    assert alike.span_stride == 0 and each.span_stride == 8
    assert each.high is not None and each.high[:, 0].tolist() == [3, 8, 1]
