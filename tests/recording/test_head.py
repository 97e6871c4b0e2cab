"""Every question about a recorded head, against the definition in float64; what cannot be answered
is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from recording.cases import CASES, Case, problems, whole
from regard.declare import encode
from regard.errors import DTypeError, InputError, ShapeError, TooLargeError, UnavailableError
from regard.mask import Causal, Window
from regard.recording import Head, Memory, Recording
from regard.recording.schema import UNKNOWN
from regard.recording.visibility import seen_cells, uniform_cells, visible_spans
from regard.score import ScoreRule
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
    Matching,
    MaxLogit,
    MaxScore,
    Offsets,
    Peak,
    Pooled,
    Received,
    Top,
    Visible,
    Weighted,
)
from support.recordings import Chunk, WrittenPlace, write_prompt, write_recording

Definition = Callable[[Any, Any], Any]
MEASURES: dict[str, tuple[Callable[[Head], Any], Definition]] = {
    "entropy": (lambda h: h.entropy(), Entropy().define),
    "max score": (lambda h: h.max_score(), MaxScore().define),
    "max logit": (lambda h: h.max_logit(), MaxLogit().define),
    "visible": (lambda h: h.visible(), Visible().define),
    "concentration": (lambda h: h.concentration(), Concentration().define),
    "received": (lambda h: h.received(), Received().define),
    "received by eye": (lambda h: h.received(per="visible"), Received(None, "visible").define),
    "largest received": (lambda h: h.received(how="max"), Received(how="max").define),
    "largest received of 7": (lambda h: h.received(7, how="max"), Received(7, how="max").define),
    "received, weighted": (
        lambda h: h.received(9, how="mean", weighted_by=np.arange(h.shape[0]) - 9),
        lambda m, s: Weighted(Received(9, how="mean"), torch.arange(s.queries) - 9).define(m, s),
    ),
    "received of 7": (lambda h: h.received(7, "visible"), Received(7, "visible").define),
    "received of some": (lambda h: h.received(slice(0, 50, 3)), Received(slice(0, 50, 3)).define),
    "pooled": (lambda h: h.pooled(), Pooled().define),
    "pooled by 7": (lambda h: h.pooled(7), Pooled(7).define),
    "pooled largest": (lambda h: h.pooled(30, "max"), Pooled(30, "max").define),
    "offsets": (lambda h: h.offsets(), Offsets().define),
    "top": (lambda h: h.top(5).weights, lambda m, s: Top(5).define(m, s).weights),
    "peak": (lambda h: h.peak().weights, lambda m, s: Peak().define(m, s).weights),
    "dense": (lambda h: h.dense(), lambda m, s: m.weights),
    "scores": (lambda h: h.scores[...], lambda m, s: m.masked),
    "lse": (lambda h: h.lse, lambda m, s: m.lse),
    "sink": (lambda h: h.sink_mass(), lambda m, s: m.sink),
}  # fmt: skip
STORED = ("entropy", "received", "concentration", "max score", "peak", "visible", "lse", "sink",
          "received by eye", "offsets")  # fmt: skip


def recorded(case: Case, **options: Any) -> tuple[Recording, WrittenPlace]:
    """The recording of a case, without stored answers unless they are wanted."""
    store, made = write_recording(
        chunks=case.chunks, **({"statistics": False} | case.options | options)
    )
    return Recording(store), made


def expect(
    made: WrittenPlace, rec: Recording, ask: Callable[[Head], Any], define: Definition
) -> None:
    """Of every head the answer is the definition's, within twice what float32 loses: numpy adds in
    an order that depends on where arrays lie."""
    budget = made.truth.budget(lambda steps: define(steps, made.truth.shape))
    for head in rec:
        truth = type(budget)(budget.exact[head.head], 2 * budget.allowed)
        truth.check(torch.from_numpy(np.array(ask(head))), head.label)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_the_definition(name):
    rec, made = recorded(CASES[name])
    shape = made.truth.shape
    for ask, define in MEASURES.values():
        expect(made, rec, ask, define)
    shift = 0 if made.place.kind == "self" else made.place.keys - made.place.queries
    has_sink = rec[0, -1].sink_mass().any()

    def distance(steps: Any, _: Any) -> Any:
        object.__setattr__(steps, "position", shift)
        return Distance().define(steps, shape)

    def normalized(steps: Any, _: Any) -> Any:
        choices = Visible().define(steps, shape).double() + has_sink
        entropy = Entropy().define(steps, shape)
        return torch.where(choices > 1, entropy / choices.clamp(min=2).log(), 0.0)

    expect(made, rec, lambda head: head.distance(), distance)
    expect(made, rec, lambda head: head.entropy(normalized=True), normalized)
    x, y = (torch.randn(n, 3, generator=torch.Generator().manual_seed(0)).double()
            for n in (shape.keys, shape.queries))  # fmt: skip
    expect(made, rec, lambda head: head @ x.numpy(), lambda m, _: m.weights @ x.to(m.weights))
    expect(made, rec, lambda head: head.T @ y.numpy(), lambda m, _: m.weights.mT @ y.to(m.weights))
    expect(
        made,
        rec,
        lambda head: head @ x[:, 0].numpy(),
        lambda m, _: m.weights @ x[:, 0].to(m.weights),
    )


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_a_cell_have_the_same_bits(name):
    for head in recorded(CASES[name])[0]:
        dense, masked, rows = head.dense(), head.scores[...], list(head.recorded)
        for i in {*rows[:3], *rows[-3:], rows[len(rows) // 2]}:
            np.testing.assert_array_equal(head[i], dense[i])
            np.testing.assert_array_equal(head.rows(i), dense[i])
            np.testing.assert_array_equal(head[i, :], head.rows([i])[0])
            assert head[i, -1] == dense[i, -1] and head.scores[i, -1] == masked[i, -1]
        np.testing.assert_array_equal(head[7:40, 3:50], dense[7:40, 3:50])
        best = head.top(9)
        order = np.argsort(-masked, axis=-1, kind="stable")[:, :9]
        kept = np.take_along_axis(masked, order, -1) > -np.inf
        keys = np.full((len(rows), 9), -1)
        keys[:, : order.shape[1]] = np.where(kept, order, -1)
        np.testing.assert_array_equal(best.keys, keys)
        weights = np.take_along_axis(dense, np.maximum(keys, 0), -1)
        np.testing.assert_array_equal(best.weights, np.where(keys < 0, 0, weights))
        alike = head.summarize(Entropy(), Top(9), Received(), Pooled(7))
        np.testing.assert_array_equal(alike[Entropy()], head.entropy())
        np.testing.assert_array_equal(alike[Top(9)].keys, keys)
        np.testing.assert_array_equal(alike[Pooled(7)], head.pooled(7))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", [name for name in CASES if name != "saturated"])
def test_what_may_be_seen_is_known_by_the_masks_alone(name):
    """Counted, as intervals, cell by cell and in cells of a map."""
    rec, made = recorded(CASES[name], exact=False, statistics=True)
    keys = np.arange(made.place.keys)
    marks = np.random.default_rng(0).integers(0, 5, keys.size)
    for head in rec:
        seen, sight = made.truth.exact.visible[head.head].numpy(), head.sight
        assert sight.is_complete and not head.exact
        np.testing.assert_array_equal(head.visible(), seen.sum(-1))
        np.testing.assert_array_equal(sight.seen(), seen.sum(0))
        np.testing.assert_array_equal(sight.among(marks), seen @ marks)
        np.testing.assert_array_equal(seen_cells(sight, np.arange(len(seen)), keys), seen)
        even = seen / np.maximum(seen.sum(1, keepdims=True), 1)
        np.testing.assert_allclose(sight.even(), even.sum(0))
        for cell in (1, 7, 64):
            starts = [np.arange(0, n, cell) for n in seen.shape]
            sums = np.add.reduceat(np.add.reduceat(even, starts[0], 0), starts[1], 1)
            sides = [np.minimum(s + cell, n) - s for s, n in zip(starts, seen.shape, strict=True)]
            np.testing.assert_allclose(uniform_cells(sight, cell), sums / np.outer(*sides))
        spans = visible_spans(rec.prompts[0].held(head.place.label), head.head)
        assert (spans is None) == (sight.cells() > 0)
        assert spans is not None or name not in ("causal", "window", "documents", "decoding")
        if spans is not None:
            inside = (keys >= spans.low[:, None]) & (keys < spans.high[:, None])
            np.testing.assert_array_equal(inside, seen)
            np.testing.assert_array_equal(spans.visible, seen.sum(-1))
            np.testing.assert_array_equal(spans.among(marks > 2), seen[:, marks > 2].sum(-1))
            np.testing.assert_array_equal(spans.within(10, 30), seen[:, 10:30].sum(-1))
            np.testing.assert_allclose(spans.even(keys.size), even.sum(0), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_stored_and_computed_answers_are_the_definitions(
    given_: dict[str, Any], stored: bool, exact: bool, times: int
) -> None:
    """Computed again from q, k and lse, or from q and k alone; or as they were written down."""
    exact = exact or not stored
    store, made = write_recording(statistics=stored, exact=exact, lse=stored, **given_)
    truth, shape = made.truth.exact, made.truth.shape
    for head in Recording(store):
        assert head.exact == exact, head.why_not
        cell = times * made.place.pool_cell
        asked = [MEASURES[name] for name in STORED]
        asked += [(lambda h, c=cell: h.pooled(c), Pooled(cell).define)]
        asked += [MEASURES[name] for name in MEASURES if exact and name != "scores"]
        for ask, define in asked:
            wanted = define(truth, shape)[head.head].numpy()
            np.testing.assert_allclose(ask(head), wanted, atol=2e-5, rtol=2e-4)
        keys = head.top(min(8, head.shape[1])).keys
        assert ((keys >= 0).sum(-1) == np.minimum(head.visible(), keys.shape[1])).all()


@pytest.mark.parametrize(("lse", "spread"), [(True, 60.0), (False, 1.0)])
def test_bits_do_not_depend_on_company_nor_on_segments(lse, spread):
    case = Case(whole(600, Causal()), {"lse": lse, "spread": spread, "pieces": 100})
    cut = [Chunk((a, b), (0, b), Causal()) for a, b in ((0, 100), (100, 333), (333, 600))]
    dense = recorded(case)[0]["L0H1"].dense()
    np.testing.assert_allclose(dense.sum(-1), 1, atol=2e-5)
    np.testing.assert_array_equal(recorded(Case(cut, case.options))[0]["L0H1"].dense(), dense)
    rec, dice = recorded(case)[0], np.random.default_rng(0)
    for _ in range(8):
        alone = Recording(rec.store)["L0H1"]  # a fresh one: nothing computed yet
        rows, keys = (dice.choice(600, dice.integers(1, n), replace=False) for n in (300, 600))
        np.testing.assert_array_equal(alone[rows[:, None], keys], dense[np.ix_(rows, keys)])
        np.testing.assert_array_equal(alone.rows(rows), dense[rows])


def test_numbers_that_are_none_show_in_their_rows_alone():
    q = torch.randn(4, 50, 16)
    q[1, 7, 3] = torch.nan
    head = recorded(Case(whole(50, Causal())), query=q, lse=False)[0]["L0H1"]
    assert np.isnan(head[7, :8]).all() and np.isfinite(head[8]).all()
    assert np.isnan(head.entropy()).nonzero()[0].tolist() == [7]
    for how in ("mean", "max"):
        assert set(np.argwhere(np.isnan(head.pooled(8, how)))[:, 0]) == {0}


def test_summaries_of_regard_are_understood():
    rec, made = recorded(CASES["chunks"])
    head, ids = rec["L0H3"], rec.prompts[0].ids
    asks = (
        Received(5, "visible", "mean"), Received([3, 4, -1]), MaxLogit(),
        Matching(torch.from_numpy(ids), torch.from_numpy(ids)),
    )  # fmt: skip
    for summary, answer in head.summarize(*asks).items():
        wanted = summary.define(made.truth.exact, made.truth.shape)
        wanted = wanted[1 if getattr(summary, "groups", None) else 3]
        np.testing.assert_allclose(answer, wanted.numpy(), atol=1e-6, err_msg=str(summary))
    np.testing.assert_array_equal(head.matching(ids, ids), answer)
    groups = made.truth.weights()[2:].sum((0, 1))
    np.testing.assert_allclose(head.received(groups="sum"), groups, atol=1e-5)


# ── what is not there ────────────────────────────────────────────────────────────────────────


def test_without_q_and_k_single_weights_are_refused_by_name():
    rec, _ = recorded(CASES["chunks"], statistics=True, exact=False, row_bin=64, key_bin=4)
    head = rec["L0H1"]
    assert not head.exact and head.why_not.startswith("it did not fit the budget")
    for ask in (
        lambda: head[0, 0], lambda: head.scores[3], head.dense, head.entropy, head.received,
        head.distance, lambda: head.top(9), lambda: head.pooled(15), lambda: head @ np.ones(160),
        lambda: head.T @ np.ones(160), lambda: np.asarray(head), lambda: head.received(7),
        head.max_logit,
    ):  # fmt: skip
        with pytest.raises(UnavailableError, match=r"L0H1: it did not fit the budget of 1 kB, so "):
            ask()
    with pytest.raises(
        UnavailableError,
        match=r"entropy row by row cannot be computed; stored: lse \(all rows\), entropy \(mean of "
        r"64 rows a bin\).*received \(sum of 4 keys a bin\).*pooled \(mean of 16 tokens a cell\)"
        r"\. Record again with --layers 0 or a larger --budget",
    ):
        head.entropy()
    assert head.has("entropy") and not head.has("q") and not head.has("nonsense")
    stored = head.stored["entropy"]
    assert stored.edges.tolist() == [0, 64, 128, 160] and len(head.stored) == len([*head.stored])
    exact = recorded(CASES["chunks"])[0]["L0H1"]
    for first, last, mean in zip(stored.edges, stored.edges[1:], np.asarray(stored), strict=False):
        assert mean == pytest.approx(exact.entropy()[first:last].mean(), rel=1e-5)
    np.testing.assert_array_equal(head.top(8).keys, exact.top(8).keys)


def test_some_top_keys_are_kept_as_they_are():
    rec, _ = recorded(CASES["chunks"], statistics=True, exact=False, top_every=32)
    stored = rec["L0H0"].stored["top_keys"]
    assert stored.values.shape == (5, 8) and str(stored) == "first of 32 rows a bin"
    with pytest.raises(UnavailableError, match="the keys a row looks at most cannot be computed"):
        rec["L0H0"].top(1)


@pytest.mark.parametrize("case", [Case(whole(160, Causal())), CASES["chunks"], CASES["tables"]])
def test_rows_that_were_recorded_keep_their_numbers(case):
    """Whole answers are about them."""
    rec, made = recorded(case, rows=(40, 130), statistics=True, exact=True)
    head, truth = rec["L0H2"], made.truth.weights()[2]
    own = truth[40:130]
    assert head.recorded == range(40, 130) and head.shape == (160, 160)
    near = {"atol": 1e-5}
    np.testing.assert_allclose(head[77], truth[77], **near)
    np.testing.assert_allclose(head[:, 5], own[:, 5], **near)
    np.testing.assert_allclose(head[100:, 5], truth[100:130, 5], **near)
    kept = [row for row in range(160)[::-7] if 40 <= row < 130]
    np.testing.assert_allclose(head[::-7, 5], truth[kept, 5], **near)
    np.testing.assert_allclose(np.asarray(head), own, **near)
    assert head.entropy().shape == (90,) and head.top(3).keys.shape == (90, 3)
    np.testing.assert_allclose(head.received(), own.sum(0), **near)
    np.testing.assert_allclose(head.received(5), truth[125:130].sum(0), **near)
    np.testing.assert_allclose(head.received(range(50, 60)), truth[50:60].sum(0), **near)
    np.testing.assert_allclose(head.received(slice(0, 60)), truth[40:60].sum(0), **near)
    pooled = np.zeros_like(truth)
    pooled[40:130] = own
    largest = pooled.reshape(8, 20, 8, 20).max((1, 3))
    np.testing.assert_allclose(head.pooled(20, "max"), largest, **near)
    np.testing.assert_allclose(head @ np.ones(160), own.sum(-1), **near)
    np.testing.assert_allclose(head.T @ np.ones(90), own.sum(0), **near)
    seen = made.truth.exact.visible[2, 40:130].numpy()
    np.testing.assert_array_equal(head.visible(), seen.sum(-1))
    np.testing.assert_array_equal(head.sight.seen(), seen.sum(0))
    for ask in (lambda: head[39], lambda: head[[50, 130], 3], lambda: head.received([3])):
        with pytest.raises(
            InputError, match=r"was not recorded; this recording has rows 40–129 of"
        ):
            ask()
    with pytest.raises(InputError, match="does not fit"):
        head[5000]


def test_an_unknown_mask_is_not_guessed():
    store, made = write_recording(chunks=CASES["chunks"].chunks, exact=False)
    causal = encode(Causal()).replace('"', '\\"')
    store.note({"place/0/L0": made.place.to_json().replace(causal, UNKNOWN, 1)})
    head = Recording(store)["L0H0"]
    assert not head.sight.is_complete and not head.sight.visible()[:100].any()
    for ask in (head.visible, head.sink_mass):
        with pytest.raises(UnavailableError, match="cannot be computed"):
            ask()


@pytest.fixture(scope="module")
def head() -> Head:
    """A small head."""
    return recorded(Case(whole(70, Causal())))[0]["L0H0"]


def test_who_it_is(head):
    assert (head.label, head.layer, head.head, head.stack, head.ndim) == ("L0H0", 0, 0, "", 2)
    assert head.tokens == head.query_tokens == head.key_tokens and len(head.tokens) == 70
    assert repr(head) == "Head(L0H0, shape=(70, 70), exact)"
    assert head.T.T is head and head.T.shape == head.shape[::-1]
    other = recorded(CASES["cross"], statistics=True, exact=False)[0]["L0H0"]
    assert other.tokens is None and repr(other) == "Head(L0H0, shape=(60, 130), summaries)"


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda h: h.top(0), InputError, "whole number ≥ 1"),
        (lambda h: h.top(600), InputError, "a row has 70 keys; give at most 70"),
        (lambda h: h.pooled(0), InputError, "whole number ≥ 1"),
        (lambda h: h.pooled(2**40), InputError, "whole number from 1 to"),
        (lambda h: h.pooled(how="sum"), InputError, "'mean' or 'max'"),
        (lambda h: h.received(per="all"), InputError, "'sum' or 'visible'"),
        (lambda h: h.received(groups="all"), InputError, "'sum', 'mean' or 'max'"),
        (lambda h: h.received(weighted_by=np.ones(3)), ShapeError, "Weighted"),
        (lambda h: h.received(0), InputError, "n ≥ 1"),
        (lambda h: h.received([70]), InputError, "query 70 does not exist"),
        (lambda h: h.received([0.5]), InputError, "whole-number indices"),
        (lambda h: h @ np.ones(3), ShapeError, "the matrix has 70 keys"),
        (lambda h: h.T @ np.ones((3, 2)), ShapeError, "70 recorded rows"),
        (lambda h: h @ np.ones(70, complex), DTypeError, "real numbers"),
        (lambda h: np.ones((3, 70)) @ h, TypeError, "unsupported operand"),
        (lambda h: h.matching(np.arange(3), np.arange(70)), ShapeError, "number per token"),
        (lambda h: h.summarize("entropy"), InputError, "is not a summary"),
    ],
)  # fmt: skip
def test_wrong_questions_are_answered_by_what_would_work(head, ask, error, says):
    with pytest.raises(error, match=says):
        ask(head)


def test_a_large_matrix_is_refused_unless_forced(head, monkeypatch):
    monkeypatch.setattr("regard.recording.head._LARGEST_DENSE", 1000)
    with pytest.raises(TooLargeError, match=r"L0H0: the dense matrix \(70, 70\)"):
        head.dense()
    assert head.dense(force=True).shape == (70, 70)


def test_groups_need_their_heads():
    rec, _ = recorded(CASES["some heads"])
    with pytest.raises(InputError, match="L0H0 was not recorded; of L0 there are heads 1, 3"):
        rec["L0H1"].received(groups="sum")


# ── regard.divergence ────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def two_layers() -> Recording:
    """With sinks, a sliding window and grouped heads."""
    store = Memory()
    rule = ScoreRule(0.25, sink=torch.tensor([1.0, -1.0, 0.5, 2.0]))
    write_recording(store, chunks=[Chunk((0, 40), (0, 40), Window(8), rule)])
    write_prompt(store, [Chunk((0, 40), (0, 40), Causal(), rule)], layer=1, tokens=False, seed=3)
    return Recording(store)


def test_a_divergence_is_that_of_the_rows_and_their_sinks(two_layers):
    narrow, wide = two_layers["L0H1"], two_layers["L1H2"]
    p, q = (np.c_[np.asarray(head, np.float64), head.sink_mass()] for head in (narrow, wide))
    expected = np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q.clip(1e-300)), 0).sum(-1)
    np.testing.assert_allclose(regard.divergence(narrow, wide), expected, rtol=1e-4, atol=1e-6)
    distance = np.abs(p - q).sum(-1) / 2
    np.testing.assert_allclose(regard.divergence(narrow, wide, how="tv"), distance, atol=1e-6)
    assert np.isinf(regard.divergence(wide, narrow)[20:]).all()  # beyond the window
    assert (regard.divergence(wide, wide) == 0).all()


def test_several_heads_as_one_side(two_layers):
    teacher = [two_layers[0, h] for h in range(4)]
    p = sum(np.asarray(head, np.float64) for head in teacher)
    q = np.asarray(two_layers["L1H0"], np.float64)
    p, q = (side / side.sum(-1, keepdims=True) for side in (p, q))
    answer = regard.divergence(teacher, two_layers["L1H0"], heads="sum", how="tv", queries=6)
    np.testing.assert_allclose(answer, np.abs(p - q).sum(-1)[None, -6:] / 2, atol=1e-6)


def test_divergences_of_other_things_are_refused(two_layers, head):
    other = torch.randn(1, 2, 8, 4)
    with pytest.raises(InputError, match="recorded ones"):
        regard.divergence(two_layers["L0H0"], regard.replay(other, other))
    with pytest.raises(ShapeError, match="regard diff"):
        regard.divergence(two_layers["L0H0"], head)
