"""The rule that kernels get, evaluated here as they evaluate it, against the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.gpu.test_spelt import read
from regard.engine import api
from regard.engine.backends.dense import attend_densely
from regard.engine.backends.gpu import bind as bind_page
from regard.engine.backends.gpu.bind import Bound, ScoreOperands, bind, flat
from regard.engine.backends.gpu.spelt import Spelt
from regard.engine.call import Call
from regard.mask import Extent, Mask
from regard.mask.base import Part
from regard.score import PartBias
from regard.testing import CASES, Case, Inputs


def call_of(inputs: Inputs) -> Call:
    options: dict[str, Any] = dict.fromkeys(("mask", "scale", "bias", "softcap", "sink"))
    options |= inputs.options
    return api._call(inputs.query, inputs.key, inputs.value, dropout=0.0, **options)


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def number(value: Any) -> float:
    return float(value)


def at(flat_tensor: Tensor | None, b: int, stride: int, count: int) -> Tensor:
    """The entries of one batch entry, by the stride that the rule gives."""
    assert flat_tensor is not None
    return flat_tensor.flatten()[b * stride : b * stride + count]


def strided(
    tensor: Tensor, b: int, h: int, strides: tuple[int, ...], rule: ScoreOperands
) -> Tensor:
    """(L, S) of one head, read through the strides alone."""
    storage = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.itemsize,),
                               (1,), 0)  # fmt: skip
    i, j = torch.arange(rule.queries)[:, None], torch.arange(rule.keys)
    where = tensor.storage_offset() + b * strides[0] + h * strides[1]
    return storage[where + i * strides[2] + j * strides[3]]


def visible(rule: ScoreOperands, b: int, h: int) -> Tensor:
    """(L, S) booleans of one head."""
    i, j = torch.arange(rule.queries)[:, None], torch.arange(rule.keys)
    ok = torch.ones(rule.queries, rule.keys, dtype=torch.bool)
    if rule.most is not None:
        ok &= j - i <= rule.most
    if rule.least is not None:
        ok &= j - i >= rule.least
    if rule.low is not None:
        sides = [
            at(side, b, rule.span_stride, rule.queries)[:, None]
            for side in (rule.low, rule.high, rule.low_2, rule.high_2)
            if side is not None
        ]
        within = (j >= sides[0]) & (j < sides[1])
        ok &= within | ((j >= sides[2]) & (j < sides[3])) if len(sides) > 2 else within
    if rule.query_ids is not None:
        own = at(rule.query_ids, b, rule.query_id_stride, rule.queries)
        ok &= own[:, None] == at(rule.key_ids, b, rule.key_id_stride, rule.keys)
    if rule.flags is not None:
        ok &= at(rule.flags, b, rule.flag_stride, rule.keys) != 0
    if rule.table is not None:
        ok &= strided(rule.table, b, h, rule.table_strides, rule) != 0
    if rule.spelt is not None:
        squares, by_query, by_key, bits = rule.spelt
        held = Spelt(squares[b, h], bits.view(torch.uint8), by_query, by_key)
        ok &= read(held, rule.queries, rule.keys)
    return ok


def scores(bound: Bound, b: int, h: int) -> Tensor:
    """(L, S) final scores of one head in double precision."""
    rule = bound.rule
    i, j = torch.arange(rule.queries)[:, None], torch.arange(rule.keys)
    x = bound.query[b, h].double() @ bound.key[b, h // rule.group].double().T * number(rule.scale)
    if rule.softcap is not None:
        cap = number(rule.softcap)
        x = cap * torch.tanh(x / cap)
    if rule.slopes is not None:
        x = x - rule.slopes[h].double() * (i + rule.bias_shift - j).abs()
    if rule.by_distance is not None:
        ahead = (j - i - rule.bias_shift).clamp(-rule.reach, rule.reach)
        x = x + rule.by_distance[h].double()[ahead + rule.reach]
    if rule.bias is not None:
        x = x + strided(rule.bias, b, h, rule.bias_strides, rule).double()
    return x.masked_fill(~visible(rule, b, h), -torch.inf)


def assert_right(call: Call) -> None:
    """Every head's final scores, and the sink."""
    bound = bind(call)
    steps = attend_densely(call.query, call.key, call.value, call.mask, call.score, torch.float64)
    right = steps.masked.expand(call.shape.extent.full).flatten(0, -4) if call.shape.batch else (
        steps.masked[None]
    )  # fmt: skip
    grain = float(torch.finfo(bound.exact).eps)
    for b in range(bound.query.shape[0]):
        for h in range(bound.query.shape[1]):
            torch.testing.assert_close(
                scores(bound, b, h), right[b, h].double(), rtol=20 * grain, atol=20 * grain
            )
    if call.score.sink is not None:
        assert bound.rule.sink is not None and bound.rule.sink.dtype == bound.exact


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rule_gives_the_final_scores(case: Case, dtype: torch.dtype) -> None:
    assert_right(call_of(case.inputs(dtype)))


@pytest.mark.parametrize(
    "name", ["bias table", "alibi", "relative bias", "causal at the end", "documents", "lengths"]
)
def test_a_part_keeps_its_place(name: str) -> None:
    """Some queries and some keys of a problem, as a long one is taken apart."""
    inputs = named(name).inputs(torch.float64)
    whole = call_of(inputs)
    steps = attend_densely(*whole_tensors(whole), whole.mask, whole.score, torch.float64)
    down, across, rows, cols = 11, 29, 31, 64
    size = (whole.shape.queries, whole.shape.keys)
    options = dict(inputs.options)
    if whole.mask is not None:
        options["mask"] = Part(whole.mask, down, across, *size)
    if whole.score.bias is not None:
        options["bias"] = PartBias(whole.score.bias, down, across, *size)
    part = Inputs(
        inputs.query[..., down : down + rows, :], inputs.key[..., across : across + cols, :],
        inputs.value[..., across : across + cols, :], options,
    )  # fmt: skip
    bound = bind(call_of(part))
    right = steps.masked[..., down : down + rows, across : across + cols]
    for b in range(2):
        for h in range(4):
            torch.testing.assert_close(scores(bound, b, h), right[b, h])


def whole_tensors(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    return call.query, call.key, call.value


LENGTHS = torch.tensor([2, 7, 4])
TWO_INTERVALS: list[Mask] = [
    regard.Window(1) | regard.Prefix(LENGTHS), regard.Prefix(LENGTHS) | regard.Window(1),
    regard.Window(1) | regard.Padding(LENGTHS), ~regard.Padding(LENGTHS) | regard.Causal(),
    ~regard.Prefix(LENGTHS) | regard.Prefix(2), regard.Prefix(2) | ~regard.Prefix(LENGTHS),
    (regard.Window(1) | regard.Prefix(3)) & regard.Padding(LENGTHS),
    (regard.Window(1) | regard.Prefix(LENGTHS)) & regard.Padding([6]),
]  # fmt: skip


@pytest.mark.parametrize("mask", TWO_INTERVALS, ids=repr)
@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
def test_each_interval_is_that_of_its_batch_entry(mask: Mask, batch: tuple[int, ...]) -> None:
    """One of the two for all entries, the other told for each."""
    query, key = torch.randn(*batch, 2, 6, 16), torch.randn(*batch, 2, 9, 16)
    assert_right(call_of(Inputs(query, key, key, {"mask": mask})))


# ── as kernels can read it ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("dtype", "narrowest"), [(torch.bfloat16, 1), (torch.float32, 1), (torch.float64, 4)], ids=str
)
def test_doubles_stand_beside_nothing_narrow(dtype: torch.dtype, narrowest: int) -> None:
    """What the compiler of Triton 3.6 cannot lay out; elsewhere a boolean stays a byte."""
    for name in ("scattered padding", "boolean table"):
        rule = bind(call_of(named(name).inputs(dtype))).rule
        found = rule.table if rule.flags is None else rule.flags
        assert found is not None and found.itemsize == narrowest
    narrow = named("bias table").inputs(dtype)
    narrow.options["bias"] = narrow.options["bias"].to(torch.bfloat16)
    rule = bind(call_of(narrow)).rule
    assert rule.bias is not None and rule.bias.itemsize == max(2, narrowest)
    if dtype != torch.bfloat16:
        assert_right(call_of(narrow))


def test_numbers_travel_in_the_precision_computed_in() -> None:
    for dtype, kind in ((torch.bfloat16, float), (torch.float64, Tensor)):
        rule = bind(call_of(named("cap, alibi, sink, causal").inputs(dtype))).rule
        assert isinstance(rule.scale, kind) and isinstance(rule.softcap, kind)
        assert number(rule.scale) == 0.7 and number(rule.softcap) == 5.0


@pytest.fixture
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_page, "_RULES", {})


@pytest.mark.usefixtures("nothing_remembered")
@pytest.mark.parametrize("first", [1, True, 1.0])
def test_equal_numbers_of_any_type_make_one_rule(first: float) -> None:
    """Kernels are compiled by type, so what comes first must not decide for the others."""
    x = torch.randn(1, 2, 6, 16)
    for number in (first, 1.0, 1):
        rule = bind(call_of(Inputs(x, x, x, {"scale": number, "softcap": number}))).rule
        assert type(rule.scale) is float and type(rule.softcap) is float


@pytest.mark.usefixtures("nothing_remembered")
def test_rules_that_differ_are_told_apart() -> None:
    """Each in the company of all the others, whichever came before."""
    wide, narrow = torch.randn(1, 4, 6, 16), torch.randn(1, 4, 9, 16)
    grouped = torch.randn(1, 2, 9, 16)
    options = [
        {}, {"mask": regard.Causal()}, {"mask": regard.Causal(align="start")},
        {"mask": regard.Window(2)}, {"mask": regard.Window(2, None)}, {"scale": 0.5},
        {"softcap": 2.0}, {"mask": regard.Causal(), "softcap": 2.0},
    ]  # fmt: skip
    for _ in range(2):
        for more in options:
            for key in (wide, narrow, grouped):
                assert_right(call_of(Inputs(wide, key, key, more)))
    there = replace(call_of(Inputs(wide, narrow, narrow, {})), place=1)
    assert bind(there).rule.position == 1
    assert bind(replace(there, place=None)).rule.position == 3


def test_a_rule_survives_that_others_forget_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another thread clears the memory between two lines."""

    class Forgetful(dict[Any, Any]):
        def __setitem__(self, name: Any, rule: Any) -> None:
            pass

    monkeypatch.setattr(bind_page, "_RULES", Forgetful())
    x = torch.randn(1, 2, 6, 16)
    assert bind(call_of(Inputs(x, x, x, {"mask": regard.Causal()}))).rule.most == 0


class Fourth(Mask):
    """Every fourth key; numbers alone, and no form that kernels know."""

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        return (i[:, None] + j) % 4 == 0


@pytest.mark.usefixtures("nothing_remembered")
def test_a_mask_that_is_spelt_out_is_not_remembered_here() -> None:
    """Its bits are kept elsewhere, where their size is watched, and by device."""
    x = torch.randn(2, 4, 6, 16)
    one, other = (bind(call_of(Inputs(x, x, x, {"mask": Fourth()}))).rule.spelt for _ in range(2))
    assert one is not None and other is not None and not bind_page._RULES
    assert one.bits is other.bits and one.squares.stride()[:2] == (0, 0)
    assert one.squares.shape == (2, 4, 1, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_doubles_read_words_of_32_bits(dtype: torch.dtype) -> None:
    x = torch.randn(1, 1, 6, 16, dtype=dtype)
    spelt = bind(call_of(Inputs(x, x, x, {"mask": Fourth()}))).rule.spelt
    assert spelt is not None
    assert spelt.bits.dtype == (torch.int32 if dtype == torch.float64 else torch.uint8)


@pytest.mark.usefixtures("nothing_remembered")
def test_rules_with_tensors_are_not_remembered() -> None:
    x = torch.randn(1, 2, 6, 16)
    for more in (
        {"mask": torch.ones(6, 6, dtype=torch.bool)}, {"bias": torch.zeros(6, 6)},
        {"sink": torch.zeros(2)}, {"mask": regard.Prefix(2)},
    ):  # fmt: skip
        bind(call_of(Inputs(x, x, x, more)))
    bind(call_of(Inputs(x.double(), x.double(), x.double(), {})))
    assert not bind_page._RULES


def test_a_table_for_all_heads_is_not_copied() -> None:
    x = torch.randn(2, 4, 6, 16)
    table = torch.rand(6, 6) > 0.2
    table.fill_diagonal_(True)
    found = bind(call_of(Inputs(x, x, x, {"mask": table}))).rule.table
    assert found is not None and found.shape == (2, 4, 6, 6)
    assert found.stride()[:2] == (0, 0)
    assert found.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()


def test_shared_masks_are_read_with_stride_0() -> None:
    """One length for all entries, or one for each."""
    x = torch.randn(3, 2, 8, 16)
    one = bind(call_of(Inputs(x, x, x, {"mask": regard.Prefix(3)}))).rule
    each = bind(call_of(Inputs(x, x, x, {"mask": regard.Padding([3, 8, 1])}))).rule
    assert one.span_stride == 0 and each.span_stride == 8
    assert each.high is not None and each.high[:, 0].tolist() == [3, 8, 1]


def test_flattening_copies_only_turned_tensors() -> None:
    x = torch.randn(2, 3, 4, 5, 16)
    assert flat(x).data_ptr() == x.data_ptr() and flat(x).shape == (6, 4, 5, 16)
    turned = torch.randn(2, 4, 16, 5).mT
    assert flat(turned).stride(-1) == 1 and torch.equal(flat(turned), turned)
    heads_last = torch.randn(2, 5, 4, 16).transpose(1, 2)
    assert flat(heads_last).data_ptr() == heads_last.data_ptr()
    assert not flat(x.requires_grad_()).requires_grad
