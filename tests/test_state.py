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
from regard.errors import DTypeError, InputError, ShapeError
from regard.mask import Extent, as_mask
from regard.score import as_bias
from regard.state import Finished, Partial, rounded_off
from regard.summary import Summary, TopScores, Visible
from regard.testing import Inputs, Yardstick

SUMMARIES = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Top(3), regard.Concentration(),
    regard.Distance(), Visible(),
)  # fmt: skip
TINY = 1e-12  # float64, scores of order one
each_implementation = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
often = settings(max_examples=25, deadline=None)
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

    def parts(
        self, implementation: str, cuts: Sequence[int], queries: tuple[int, int] | None = None
    ) -> list[Partial]:
        return [self.part(implementation, span, queries) for span in spans(self.keys, cuts)]


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


def random_problem(extent: Extent, key_heads: int = 1, options: Any = None) -> Problem:
    dim, value_dim = 4, 3
    draw = bind(torch.randn, dtype=torch.float64)
    return Problem(
        draw(*extent.batch, extent.heads, extent.queries, dim),
        draw(*extent.batch, key_heads, extent.keys, dim),
        draw(*extent.batch, key_heads, extent.keys, value_dim),
        options or {},
    )


def cuts_of(problem: Problem) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, problem.keys), min_size=1, max_size=3)


def numbers_of(partial: Partial) -> list[Tensor]:
    """Everything in a partial, one tensor after the other."""
    numbers = [partial.out, partial.lse]
    for value in partial.summaries.values():
        numbers += list(value) if isinstance(value, TopScores) else [value]
    return numbers


def expect_equal(a: Partial, b: Partial) -> None:
    """The same summaries in any order, the same bits."""
    assert set(a.summaries) == set(b.summaries)
    for mine, right in zip(numbers_of(a), numbers_of(b), strict=True):
        assert torch.equal(mine, right)


def expect_near(a: Partial, b: Partial) -> None:
    for mine, right in zip(numbers_of(a), numbers_of(b), strict=True):
        near(mine, right)


def expect_whole(merged: Finished, a: regard.Attention) -> None:
    """A finished merge has the numbers of the attention over all keys."""
    near(merged.output, a.output)
    near(merged.lse, a.lse)
    for summary in merged.summaries:
        right, mine = a.summarize(summary)[summary], merged[summary]
        if isinstance(summary, regard.Top):
            near(mine[0], right.weights)
            assert torch.equal(mine[1], right.keys)
        else:
            near(mine, right)


# ── the laws ─────────────────────────────────────────────────────────────────────────────────


@often
@given(problem=problems(), data=st.data())
def test_empty_is_an_identity_and_order_does_not_matter(problem, data):
    cut = st.integers(0, problem.keys)
    a, b, c = problem.parts("cpu", [data.draw(cut), data.draw(cut)])
    nothing = Partial.empty(a)
    for pair in ((a, nothing), (nothing, a), (a,)):
        expect_equal(regard.merge(*pair), a)
    expect_equal(regard.merge(nothing, nothing), nothing)
    expect_equal(regard.merge(a, b), regard.merge(b, a))
    right = regard.merge(a, regard.merge(b, c))
    expect_near(regard.merge(regard.merge(a, b), c), right)
    expect_near(regard.merge(a, b, c), right)


@each_implementation
@settings(max_examples=20, deadline=None)
@given(problem=problems(), data=st.data())
def test_a_union_is_the_merge_over_any_split(implementation, problem, data):
    """In any order, over chunks of queries, with a sink that is added once, and its gradients."""
    cuts, queries = data.draw(cuts_of(problem)), problem.q.shape[-2]
    sink = None
    if data.draw(st.booleans()):
        sink = torch.randn(problem.q.shape[-3], dtype=torch.float64) * 2
    leaves = [*problem.leaves, *([] if sink is None else [sink])]
    for leaf in leaves:
        leaf.requires_grad_()
    merged = regard.merge(*data.draw(st.permutations(problem.parts(implementation, cuts))))
    finished, a = merged.finish(sink), problem.whole(implementation, sink)
    expect_whole(finished, a)

    weights = [torch.randn_like(t) for t in (a.output, a.lse, a.lse)]
    expected = _gradients([a.output, a.lse, a.entropy()], weights, leaves)
    answers = [finished.output, finished.lse, finished[regard.Entropy()]]
    for mine, right in zip(_gradients(answers, weights, leaves), expected, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-10)

    middle = data.draw(st.integers(0, queries))
    chunks = [
        regard.merge(*problem.parts(implementation, cuts, rows))
        for rows in ((0, middle), (middle, queries))
    ]
    for upper, lower, both in zip(*map(numbers_of, (*chunks, merged)), strict=True):
        axis = -1 if both.shape == merged.lse.shape else -2
        near(torch.cat([upper, lower], axis), both)


def _gradients(answers: list[Tensor], weights: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Of a random sum of output, lse and entropy; lse only where it is finite."""
    output, lse, entropy = answers
    lse = lse.masked_fill(lse == -torch.inf, 0.0)
    total = sum((w * x).sum() for w, x in zip(weights, (output, lse, entropy), strict=True))
    return list(torch.autograd.grad(total, leaves))


@each_implementation
def test_a_partial_over_no_keys_is_the_empty_one(implementation):
    part = random_problem(Extent(3, 4, (2,), 2)).part(implementation, (2, 2))
    expect_equal(part, Partial.empty(part))
    assert (part.lse == -torch.inf).all() and (part.out == 0).all()


def test_a_row_that_no_part_sees_has_gradient_zero_not_nan():
    problem = random_problem(Extent(3, 6), 1, {"mask": regard.Causal() & ~regard.Prefix(4)})
    for leaf in problem.leaves:
        leaf.requires_grad_()
    merged = regard.merge(*problem.parts("cpu", [3])).finish()
    assert (merged.lse[0] == -torch.inf).tolist() == [True, False, False]
    total = merged.output.sum() + merged[regard.Entropy()].sum() + merged.lse[0, 1:].sum()
    for gradient in torch.autograd.grad(total, problem.leaves):
        assert gradient.isfinite().all()
    total = regard.merge(*problem.parts("cpu", [3])).finish().output[0, 0].sum()
    assert all((g == 0).all() for g in torch.autograd.grad(total, problem.leaves))


def test_equal_scores_go_to_the_lower_key_whichever_part_comes_first():
    k = torch.ones(6, 4)
    k[4] = 2.0
    problem = Problem(torch.ones(2, 4), k, torch.ones(6, 4), {}, (regard.Top(4),))
    for order in itertools.permutations(problem.parts("cpu", [2, 4])):
        _, keys = regard.merge(*order).finish()[regard.Top(4)]
        assert keys.tolist() == [[4, 0, 1, 2]] * 2


def test_a_real_nan_stays_one():
    problem = random_problem(Extent(2, 4))
    problem.q[..., 0, 0] = torch.nan
    merged = regard.merge(*problem.parts("cpu", [2])).finish()
    assert merged.output[0, 0].isnan().all() and merged.lse[0, 0].isnan()
    assert not merged.output[0, 1].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_merging_stays_within_the_error_budget(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 40, 16).to(dtype) for _ in range(3))
    problem = Problem(q, k, v, {"mask": regard.Causal()}, (regard.Entropy(),))
    merged = regard.merge(*problem.parts("cpu", [7, 8, 30])).finish()
    call = call_of(Inputs(q, k, v, {"mask": regard.Causal()}))
    right, define = Yardstick(call), regard.Entropy().define
    assert merged.output.dtype == merged.lse.dtype == torch.float32
    right.budget(lambda steps: steps.context).check(merged.output, "output")
    right.budget(lambda steps: steps.lse).check(merged.lse, "lse")
    budget = right.budget(lambda steps: define(steps, call.shape))
    budget.check(merged[regard.Entropy()], "entropy")


def test_merging_loses_nothing_where_scores_are_large():
    """One float32 number for lse would cost 1e-3 of the weights here."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 20, 8) * 30000, torch.randn(2, 60, 8), torch.randn(2, 60, 8)
    problem = Problem(q, k, v, {}, (regard.Concentration(), regard.Top(3)))
    merged, whole = regard.merge(*problem.parts("cpu", [25])).finish(), regard.attend(q, k, v)
    close = bind(torch.testing.assert_close, rtol=1e-6, atol=1e-6)
    close(merged.output, whole.output)
    close(merged.concentration(), whole.concentration())
    close(merged.top(3).weights, whole.top(3).weights)


@pytest.mark.parametrize("sides", [(1e8, 3.0), (3.0, 1e8), (1.0, 2.0**-30), (-1e8, 0.1)])
def test_what_rounding_took_is_known_exactly(sides):
    a, b = (torch.tensor(side) for side in sides)
    exact = a.double() + b.double()
    assert (a + b).double() + rounded_off(a, b).double() == exact
    assert rounded_off(torch.tensor(-torch.inf), torch.tensor(0.0)) == 0


def test_the_sink_is_not_a_key_and_needs_no_head_axis():
    """Large as it is, it is neither counted nor listed nor the largest score."""
    problem = random_problem(Extent(2, 5, (), 2), 2, {"mask": regard.Causal()})
    merged = regard.merge(*problem.parts("cpu", [2]))
    without, having = merged.finish(), merged.finish(torch.tensor([50.0, 50.0]))
    for summary in (Visible(), regard.MaxLogit(), regard.MaxScore()):
        assert torch.equal(without[summary], having[summary])
    assert torch.equal(without[regard.Top(3)][1], having[regard.Top(3)][1])
    assert having.output.abs().max() < 1e-15
    assert torch.equal(having.lse, torch.full((2, 2), 50.0, dtype=torch.float64))
    plain = Problem(*(torch.randn(5, 4, dtype=torch.float64) for _ in range(3)), {})
    sink = torch.tensor([0.5], dtype=torch.float64)
    expect_whole(regard.merge(*plain.parts("cpu", [2])).finish(sink), plain.whole("cpu", sink))


# ── what does not merge is swept again under the global lse ──────────────────────────────────


def _shard(problem: Problem, lse: Tensor, rows: tuple[int, int], keys: tuple[int, int]):
    """The matrix of some queries over some keys, under the lse of all keys."""
    place = (rows[0], keys[0], problem.q.shape[-2], problem.keys)
    mask, bias = problem.options["mask"], as_bias(problem.options["bias"])
    return regard.replay(
        problem.q[..., slice(*rows), :], problem.k[..., slice(*keys), :], lse[..., slice(*rows)],
        mask=None if mask is None else as_mask(mask).seen_from(*place),
        bias=None if bias is None else bias.seen_from(*place),
        scale=problem.options["scale"], softcap=problem.options["softcap"],
    )  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(problem=problems(), data=st.data())
def test_received_over_key_ranges_concatenates_and_over_query_ranges_adds(problem, data):
    queries, whole = problem.q.shape[-2], problem.whole("cpu")
    lse = regard.merge(*problem.parts("cpu", data.draw(cuts_of(problem)))).finish().lse
    keys = spans(problem.keys, data.draw(cuts_of(problem)))
    total = []
    for row in spans(queries, [data.draw(st.integers(0, queries))]):
        shards = [_shard(problem, lse, row, key) for key in keys]
        total.append(torch.cat([s.received() for s in shards], -1))
        near(total[-1], whole.received(range(*row)))
        near(torch.cat([s[...] for s in shards], -1), whole[..., slice(*row), :])
    near(sum(total), whole.received())


def test_every_mergeable_summary_is_tried_here():
    """A new way of merging needs a law of its own."""
    tried = {type(summary).merge for summary in SUMMARIES}
    every = [s for s in vars(regard.summary).values() if isinstance(s, type)]
    kinds = [s for s in every if issubclass(s, Summary) and s.name and s.merge is not Summary.merge]
    assert {s.merge for s in kinds} == tried


# ── what cannot be merged or finished ────────────────────────────────────────────────────────

PART = Partial(torch.zeros(1, 2, 3), torch.zeros(1, 2))
ENTROPY, TOPS = regard.Entropy(), (regard.Top(2), regard.Top(3))


def rows(count: int) -> Partial:
    return random_problem(Extent(count, 4)).part("cpu", (0, 4))


def asked(*summaries: Summary) -> Partial:
    q = torch.randn(2, 4)
    return regard.attend_partial(q, q, q, summaries=summaries)


ONLY_PARTIALS = r"merge: a {} was given; give Partials.*merge\(a"


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: regard.merge(), InputError, "needs at least one Partial"),
        (lambda: regard.merge(3), DTypeError, ONLY_PARTIALS.format("int")),
        (lambda: regard.merge(PART, None), DTypeError, ONLY_PARTIALS.format("NoneType")),
        (lambda: regard.merge([], PART), DTypeError, ONLY_PARTIALS.format("list")),
        (lambda: regard.merge(rows(1), rows(2)), ShapeError,
         r"\(1, 1, 3\) and \(1, 2, 3\); all parts must be of the"),
        (lambda: regard.merge(*(asked(ENTROPY, top) for top in TOPS)), InputError,
         r"only some of the parts have Top\(k=2\), Top\(k=3\)"),
        (lambda: asked(ENTROPY).finish()[regard.Distance()], InputError,
         r"Distance\(\) was not asked.*asked were: Entropy\(\)"),
        (lambda: asked().finish()[regard.Distance()], InputError, "asked were: none"),
        (lambda: random_problem(Extent(3, 4, (2,), 2), 2).part("cpu", (0, 4)).finish(
            torch.zeros(3)), ShapeError,
         r"sink has shape \(3,\); give one number per.*\(2,\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_in_one_line(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
