"""Between the raw product and the softmax: biases against their definitions, numpy = torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import regard
from regard.declare import decode, encode
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Extent
from regard.score import (
    ALiBi,
    BiasTable,
    RelativeBias,
    ScoreRule,
    as_bias,
)

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


def tiles(bias, extent, rows, cols):
    """The same tile through numpy and through torch, as numpy arrays."""
    by_numpy = bias.map(np.asarray).tile(np.array(rows), np.array(cols), extent)
    by_torch = bias.map(torch.as_tensor).tile(torch.tensor(rows), torch.tensor(cols), extent)
    return by_numpy, by_torch.numpy()


# ── ALiBi ────────────────────────────────────────────────────────────────────────────────────


@given(SIZES, SIZES, ALIGNS, st.data())
def test_alibi_is_minus_slope_times_distance(queries, keys, align, data):
    slopes = np.array(data.draw(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=4)))
    rows = data.draw(st.lists(st.integers(0, queries - 1), min_size=1, max_size=6))
    cols = data.draw(st.lists(st.integers(0, keys - 1), min_size=1, max_size=6))
    shift = keys - queries if align == "end" else 0
    wanted = [[[-s * abs(i + shift - j) for j in cols] for i in rows] for s in slopes]
    by_numpy, by_torch = tiles(ALiBi(slopes, align), Extent(queries, keys), rows, cols)
    np.testing.assert_array_equal(by_numpy, wanted)
    np.testing.assert_array_equal(by_torch, wanted)


def test_alibi_takes_slopes_as_they_come():
    for slopes in ([1, 2], np.array([1, 2], dtype=np.uint8), np.array([1.0, 2.0])):
        tile = ALiBi(slopes).tile(np.array([3]), np.arange(4), Extent(4, 4, (), 2))
        np.testing.assert_array_equal(tile, [[[-3, -2, -1, 0]], [[-6, -4, -2, 0]]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_alibi_of_half_precision_slopes_masks_nothing_far_away(dtype):
    far = torch.tensor([100_001])
    tile = ALiBi(torch.ones(1, dtype=dtype)).tile(far, torch.tensor([0]), Extent(100_002, 100_002))
    assert tile.item() == -100_001


def test_alibi_on_the_last_query_of_a_cache():
    """One new query against five keys stands at the last of them."""
    tile = ALiBi([0.5]).tile(np.array([0]), np.arange(5), Extent(1, 5))
    np.testing.assert_array_equal(tile, [[[-2, -1.5, -1, -0.5, 0]]])
    tile = ALiBi([0.5], align="start").tile(np.array([0]), np.arange(5), Extent(1, 5))
    np.testing.assert_array_equal(tile, [[[0, -0.5, -1, -1.5, -2]]])


def test_gradients_reach_the_slopes():
    slopes = torch.tensor([0.5, 0.25], requires_grad=True)
    i = torch.arange(3)
    ALiBi(slopes).tile(i, i, Extent(3, 3, (), 2)).sum().backward()
    assert slopes.grad.tolist() == [-8.0, -8.0]  # the sum of |i − j| over 3 × 3


# ── RelativeBias ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("buckets", [4, 6, 8, 31, 32, 33, 64])
@pytest.mark.parametrize("max_distance", [33, 64, 100, 128, 200, 256])
def test_buckets_are_t5s(bidirectional, buckets, max_distance):
    distances = torch.arange(-300, 301)
    wanted = t5_bucket(distances, bidirectional, buckets, max_distance).numpy()
    table = np.arange(buckets, dtype=np.float64)[:, None]  # the number of a bucket is its value
    bias = RelativeBias(table, bidirectional, max_distance)
    by_numpy, by_torch = tiles(bias, Extent(601, 601), [300], list(range(601)))
    np.testing.assert_array_equal(by_numpy[0, 0], wanted)
    np.testing.assert_array_equal(by_torch[0, 0], wanted)


@settings(deadline=None)
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


@given(SIZES, SIZES, ALIGNS, st.booleans(), st.data())
def test_relative_bias_is_a_look_up_by_distance(queries, keys, align, bidirectional, data):
    heads = data.draw(st.integers(1, 3))
    table = np.random.default_rng(0).normal(size=(8, heads))
    bias = RelativeBias(table, bidirectional, 12, align)
    rows = data.draw(st.lists(st.integers(0, queries - 1), min_size=1, max_size=5))
    cols = data.draw(st.lists(st.integers(0, keys - 1), min_size=1, max_size=5))
    shift = keys - queries if align == "end" else 0

    def cell(head, i, j):
        return table[t5_bucket(torch.tensor(j - (i + shift)), bidirectional, 8, 12), head]

    wanted = [[[cell(h, i, j) for j in cols] for i in rows] for h in range(heads)]
    by_numpy, by_torch = tiles(bias, Extent(queries, keys, (), heads), rows, cols)
    np.testing.assert_array_equal(by_numpy, wanted)
    np.testing.assert_array_equal(by_torch, wanted)


def test_one_direction_does_not_tell_the_future_apart():
    bias = RelativeBias(np.arange(8.0)[:, None], bidirectional=False)
    tile = bias.tile(np.array([0]), np.arange(5), Extent(5, 5))
    assert (tile == 0).all()


def test_gradients_reach_the_table():
    table = torch.zeros(4, 1, requires_grad=True)
    i = torch.arange(3)
    RelativeBias(table, max_distance=8).tile(i, i, Extent(3, 3)).sum().backward()
    # buckets: same place 3 cells; one or two behind 3 in bucket 1; ahead 3 in bucket 3
    assert table.grad[:, 0].tolist() == [3, 3, 0, 3]


# ── BiasTable ────────────────────────────────────────────────────────────────────────────────


@given(st.data())
def test_a_table_broadcasts_like_any_array(data):
    full = (2, 3, 4, 5)  # batch, heads, queries, keys
    drop = data.draw(st.integers(0, 4))
    shape = tuple(n if data.draw(st.booleans()) else 1 for n in full)[drop:]
    array = np.random.default_rng(1).normal(size=shape)
    bias = BiasTable(array)
    extent = Extent(4, 5, (2,), 3)
    bias.check(extent)
    rows = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    cols = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    wanted = np.broadcast_to(array, full)[:, :, rows][..., cols]
    for tile in tiles(bias, extent, rows, cols):
        np.testing.assert_array_equal(np.broadcast_to(tile, wanted.shape), wanted)
    entry = bias.select((1,)).tile(np.array(rows), np.array(cols), extent)
    np.testing.assert_array_equal(np.broadcast_to(entry, wanted.shape[1:]), wanted[1])


def test_minus_infinity_masks_and_the_lowest_number_does_not():
    q, k, v = torch.zeros(1, 2), torch.zeros(2, 2), torch.tensor([[1.0], [5.0]])
    masked = regard.attend(q, k, v, bias=torch.tensor([[0.0, -torch.inf]]))
    assert masked.output.item() == 1
    assert masked.top(2).keys.tolist() == [[0, -1]]
    low = torch.finfo(torch.float32).min
    seen = regard.attend(q, k, v, bias=torch.tensor([[0.0, low]]))
    assert seen.output.item() == 1  # exp(low) is 0, yet the key is there to be listed
    assert seen.top(2).keys.tolist() == [[0, 1]]


def test_other_biases_are_the_same_for_every_entry():
    alibi, relative = ALiBi([1.0]), RelativeBias(np.zeros((4, 1)))
    assert alibi.select((3,)) is alibi
    assert relative.select((3,)) is relative


# ── the whole rule ───────────────────────────────────────────────────────────────────────────


@given(st.floats(0.1, 100), st.floats(-1e4, 1e4))
def test_a_soft_cap_bounds_keeps_order_and_leaves_small_scores(cap, score):
    rule = ScoreRule(1.0, softcap=cap)
    capped = rule.cap(np.array([score, score + 1]))
    assert (np.abs(capped) <= cap).all()
    assert capped[0] <= capped[1]
    np.testing.assert_allclose(rule.cap(np.array([cap * 1e-4])), [cap * 1e-4], rtol=1e-6)
    by_torch = rule.cap(torch.tensor([score], dtype=torch.float64))
    np.testing.assert_allclose(by_torch.numpy(), capped[:1])
    np.testing.assert_allclose(rule.cap(np.float64(score)), capped[0])


def test_without_a_cap_scores_pass_untouched():
    scores = np.arange(3.0)
    assert ScoreRule(1.0).cap(scores) is scores


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


@settings(deadline=None)
@given(SIZES, SIZES, ALIGNS)
def test_a_rule_bias_equals_its_own_table(queries, keys, align):
    torch.manual_seed(queries * 13 + keys)
    q, k = torch.randn(2, queries, 4).double(), torch.randn(2, keys, 4).double()
    i, j = torch.arange(queries), torch.arange(keys)
    slopes, table = torch.tensor([0.5, 0.1]).double(), torch.randn(8, 2).double()
    for bias in (ALiBi(slopes, align), RelativeBias(table, max_distance=9, align=align)):
        whole = bias.tile(i, j, Extent(queries, keys, (), 2))
        by_rule, by_table = regard.attend(q, k, k, bias=bias), regard.attend(q, k, k, bias=whole)
        torch.testing.assert_close(by_rule.output, by_table.output)
        torch.testing.assert_close(by_rule.dense(), by_table.dense())


def test_arrays_come_in_a_fixed_order_and_map_reaches_all():
    bias, sink = ALiBi(np.array([0.5])), np.array([1.0])
    rule = ScoreRule(0.5, 3.0, bias, sink)
    assert [a.tolist() for a in rule.arrays()] == [[0.5], [1.0]]
    doubled = rule.map(lambda a: a * 2)
    assert [a.tolist() for a in doubled.arrays()] == [[1.0], [2.0]]
    assert (doubled.scale, doubled.softcap) == (0.5, 3.0)
    assert list(ScoreRule(1.0).arrays()) == []
    assert ScoreRule(1.0).map(lambda a: a * 2).bias is None


def test_map_keeps_what_is_not_an_array():
    relative = RelativeBias(np.zeros((8, 1)), False, 64, "start").map(lambda a: a + 1)
    assert (relative.bidirectional, relative.max_distance, relative.align) == (False, 64, "start")
    assert (relative.table == 1).all()
    assert ALiBi([1.0], "start").map(np.asarray).align == "start"


def test_select_picks_one_entrys_bias_and_keeps_the_rest():
    table = np.arange(4.0).reshape(2, 1, 1, 2)
    rule = ScoreRule(0.5, 3.0, BiasTable(table), np.array([1.0])).select((1,))
    assert rule.bias.table.tolist() == [[[2.0, 3.0]]]
    assert (rule.scale, rule.softcap, rule.sink.tolist()) == (0.5, 3.0, [1.0])


BIASES = [
    None,
    BiasTable(np.ones((3, 3))),
    ALiBi(np.array([0.5, 1.0]), "start"),
    RelativeBias(np.arange(16.0).reshape(8, 2), False, 77, "start"),
]


@given(
    st.floats(-1e3, 1e3),
    st.none() | st.floats(1e-3, 1e3),
    st.sampled_from(BIASES),
    st.sampled_from([None, np.array([1.0, 2.0])]),
)
def test_a_described_rule_is_rebuilt_as_it_was(scale, softcap, bias, sink):
    rule = ScoreRule(scale, softcap, bias, sink)
    again = decode(encode(rule), rule.arrays(), ScoreRule)
    assert (again.scale, again.softcap) == (scale, softcap)
    assert repr(again.bias) == repr(bias)
    for mine, theirs in zip(again.arrays(), rule.arrays(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    if bias is not None:
        i, extent = np.arange(3), Extent(3, 3, (), 2)
        np.testing.assert_array_equal(again.bias.tile(i, i, extent), bias.tile(i, i, extent))
        settings_of = {k: v for k, v in vars(bias).items() if not hasattr(v, "shape")}
        assert settings_of.items() <= vars(again.bias).items()


def test_as_bias_takes_what_it_says():
    bias = ALiBi([1.0])
    assert as_bias(bias) is bias
    assert as_bias(None) is None
    assert isinstance(as_bias(np.zeros(3)), BiasTable)
    assert isinstance(as_bias(torch.zeros(3)), BiasTable)


def test_biases_say_what_they_are():
    assert repr(ALiBi(np.ones(2))) == "ALiBi(<float64 (2,)>, align='end')"
    assert repr(BiasTable(torch.zeros(3))) == "BiasTable(<float32 (1, 3)>)"
    assert "bidirectional=True" in repr(RelativeBias(np.zeros((8, 2))))


# ── errors: what was given, what would work ──────────────────────────────────────────────────

EXTENT = Extent(4, 5, (2,), 3)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: BiasTable(np.zeros(3, bool)), DTypeError, ["dtype bool", "mask="]),
        (lambda: BiasTable(np.zeros(3, int)), DTypeError, ["dtype int64", "give floats"]),
        (lambda: BiasTable(torch.zeros(3).cfloat()), DTypeError, ["complex64", "give floats"]),
        (lambda: as_bias([1.0]), DTypeError, ["a list", "regard.ALiBi(slopes)", "RelativeBias"]),
        (lambda: as_bias(0.5), DTypeError, ["a float", "(…, heads, queries, keys)"]),
        (lambda: ALiBi([True]), DTypeError, ["ALiBi(slopes)", "dtype bool", "give floats"]),
        (lambda: ALiBi([1.0], "middle"), InputError, ["align='middle'", "'end'", "'start'"]),
        (lambda: RelativeBias(np.zeros(8)), ShapeError, ["(8,)", "(buckets, heads)"]),
        (lambda: RelativeBias([["a"]]), DTypeError, ["RelativeBias(table)", "give floats"]),
        (lambda: RelativeBias(np.zeros((8, 1)), align=""), InputError, ["align=''", "'end'"]),
        (
            lambda: RelativeBias(np.zeros((3, 1))),
            InputError,
            ["3 buckets up to distance 128", "at least 4 buckets"],
        ),
        (
            lambda: RelativeBias(np.zeros((1, 1)), bidirectional=False),
            InputError,
            ["1 buckets", "at least 2 buckets"],
        ),
        (
            lambda: RelativeBias(np.zeros((32, 1)), max_distance=8),
            InputError,
            ["32 buckets up to distance 8", "max_distance > 8"],
        ),
        (lambda: ScoreRule("1"), DTypeError, ["scale is a str", "plain number"]),
        (lambda: ScoreRule(torch.tensor(1.0)), DTypeError, ["scale is a Tensor", "plain number"]),
        (lambda: ScoreRule(math.inf), InputError, ["scale=inf", "finite", "1/√d_k"]),
        (lambda: ScoreRule(math.nan), InputError, ["scale=nan", "finite"]),
        (lambda: ScoreRule(1.0, "x"), DTypeError, ["softcap is a str"]),
        (lambda: ScoreRule(1.0, 0.0), InputError, ["softcap=0.0", "positive", "None"]),
        (lambda: ScoreRule(1.0, -1), InputError, ["softcap=-1", "positive"]),
        (lambda: ScoreRule(1.0, math.inf), InputError, ["softcap=inf", "positive"]),
        (
            lambda: ScoreRule(1.0, bias=BiasTable(np.zeros((4, 4)))).check(EXTENT),
            ShapeError,
            ["bias has shape (4, 4)", "(…, heads, queries, keys) = (2, 3, 4, 5)"],
        ),
        (
            lambda: ScoreRule(1.0, bias=ALiBi([1.0, 2.0])).check(EXTENT),
            ShapeError,
            ["ALiBi(slopes) has shape (2,)", "one slope per query head: (3,)"],
        ),
        (
            lambda: ScoreRule(1.0, bias=RelativeBias(np.zeros((8, 2)))).check(EXTENT),
            ShapeError,
            ["RelativeBias(table) has shape (8, 2)", "3 heads"],
        ),
        (
            lambda: ScoreRule(1.0, sink=np.zeros(2)).check(EXTENT),
            ShapeError,
            ["sink has shape (2,)", "one number per query head: (3,)"],
        ),
    ],
)
def test_errors_say_what_was_given_and_what_would_work(make, error, words):
    with pytest.raises(error) as refused:
        make()
    for word in words:
        assert word in str(refused.value)


def test_what_fits_passes_the_check():
    for bias in (None, BiasTable(np.zeros((3, 1, 5))), ALiBi(np.ones(3))):
        ScoreRule(1.0, bias=bias, sink=np.zeros(3)).check(EXTENT)
    ScoreRule(1.0, bias=RelativeBias(np.zeros((8, 3)))).check(EXTENT)
