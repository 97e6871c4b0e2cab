"""Between the raw product and the softmax: biases against their definitions, numpy = torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import regard
from regard.declare import decode, encode
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Extent
from regard.score import ALiBi, BiasTable, RelativeBias, ScoreRule, as_bias

SIZES = st.integers(1, 12)
ALIGNS = st.sampled_from(["start", "end"])


def t5_bucket(relative_position, bidirectional, num_buckets, max_distance):
    """T5's rule as transformers computes it: torch, single precision."""
    buckets = torch.zeros_like(relative_position)
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_position > 0).long() * num_buckets
        relative_position = relative_position.abs()
    else:
        relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
    exact = num_buckets // 2
    grown = torch.log(relative_position.float() / exact) / math.log(max_distance / exact)
    large = exact + (grown * (num_buckets - exact)).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    return buckets + torch.where(relative_position < exact, relative_position, large)


# ── each bias is its definition ──────────────────────────────────────────────────────────────


@st.composite
def biases(draw: st.DrawFn) -> tuple[Any, Extent, np.ndarray]:
    """A bias, its problem, and its numbers (*batch, heads, L, S), cell by cell."""
    queries, keys, heads = draw(SIZES), draw(SIZES), draw(st.integers(1, 3))
    dice = np.random.default_rng(draw(st.integers(0, 99)))
    align, extent = draw(ALIGNS), Extent(queries, keys, (2,), heads)
    shift = keys - queries if align == "end" else 0
    ahead = np.arange(keys) - (np.arange(queries)[:, None] + shift)  # (L, S)
    kind = draw(st.sampled_from(["alibi", "relative", "table"]))
    if kind == "alibi":
        slopes = dice.normal(size=heads)
        return ALiBi(slopes, align), extent, -slopes[:, None, None] * abs(ahead)
    if kind == "relative":
        both, table = draw(st.booleans()), dice.normal(size=(8, heads))
        numbers = table[t5_bucket(torch.tensor(ahead), both, 8, 12).numpy()]
        return RelativeBias(table, both, 12, align), extent, np.moveaxis(numbers, -1, 0)
    drop = draw(st.integers(0, 4))
    shape = tuple(n if draw(st.booleans()) else 1 for n in extent.full)[drop:]
    table = dice.normal(size=shape)
    return BiasTable(table), extent, table


@settings(deadline=None, max_examples=80)
@given(biases(), st.data())
def test_a_bias_is_its_definition_in_whole_and_in_part(given_bias, data):
    """On any indices, in both libraries; of some entries, heads, queries and keys; as text."""
    bias, extent, numbers = given_bias
    numbers = np.broadcast_to(numbers, extent.full)
    bias.check(extent)
    i, j = (
        np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6)))
        for n in (extent.queries, extent.keys)
    )
    wanted = numbers[..., i[:, None], j]
    tensors = bias.map(torch.as_tensor)
    for tile in (bias.tile(i, j, extent), tensors.tile(torch.tensor(i), torch.tensor(j), extent)):
        np.testing.assert_allclose(np.broadcast_to(tile, wanted.shape), wanted, rtol=1e-12)
    alone = np.broadcast_to(bias.select((1,)).tile(i, j, extent), wanted.shape[1:])
    np.testing.assert_array_equal(alone, np.broadcast_to(bias.tile(i, j, extent), wanted.shape)[1])
    # the rule cut to some entries and heads, and seen from some queries and keys
    first = data.draw(st.integers(0, extent.heads - 1))
    heads, sink = range(first, extent.heads), np.arange(float(extent.heads))
    rule = ScoreRule(0.5, 3.0, bias, sink).cut(extent, (range(1, 2),), heads)
    here = Extent(extent.queries, extent.keys, (1,), len(heads))
    rule.check(here)
    assert (rule.scale, rule.softcap, rule.sink.tolist()) == (0.5, 3.0, sink[first:].tolist())
    kept = np.broadcast_to(rule.bias.tile(i, j, here), (1, len(heads), len(i), len(j)))
    np.testing.assert_allclose(kept, wanted[1:2, first:], rtol=1e-12)
    row, col = int(i.min()), int(j.min())
    part = bias.seen_from(row, col, extent.queries, extent.keys)
    some = Extent(extent.queries - row, extent.keys - col, (2,), extent.heads)
    tile = np.broadcast_to(part.tile(i - row, j - col, some), wanted.shape)
    np.testing.assert_allclose(tile, wanted, rtol=1e-12)
    again = decode(encode(bias), bias.arrays(), type(bias))
    np.testing.assert_array_equal(again.tile(i, j, extent), bias.tile(i, j, extent))
    assert encode(again) == encode(bias) and repr(again) == repr(bias)


@settings(deadline=None, max_examples=150)
@given(st.integers(2, 70), st.integers(1, 400), st.booleans())
def test_buckets_are_t5s_at_any_size(buckets, max_distance, bidirectional):
    assume(0 < buckets // (4 if bidirectional else 2) < max_distance)
    bias = RelativeBias(np.zeros((buckets, 1)), bidirectional, max_distance)
    ahead = torch.arange(-max_distance, max_distance + 1)
    wanted = t5_bucket(ahead, bidirectional, buckets, max_distance).numpy()
    np.testing.assert_array_equal(bias.buckets(), wanted)


def test_near_keys_have_a_bucket_each_and_far_ones_share():
    """By hand: 8 buckets both ways are 4 a side, 0, 1, then two that grow up to distance 16."""
    bias = RelativeBias(np.zeros((8, 1)), max_distance=16)
    behind = bias.buckets()[:17][::-1]  # distance 0 … 16
    assert behind.tolist() == [0, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    ahead = bias.buckets()[16:]
    assert ahead.tolist() == [0, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]


def test_alibi_by_hand_whatever_slopes_are():
    for slopes in ([1, 2], np.array([1, 2], dtype=np.uint8), np.array([1.0, 2.0])):
        tile = ALiBi(slopes).tile(np.array([3]), np.arange(4), Extent(4, 4, (), 2))
        np.testing.assert_array_equal(tile, [[[-3, -2, -1, 0]], [[-6, -4, -2, 0]]])
    for dtype in (torch.float16, torch.bfloat16):  # no slope masks what is far away
        far, first = torch.tensor([100_001]), torch.tensor([0])
        slope = ALiBi(torch.ones(1, dtype=dtype))
        assert slope.tile(far, first, Extent(100_002, 100_002)).item() == -100_001


def test_gradients_reach_slopes_tables_and_sinks():
    i = torch.arange(3)
    slopes = torch.tensor([0.5, 0.25], requires_grad=True)
    ALiBi(slopes).tile(i, i, Extent(3, 3, (), 2)).sum().backward()
    assert slopes.grad.tolist() == [-8.0, -8.0]  # the sum of |i − j| over 3 × 3
    table = torch.zeros(4, 1, requires_grad=True)
    RelativeBias(table, max_distance=8).tile(i, i, Extent(3, 3)).sum().backward()
    # buckets: same place 3 cells; one or two behind 3 in bucket 1; ahead 3 in bucket 3
    assert table.grad[:, 0].tolist() == [3, 3, 0, 3]
    sink = torch.zeros(4, requires_grad=True)
    whole = Extent(5, 6, (2,), 4)
    ScoreRule(1.0, sink=sink).cut(whole, (range(1),), range(1, 4)).sink.sum().backward()
    assert sink.grad.tolist() == [0.0, 1.0, 1.0, 1.0]


def test_minus_infinity_masks_and_the_lowest_number_does_not():
    q, k, v = torch.zeros(1, 2), torch.zeros(2, 2), torch.tensor([[1.0], [5.0]])
    masked = regard.attend(q, k, v, bias=torch.tensor([[0.0, -torch.inf]]))
    assert masked.output.item() == 1
    assert masked.top(2).keys.tolist() == [[0, -1]]
    low = torch.finfo(torch.float32).min
    seen = regard.attend(q, k, v, bias=torch.tensor([[0.0, low]]))
    assert seen.output.item() == 1  # exp(low) is 0, yet the key is there to be listed
    assert seen.top(2).keys.tolist() == [[0, 1]]


# ── the whole rule ───────────────────────────────────────────────────────────────────────────


@given(st.floats(0.1, 100), st.floats(-1e4, 1e4))
def test_a_soft_cap_bounds_keeps_order_and_leaves_small_scores(cap, score):
    rule = ScoreRule(1.0, softcap=cap)
    capped = rule.cap(np.array([score, score + 1]))
    assert (np.abs(capped) <= cap).all() and capped[0] <= capped[1]
    np.testing.assert_allclose(rule.cap(np.array([cap * 1e-4])), [cap * 1e-4], rtol=1e-6)
    by_torch = rule.cap(torch.tensor([score], dtype=torch.float64))
    np.testing.assert_allclose(by_torch.numpy(), capped[:1])
    np.testing.assert_allclose(rule.cap(np.float64(score)), capped[0])
    assert ScoreRule(1.0).cap(capped) is capped


def test_the_order_is_scale_cap_bias_mask_sink():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 3, dtype=torch.float64) for _ in range(3))
    bias, sink = torch.randn(2, 4, 4, dtype=torch.float64), torch.tensor([0.5, -1.0]).double()
    a = regard.attend(
        q, k, v, scale=2.0, softcap=1.5, bias=bias, sink=sink, mask=regard.Causal()
    )  # fmt: skip
    scores = 1.5 * torch.tanh(2.0 * q @ k.mT / 1.5) + bias
    scores = scores.masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf)
    with_sink = torch.cat([scores, sink[:, None, None].expand(2, 4, 1)], -1)
    weights = with_sink.softmax(-1)
    torch.testing.assert_close(a.dense(), weights[..., :-1])
    torch.testing.assert_close(a.sink_mass(), weights[..., -1])
    torch.testing.assert_close(a.output, weights[..., :-1] @ v)


@pytest.mark.parametrize("align", ["start", "end"])
def test_a_rule_bias_equals_its_own_table(align):
    q, k = torch.randn(2, 7, 4).double(), torch.randn(2, 11, 4).double()
    i, j = torch.arange(7), torch.arange(11)
    slopes, table = torch.tensor([0.5, 0.1]).double(), torch.randn(8, 2).double()
    for bias in (ALiBi(slopes, align), RelativeBias(table, max_distance=9, align=align)):
        whole = bias.tile(i, j, Extent(7, 11, (), 2))
        by_rule, by_table = regard.attend(q, k, k, bias=bias), regard.attend(q, k, k, bias=whole)
        torch.testing.assert_close(by_rule.output, by_table.output)
        torch.testing.assert_close(by_rule.dense(), by_table.dense())


@given(
    st.floats(-1e3, 1e3),
    st.none() | st.floats(1e-3, 1e3),
    st.sampled_from([None, ALiBi(np.array([0.5, 1.0]), "start"), BiasTable(np.ones((3, 3)))]),
    st.sampled_from([None, np.array([1.0, 2.0])]),
)
def test_a_rule_is_its_text_and_its_arrays_in_a_fixed_order(scale, softcap, bias, sink):
    rule = ScoreRule(scale, softcap, bias, sink)
    again = decode(encode(rule), rule.arrays(), ScoreRule)
    assert (again.scale, again.softcap) == (scale, softcap) and repr(again.bias) == repr(bias)
    held = [x for x in (*(bias.arrays() if bias else ()), sink) if x is not None]
    doubled = rule.map(lambda a: a * 2)
    for mine, kept, twice, right in zip(
        again.arrays(), rule.arrays(), doubled.arrays(), held, strict=True
    ):
        np.testing.assert_array_equal(mine, right)
        assert kept is right
        np.testing.assert_array_equal(twice, right * 2)
    assert (doubled.scale, doubled.softcap) == (scale, softcap)


def test_map_and_select_keep_what_is_not_an_array():
    relative = RelativeBias(np.zeros((8, 1)), False, 64, "start").map(lambda a: a + 1)
    assert (relative.bidirectional, relative.max_distance, relative.align) == (False, 64, "start")
    assert (relative.table == 1).all() and relative.select((3,)) is relative
    table = np.arange(4.0).reshape(2, 1, 1, 2)
    rule = ScoreRule(0.5, 3.0, BiasTable(table), np.array([1.0])).select((1,))
    assert rule.bias.table.tolist() == [[[2.0, 3.0]]]
    assert (rule.scale, rule.softcap, rule.sink.tolist()) == (0.5, 3.0, [1.0])


def test_what_is_taken_for_a_bias_and_how_it_is_shown():
    bias = ALiBi([1.0])
    assert as_bias(bias) is bias and as_bias(None) is None
    assert all(isinstance(as_bias(zeros), BiasTable) for zeros in (np.zeros(3), torch.zeros(3)))
    assert repr(ALiBi(np.ones(2))) == "ALiBi(<float64 (2,)>, align='end')"
    assert repr(BiasTable(torch.zeros(3))) == "BiasTable(<float32 (1, 3)>)"
    assert "bidirectional=True" in repr(RelativeBias(np.zeros((8, 2))))


# ── errors: what was given, what would work ──────────────────────────────────────────────────

EXTENT = Extent(4, 5, (2,), 3)


def table_of(buckets: int, **options: Any) -> RelativeBias:
    return RelativeBias(np.zeros((buckets, 1)), **options)


def checked(**options: Any) -> None:
    ScoreRule(1.0, **options).check(EXTENT)


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: BiasTable(np.zeros(3, bool)), DTypeError, "dtype bool.*mask="),
        (lambda: BiasTable(np.zeros(3, int)), DTypeError, "dtype int64.*give floats"),
        (lambda: BiasTable(torch.zeros(3).cfloat()), DTypeError, "complex64.*give floats"),
        (lambda: as_bias([1.0]), DTypeError, r"a list.*regard\.ALiBi\(slopes\).*RelativeBias"),
        (lambda: as_bias(0.5), DTypeError, r"a float.*\(…, heads, queries, keys\)"),
        (lambda: ALiBi([True]), DTypeError, r"ALiBi\(slopes\).*dtype bool.*give floats"),
        (lambda: ALiBi([1.0], "middle"), InputError, "align='middle'.*'end'.*'start'"),
        (lambda: RelativeBias(np.zeros(8)), ShapeError, r"\(8,\).*\(buckets, heads\)"),
        (lambda: RelativeBias([["a"]]), DTypeError, r"RelativeBias\(table\).*give floats"),
        (lambda: table_of(8, align=""), InputError, "align=''.*'end'"),
        (lambda: table_of(3), InputError, "3 buckets up to distance 128.*at least 4 buckets"),
        (lambda: table_of(1, bidirectional=False), InputError, "1 buckets.*at least 2 buckets"),
        (lambda: table_of(32, max_distance=8), InputError,
         "32 buckets up to distance 8.*max_distance > 8"),
        (lambda: ScoreRule("1"), DTypeError, "scale is a str.*plain number"),
        (lambda: ScoreRule(torch.tensor(1.0)), DTypeError, "scale is a Tensor.*plain number"),
        (lambda: ScoreRule(math.inf), InputError, "scale=inf.*finite.*1/√d_k"),
        (lambda: ScoreRule(math.nan), InputError, "scale=nan.*finite"),
        (lambda: ScoreRule(1.0, "x"), DTypeError, "softcap is a str"),
        (lambda: ScoreRule(1.0, 0.0), InputError, "softcap=0.0.*positive.*None"),
        (lambda: ScoreRule(1.0, -1), InputError, "softcap=-1.*positive"),
        (lambda: ScoreRule(1.0, math.inf), InputError, "softcap=inf.*positive"),
        (lambda: checked(bias=BiasTable(np.zeros((4, 4)))), ShapeError,
         r"bias has shape \(4, 4\).*\(…, heads, queries, keys\) = \(2, 3, 4, 5\)"),
        (lambda: checked(bias=ALiBi([1.0, 2.0])), ShapeError,
         r"ALiBi\(slopes\) has shape \(2,\).*one slope per query head: \(3,\)"),
        (lambda: checked(bias=RelativeBias(np.zeros((8, 2)))), ShapeError,
         r"RelativeBias\(table\) has shape \(8, 2\).*3 heads"),
        (lambda: checked(sink=np.zeros(2)), ShapeError,
         r"sink has shape \(2,\).*one number per query head: \(3,\)"),
    ],
)  # fmt: skip
def test_errors_say_what_was_given_and_what_would_work(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
