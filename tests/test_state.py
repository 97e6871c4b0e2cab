"""The laws of merging: attention over a union of keys is the merge over any split of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial as bind
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from each.conftest import call_of
from mask import cases as masks
from regard.mask import Extent
from regard.mask.base import Part
from regard.score import PartBias, as_bias
from regard.state import Partial, rounded_off
from regard.summary import Summary, TopScores, Visible
from regard.testing import Inputs, Yardstick

SUMMARIES = (
    regard.Entropy(),
    regard.MaxScore(),
    regard.MaxLogit(),
    regard.Top(3),
    regard.Concentration(),
    regard.Distance(),
    Visible(),
)
TINY = 1e-12  # float64, scores of order one
each_implementation = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
seldom = settings(max_examples=12, deadline=None)
often = settings(max_examples=30, deadline=None)
near = bind(torch.testing.assert_close, rtol=TINY, atol=TINY)


# ── problems ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Problem:
    """Tensors and options of one attention, and how to take a part of it."""

    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any]
    summaries: tuple[Any, ...] = SUMMARIES

    @property
    def leaves(self) -> list[Tensor]:
        return [self.q, self.k, self.v]

    @property
    def keys(self) -> int:
        return self.k.shape[-2]

    def whole(self, implementation: str, sink: Tensor | None = None) -> regard.Attention:
        return regard.attend(
            *self.leaves, **self.options, sink=sink, summaries=self.summaries,
            implementation=implementation,
        )  # fmt: skip

    def part(
        self, implementation: str, keys: tuple[int, int], queries: tuple[int, int] | None = None
    ) -> Partial:
        """Attention of some queries over the keys from one number to another."""
        first, last = queries or (0, self.q.shape[-2])
        there = slice(*keys)
        return regard.attend_partial(
            self.q[..., first:last, :], self.k[..., there, :], self.v[..., there, :],
            **self.options, summaries=self.summaries, implementation=implementation,
            query_start=first, key_start=keys[0], total_queries=self.q.shape[-2],
            total_keys=self.keys,
        )  # fmt: skip

    def parts(self, implementation: str, cuts: Sequence[int]) -> list[Partial]:
        return [self.part(implementation, span) for span in spans(self.keys, cuts)]


def spans(count: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive ranges between the cuts; two equal cuts leave an empty one."""
    return list(itertools.pairwise([0, *sorted(cuts), count]))


def bias_of(kind: str | None, extent: Extent) -> Any:
    """Random numbers of a kind; the table hides some cells."""
    if kind == "table":
        table = torch.randn(extent.full, dtype=torch.float64)
        return table.masked_fill(table > 1, -torch.inf)
    if kind == "alibi":
        return regard.ALiBi(torch.rand(extent.heads, dtype=torch.float64))
    if kind == "relative":
        numbers = torch.randn(8, extent.heads, dtype=torch.float64)
        return regard.RelativeBias(numbers, max_distance=6)
    return None


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Any mask, bias, cap and number of heads; L and S apart, down to one of each."""
    extent = draw(masks.extents())
    mask = draw(st.none() | masks.composed(extent))
    bias = draw(st.sampled_from([None, "table", "alibi", "relative"]))
    torch.manual_seed(draw(st.integers(0, 9999)))
    options = {
        "mask": mask and mask.mask,
        "bias": bias_of(bias, extent),
        "softcap": draw(st.sampled_from([None, 3.0])),
        "scale": draw(st.sampled_from([None, 0.5])),
    }
    return random_problem(extent, draw(st.sampled_from([1, extent.heads])), options)


def random_problem(extent: Extent, key_heads: int, options: dict[str, Any]) -> Problem:
    dim, value_dim = 4, 3
    draw = bind(torch.randn, dtype=torch.float64)
    return Problem(
        draw(*extent.batch, extent.heads, extent.queries, dim),
        draw(*extent.batch, key_heads, extent.keys, dim),
        draw(*extent.batch, key_heads, extent.keys, value_dim),
        options,
    )


def cuts_of(problem: Problem) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, problem.keys), min_size=1, max_size=3)


def numbers_of(partial: Partial) -> list[Tensor]:
    """Everything a partial says, one tensor after the other."""
    found = [partial.out, partial.lse]
    for value in partial.summaries.values():
        found += list(value) if isinstance(value, TopScores) else [value]
    return found


def expect_equal(found: Partial, right: Partial) -> None:
    """The same summaries in any order of asking, the same bits."""
    assert set(found.summaries) == set(right.summaries)
    for a, b in zip(numbers_of(found), numbers_of(right), strict=True):
        assert torch.equal(a, b)


def expect_near(found: Partial, right: Partial) -> None:
    for a, b in zip(numbers_of(found), numbers_of(right), strict=True):
        near(a, b)


def expect_whole(found: regard.state.Finished, a: regard.Attention) -> None:
    """A finished merge says what the attention over all keys says."""
    near(found.output, a.output)
    near(found.lse, a.lse)
    for summary in found.summaries:
        right, mine = a.summarize(summary)[summary], found[summary]
        if isinstance(summary, regard.Top):
            near(mine[0], right.weights)
            assert torch.equal(mine[1], right.keys)
        else:
            near(mine, right)


# ── the laws ─────────────────────────────────────────────────────────────────────────────────


@often
@given(problem=problems(), data=st.data())
def test_empty_is_an_identity_on_both_sides(problem, data):
    cut = data.draw(st.integers(0, problem.keys))
    part = problem.part("cpu", (0, cut))
    nothing = Partial.empty(part)
    expect_equal(regard.merge(part, nothing), part)
    expect_equal(regard.merge(nothing, part), part)
    expect_equal(regard.merge(nothing, nothing), nothing)


@often
@given(problem=problems(), data=st.data())
def test_the_order_of_two_does_not_matter_to_the_bit(problem, data):
    a, b = problem.parts("cpu", [data.draw(st.integers(0, problem.keys))])
    expect_equal(regard.merge(a, b), regard.merge(b, a))


@often
@given(problem=problems(), data=st.data())
def test_merging_is_associative(problem, data):
    cut = st.integers(0, problem.keys)
    a, b, c = problem.parts("cpu", [data.draw(cut), data.draw(cut)])
    right = regard.merge(a, regard.merge(b, c))
    expect_near(regard.merge(regard.merge(a, b), c), right)
    expect_near(regard.merge(a, b, c), right)


def test_one_partial_merges_to_itself():
    part = random_problem(Extent(2, 3), 1, {}).part("cpu", (0, 3))
    expect_equal(regard.merge(part), part)


def test_a_partial_over_no_keys_is_the_empty_one():
    problem = random_problem(Extent(3, 4, (2,), 2), 1, {})
    for implementation in ("cpu", "tiled", "dense"):
        part = problem.part(implementation, (2, 2))
        expect_equal(part, Partial.empty(part))
        assert (part.lse == -torch.inf).all()
        assert (part.out == 0).all()


# ── union = merge ────────────────────────────────────────────────────────────────────────────


@each_implementation
@seldom
@given(problem=problems(), data=st.data())
def test_a_union_is_the_merge_over_any_split(implementation, problem, data):
    parts = problem.parts(implementation, data.draw(cuts_of(problem)))
    merged = regard.merge(*data.draw(st.permutations(parts)))
    expect_whole(merged.finish(), problem.whole(implementation))


def _documents(extent: Extent) -> regard.Mask:
    ids = torch.arange(extent.keys) // 3
    return regard.Documents(ids[-extent.queries :], ids)


def _table(extent: Extent) -> Tensor:
    return torch.rand(extent.full, generator=torch.Generator().manual_seed(1)) > 0.4


MASKS = {
    "causal at the end": lambda _: regard.Causal(),
    "causal at the start": lambda _: regard.Causal("start"),
    "window": lambda _: regard.Window(2, 1),
    "padding": lambda _: regard.Padding([2, 7]),
    "padded queries": lambda _: regard.Padding([7, 3], [1, 4]),
    "documents": _documents,
    "prefix or causal": lambda _: regard.Prefix(3) | regard.Causal(),
    "rule": lambda _: regard.Rule(lambda i, j: (i + j) % 3 != 0),
    "boolean table": _table,
    "nothing at all": lambda _: regard.Prefix(0),
}


@each_implementation
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("bias", [None, "table", "alibi", "relative"])
def test_masks_and_biases_speak_of_the_whole_problem(implementation, name, bias):
    torch.manual_seed(0)
    extent = Extent(4, 7, (2,), 2)
    options = {"mask": MASKS[name](extent), "bias": bias_of(bias, extent), "softcap": 5.0}
    problem = random_problem(extent, 1, options)
    merged = regard.merge(*problem.parts(implementation, [1, 1, 5]))
    expect_whole(merged.finish(), problem.whole(implementation))


@each_implementation
@seldom
@given(problem=problems(), data=st.data())
def test_chunks_of_queries_stand_side_by_side(implementation, problem, data):
    cuts = data.draw(cuts_of(problem))
    right = regard.merge(*problem.parts(implementation, cuts))
    middle = data.draw(st.integers(0, problem.q.shape[-2]))
    pieces = [
        regard.merge(
            *(problem.part(implementation, keys, rows) for keys in spans(problem.keys, cuts))
        )
        for rows in ((0, middle), (middle, problem.q.shape[-2]))
    ]
    for upper, lower, both in zip(*map(numbers_of, (*pieces, right)), strict=True):
        axis = -1 if both.shape == right.lse.shape else -2
        near(torch.cat([upper, lower], axis), both)


@each_implementation
@seldom
@given(problem=problems(), data=st.data())
def test_gradients_go_through_a_merge(implementation, problem, data):
    torch.manual_seed(data.draw(st.integers(0, 9999)))
    cuts = data.draw(cuts_of(problem))
    for leaf in problem.leaves:
        leaf.requires_grad_()
    merged = regard.merge(*problem.parts(implementation, cuts)).finish()
    a = problem.whole(implementation)
    weights = [torch.randn_like(t) for t in (a.output, a.lse, a.lse)]
    expected = _gradients([a.output, a.lse, a.entropy()], weights, problem.leaves)
    found = [merged.output, merged.lse, merged[regard.Entropy()]]
    for mine, right in zip(_gradients(found, weights, problem.leaves), expected, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-10)


def _gradients(answers: list[Tensor], weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Of a random sum of output, lse and entropy; lse only where it is finite."""
    output, lse, entropy = answers
    lse = lse.masked_fill(lse == -torch.inf, 0.0)
    total = sum((w * x).sum() for w, x in zip(weights, (output, lse, entropy), strict=True))
    return list(torch.autograd.grad(total, leaves))


def test_a_row_that_no_part_sees_has_gradient_zero_not_nan():
    problem = random_problem(Extent(3, 6), 1, {"mask": regard.Causal() & ~regard.Prefix(4)})
    for leaf in problem.leaves:
        leaf.requires_grad_()
    merged = regard.merge(*problem.parts("cpu", [3])).finish()
    assert torch.equal(merged.lse[0] == -torch.inf, torch.tensor([True, False, False]))
    total = merged.output.sum() + merged[regard.Entropy()].sum() + merged.lse[0, 1:].sum()
    for gradient in torch.autograd.grad(total, problem.leaves):
        assert gradient.isfinite().all()
    total = regard.merge(*problem.parts("cpu", [3])).finish().output[0, 0].sum()
    assert all((g == 0).all() for g in torch.autograd.grad(total, problem.leaves))


def test_equal_scores_go_to_the_lower_key_whichever_part_comes_first():
    q, v = torch.ones(2, 4), torch.ones(6, 4)
    k = torch.ones(6, 4)
    k[4] = 2.0
    problem = Problem(q, k, v, {}, (regard.Top(4),))
    parts = problem.parts("cpu", [2, 4])
    for order in itertools.permutations(parts):
        _, keys = regard.merge(*order).finish()[regard.Top(4)]
        assert keys.tolist() == [[4, 0, 1, 2]] * 2


def test_a_real_nan_stays_one():
    problem = random_problem(Extent(2, 4), 1, {})
    problem.q[..., 0, 0] = torch.nan
    found = regard.merge(*problem.parts("cpu", [2])).finish()
    assert found.output[0, 0].isnan().all() and found.lse[0, 0].isnan()
    assert not found.output[0, 1].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_merging_stays_within_the_error_budget(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 40, 16).to(dtype) for _ in range(3))
    problem = Problem(q, k, v, {"mask": regard.Causal()}, (regard.Entropy(),))
    found = regard.merge(*problem.parts("cpu", [7, 8, 30])).finish()
    call = call_of(Inputs(q, k, v, {"mask": regard.Causal()}))
    right = Yardstick(call)
    assert found.output.dtype == found.lse.dtype == torch.float32
    right.budget(lambda steps: steps.context).check(found.output, "output")
    right.budget(lambda steps: steps.lse).check(found.lse, "lse")
    define = regard.Entropy().define
    budget = right.budget(lambda steps: define(steps, call.shape))
    budget.check(found[regard.Entropy()], "entropy")


# ── the sink ─────────────────────────────────────────────────────────────────────────────────


@each_implementation
@seldom
@given(problem=problems(), data=st.data())
def test_finish_adds_the_sink_once(implementation, problem, data):
    sink = torch.randn(problem.q.shape[-3], dtype=torch.float64) * 2
    merged = regard.merge(*problem.parts(implementation, data.draw(cuts_of(problem))))
    expect_whole(merged.finish(sink), problem.whole(implementation, sink))


def test_the_sink_is_not_a_key():
    """Large as it is, it is neither counted nor listed nor the largest score."""
    problem = random_problem(Extent(2, 5, (), 2), 2, {"mask": regard.Causal()})
    merged = regard.merge(*problem.parts("cpu", [2]))
    without, having = merged.finish(), merged.finish(torch.tensor([50.0, 50.0]))
    for summary in (Visible(), regard.MaxLogit(), regard.MaxScore()):
        assert torch.equal(without[summary], having[summary])
    assert torch.equal(without[regard.Top(3)][1], having[regard.Top(3)][1])
    assert having.output.abs().max() < 1e-15
    assert torch.equal(having.lse, torch.full((2, 2), 50.0, dtype=torch.float64))


def test_the_sink_has_a_gradient():
    problem = random_problem(Extent(3, 4, (), 2), 2, {})
    sink = torch.tensor([0.3, -1.0], dtype=torch.float64, requires_grad=True)
    merged = regard.merge(*problem.parts("cpu", [1])).finish(sink)
    found = torch.autograd.grad(merged.output.sum() + merged.lse.sum(), sink)[0]
    a = problem.whole("dense", sink)
    near(found, torch.autograd.grad(a.output.sum() + a.lse.sum(), sink)[0])


def test_inputs_without_a_head_axis_may_have_a_sink():
    problem = Problem(*(torch.randn(5, 4, dtype=torch.float64) for _ in range(3)), {})
    sink = torch.tensor([0.5], dtype=torch.float64)
    found = regard.merge(*problem.parts("cpu", [2])).finish(sink)
    assert found.lse.shape == (5,)
    expect_whole(found, problem.whole("cpu", sink))


# ── what does not merge is swept again under the global lse ──────────────────────────────────


def _shard(problem: Problem, lse: Tensor, rows: tuple[int, int], keys: tuple[int, int]):
    """The matrix of some queries over some keys, under everybody's lse."""
    place = (rows[0], keys[0], problem.q.shape[-2], problem.keys)
    mask, bias = problem.options["mask"], as_bias(problem.options["bias"])
    return regard.replay(
        problem.q[..., slice(*rows), :], problem.k[..., slice(*keys), :], lse[..., slice(*rows)],
        mask=None if mask is None else Part(regard.mask.as_mask(mask), *place),
        bias=None if bias is None else PartBias(bias, *place),
        scale=problem.options["scale"], softcap=problem.options["softcap"],
    )  # fmt: skip


@seldom
@given(problem=problems(), data=st.data())
def test_received_over_key_ranges_concatenates_and_over_query_ranges_adds(problem, data):
    queries = problem.q.shape[-2]
    whole = problem.whole("cpu")
    lse = regard.merge(*problem.parts("cpu", data.draw(cuts_of(problem)))).finish().lse
    rows = spans(queries, [data.draw(st.integers(0, queries))])
    keys = spans(problem.keys, data.draw(cuts_of(problem)))
    for row in rows:
        shards = [_shard(problem, lse, row, key) for key in keys]
        near(torch.cat([s.received() for s in shards], -1), whole.received(range(*row)))
        near(torch.cat([s[...] for s in shards], -1), whole[..., slice(*row), :])
    total = sum(
        torch.cat([_shard(problem, lse, row, key).received() for key in keys], -1) for row in rows
    )
    near(total, whole.received())


# ── nothing is forgotten, nothing is lost ────────────────────────────────────────────────────


def test_every_mergeable_summary_is_tried_here():
    """A new way of merging needs a law of its own."""
    tried = {type(summary).merge for summary in SUMMARIES}
    every = [s for s in vars(regard.summary).values() if isinstance(s, type)]
    kinds = [s for s in every if issubclass(s, Summary) and s.name and s.merge is not Summary.merge]
    assert {s.merge for s in kinds} == tried


def test_merging_loses_nothing_where_scores_are_large() -> None:
    """One float32 number for lse would cost 1e-3 of the weights here."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 20, 8) * 30000, torch.randn(2, 60, 8), torch.randn(2, 60, 8)
    halves = [(0, slice(0, 25)), (25, slice(25, 60))]
    asked = (regard.Concentration(), regard.Top(3))
    parts = [
        regard.attend_partial(
            q, k[:, there], v[:, there], key_start=start, total_keys=60, summaries=asked
        )
        for start, there in halves
    ]
    found, whole = regard.merge(*parts).finish(), regard.attend(q, k, v)
    torch.testing.assert_close(found.output, whole.output, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.concentration(), whole.concentration(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.top(3).weights, whole.top(3).weights, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sides", [(1e8, 3.0), (3.0, 1e8), (1.0, 2.0**-30), (-1e8, 0.1)])
def test_what_rounding_took_is_known_exactly(sides: tuple[float, float]) -> None:
    a, b = (torch.tensor(side) for side in sides)
    exact = a.double() + b.double()
    assert (a + b).double() + rounded_off(a, b).double() == exact
    assert rounded_off(torch.tensor(-torch.inf), torch.tensor(0.0)) == 0
