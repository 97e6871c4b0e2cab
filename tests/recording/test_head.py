"""Every question about a recorded head, against the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import DTypeError, InputError, ShapeError, TooLargeError, UnavailableError
from regard.mask import Causal, Documents, Padding, Prefix, Table, Window
from regard.mask.base import Part
from regard.recording import Head, Recording
from regard.score import ALiBi, BiasTable, PartBias, RelativeBias, ScoreRule
from regard.summary import (
    Concentration,
    Distance,
    Entropy,
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
from support.recordings import Chunk, WrittenPlace, write_recording

DICE = np.random.default_rng(3)


@dataclass(frozen=True)
class Case:
    """A recording to ask."""

    chunks: list[Chunk]
    options: dict[str, Any] = field(default_factory=dict)


def whole(n: int, mask: Any = None, keys: int | None = None, **score: Any) -> list[Chunk]:
    """One segment over everything."""
    scale = score.pop("scale", 0.25)
    return [Chunk((0, n), (0, keys or n), mask, ScoreRule(scale, **score))]


def _bias(heads: int, *shape: int) -> torch.Tensor:
    table = torch.from_numpy(DICE.standard_normal((heads, *shape)).astype(np.float32))
    return table.masked_fill(table > 1.5, -torch.inf)


IDS = torch.arange(160) // 37
CASES = {
    "plain": Case(whole(160)),
    "causal": Case(whole(700, Causal()), {"pieces": 256}),
    "one key head": Case(whole(160, Causal()), {"key_heads": 1}),
    "a head each": Case(whole(160, Causal()), {"key_heads": 4}),
    "some heads": Case(whole(160, Causal()), {"recorded": (1, 3)}),
    "window": Case(whole(160, Window(20))),
    "window both sides": Case(whole(160, Window(5, 9))),
    "prefix": Case(whole(160, Causal() | Prefix(torch.tensor(9)))),
    "not a window": Case(whole(160, ~Window(30))),
    "padding": Case(whole(160, Padding(torch.tensor(3)) & Causal())),
    "scattered": Case(whole(160, Padding(torch.arange(160) % 3 != 1, torch.tensor(80)))),
    "documents": Case(whole(160, Causal() & Documents(IDS, IDS))),
    "table": Case(whole(160, Table(torch.from_numpy(DICE.random((160, 160)) > 0.3)))),
    "tables": Case(whole(160, Table(torch.from_numpy(DICE.random((4, 160, 160)) > 0.3)))),
    "bias": Case(whole(160, Causal(), bias=BiasTable(_bias(1, 160, 160)))),
    "biases": Case(whole(160, bias=BiasTable(_bias(4, 160, 160)))),
    "alibi": Case(whole(160, Causal(), bias=ALiBi(torch.rand(4)))),
    "relative": Case(whole(160, bias=RelativeBias(torch.randn(32, 4)))),
    "soft cap": Case(whole(160, Causal(), softcap=2.0), {"spread": 4.0}),
    "sink": Case(whole(160, Padding(torch.tensor(50)), sink=torch.randn(4) * 3)),
    "everything": Case(
        whole(160, Causal(), softcap=5.0, bias=ALiBi(torch.rand(4)), sink=torch.randn(4))
    ),
    "cross": Case(whole(60, None, 130), {"kind": "cross", "tokens": False}),
    "more queries than keys": Case(whole(130, Causal(), 60), {"kind": "cross", "tokens": False}),
    "chunks": Case([Chunk((0, 100), (0, 100), Causal()), Chunk((100, 160), (0, 160), Causal())]),
    "decoding": Case(
        [
            Chunk((0, 90), (0, 90), Causal()),
            *[Chunk((n, n + 1), (0, n + 1)) for n in range(90, 110)],
        ]
    ),
    "sliding cache": Case(
        [
            Chunk((0, 80), (0, 80), Window(19)),
            Chunk((80, 120), (61, 120), Window(19)),
            Chunk((120, 160), (101, 160), Window(19)),
        ]
    ),
    "part": Case(
        [
            Chunk(
                (0, 60), (10, 100), Part(Causal("start") | Prefix(torch.tensor(30)), 5, 0, 90, 100),
                ScoreRule(0.25, None, PartBias(BiasTable(_bias(4, 90, 100)), 5, 0, 90, 100)),
            )
        ]
    ),
    "bf16": Case(whole(160, Causal()), {"dtype": torch.bfloat16}),
    "fp16": Case(whole(160, Causal()), {"dtype": torch.float16}),
    "fp64": Case(whole(160, Causal()), {"dtype": torch.float64}),
    "large scores": Case(whole(160, Causal()), {"spread": 60.0}),
    "saturated": Case(whole(160, Causal()), {"spread": 30000.0, "lse": False}),
    "one token": Case(whole(1, Causal())),
    "two tokens": Case(whole(2, Causal())),
    "1000 keys, dim 5": Case(whole(33, None, 1000), {"dim": 5, "kind": "cross", "tokens": False}),
}  # fmt: skip

MEASURES: dict[str, tuple[Callable[[Head], Any], Callable[..., Any]]] = {
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
}


def asked(case: Case, **options: Any) -> tuple[Recording, WrittenPlace]:
    """The recording of a case, without stored answers unless told."""
    given = {"statistics": False} | case.options | options
    store, made = write_recording(chunks=case.chunks, **given)
    return Recording(store), made


@pytest.fixture(scope="module", params=list(CASES))
def recorded(request: pytest.FixtureRequest) -> tuple[Recording, WrittenPlace]:
    """Each case once."""
    return asked(CASES[request.param])


@pytest.mark.parametrize("name", list(MEASURES))
def test_answers_are_those_of_the_definition(recorded, name):
    rec, made = recorded
    ask, define = MEASURES[name]
    budget = made.truth.budget(lambda steps: define(steps, made.truth.shape))
    allowed = 2 * budget.allowed  # numpy adds in an order that depends on where arrays lie
    for head in rec:
        truth = type(budget)(budget.exact[head.head], allowed)
        truth.check(torch.from_numpy(np.array(ask(head))), f"{head.label} {name}")


def test_distances_are_those_of_the_definition(recorded):
    rec, made = recorded
    shift = 0 if made.place.kind == "self" else made.place.keys - made.place.queries

    def define(steps):
        object.__setattr__(steps, "position", shift)
        return Distance().define(steps, made.truth.shape)

    budget = made.truth.budget(define)
    for head in rec:
        type(budget)(budget.exact[head.head], budget.allowed).check(
            torch.from_numpy(head.distance()), head.label
        )


def test_normalized_entropy_is_that_of_the_definition(recorded):
    rec, made = recorded
    shape, has_sink = made.truth.shape, rec[0, -1].sink_mass().any()

    def define(steps):
        choices = Visible().define(steps, shape).double() + has_sink
        entropy = Entropy().define(steps, shape)
        return torch.where(choices > 1, entropy / choices.clamp(min=2).log(), 0.0)

    budget = made.truth.budget(define)
    for head in rec:
        found = torch.from_numpy(head.entropy(normalized=True))
        type(budget)(budget.exact[head.head], budget.allowed).check(found, head.label)


def test_top_keys_carry_their_weights(recorded):
    rec, _ = recorded
    for head in rec:
        best = head.top(9)
        assert best.keys.shape == (len(head.recorded), 9) and best.keys.dtype == np.int64
        dense, masked = head.dense(), head.scores[...]
        order = np.argsort(-masked, axis=-1, kind="stable")[:, :9]
        kept = np.take_along_axis(masked, order, -1) > -np.inf
        wanted = np.pad(np.where(kept, order, -1), ((0, 0), (0, 9 - order.shape[1])),
                        constant_values=-1)  # fmt: skip
        np.testing.assert_array_equal(best.keys, wanted)
        held = np.take_along_axis(dense, np.maximum(best.keys, 0), -1)
        np.testing.assert_array_equal(best.weights, np.where(best.keys < 0, 0, held))


def test_products(recorded):
    rec, made = recorded
    shape = made.truth.shape
    x, y = (torch.randn(n, 3, generator=torch.Generator().manual_seed(0)).double()
            for n in (shape.keys, shape.queries))  # fmt: skip
    forward = made.truth.budget(lambda m: m.weights @ x.to(m.weights.dtype))
    backward = made.truth.budget(lambda m: m.weights.mT @ y.to(m.weights.dtype))
    for head in rec:
        for budget, found in ((forward, head @ x.numpy()), (backward, head.T @ y.numpy())):
            one = type(budget)(budget.exact[head.head], 2 * budget.allowed)
            one.check(torch.from_numpy(found), head.label)
        one = head @ x[:, 0].numpy()
        np.testing.assert_allclose(one, (head @ x.numpy())[:, 0], atol=1e-6)
        assert head.T.T is head and head.T.shape == head.shape[::-1]


def test_all_ways_to_a_row_have_the_same_bits(recorded):
    rec, _ = recorded
    for head in rec:
        dense, rows = head.dense(), list(head.recorded)
        for i in {*rows[:3], *rows[-3:], rows[len(rows) // 2]}:
            np.testing.assert_array_equal(head[i], dense[i])
            np.testing.assert_array_equal(head.rows(i), dense[i])
            np.testing.assert_array_equal(head[i, :], head.rows([i])[0])
            np.testing.assert_array_equal(head.scores[i, -1], head.scores[...][i, -1])
            assert head[i, -1] == dense[i, -1] and head[i][0] == dense[i, 0]
        np.testing.assert_array_equal(head[7:40, 3:50], dense[7:40, 3:50])


# ── stored answers ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["causal", "some heads", "sink", "chunks", "sliding cache"])
def test_stored_answers_are_given_as_they_are(name):
    rec, made = asked(CASES[name], statistics=True, exact=False)
    for head in rec:
        assert not head.exact
        for what in ("entropy", "received", "concentration", "max score", "pooled by 16", "top",
                     "peak", "visible", "lse", "received by eye", "sink", "offsets"):  # fmt: skip
            ask, define = MEASURES.get(what, (lambda h: h.pooled(16), Pooled(16).define))
            wanted = define(made.truth.exact, made.truth.shape)[head.head].numpy()
            np.testing.assert_allclose(ask(head), wanted, rtol=2e-6, atol=1e-6, err_msg=what)


def test_stored_answers_cost_no_sweep(monkeypatch):
    rec, _ = asked(CASES["causal"], statistics=True)
    head = rec["L0H1"]
    monkeypatch.setattr("regard.recording.query.sweep", lambda *_: pytest.fail("swept"))
    head.entropy(), head.entropy(True), head.top(8), head.peak(), head.received(), head.lse
    head.max_score(), head.concentration(), head.pooled(16), head.pooled(64), head.visible()
    head.offsets()
    with pytest.raises(pytest.fail.Exception, match="swept"):
        head.distance()


def test_a_coarser_map_is_made_of_the_stored_one():
    rec, made = asked(CASES["chunks"], statistics=True, exact=False)
    for cell in (16, 32, 48, 160, 320):
        wanted = Pooled(cell).define(made.truth.exact, made.truth.shape)[2].numpy()
        np.testing.assert_allclose(rec["L0H2"].pooled(cell), wanted, rtol=1e-5, atol=1e-7)


def test_one_sweep_answers_many(monkeypatch):
    rec, _ = asked(CASES["causal"])
    head, sweeps = rec["L0H0"], []
    from regard.recording import query as answers

    swept = answers.sweep
    monkeypatch.setattr(answers, "sweep", lambda *a: sweeps.append(a) or swept(*a))
    asks = (Entropy(), Top(3), Peak(), Received(), Pooled(64), Offsets(), Distance(), MaxScore())
    found = head.summarize(*asks)
    assert len(sweeps) == 1 and list(found) == list(asks)
    np.testing.assert_array_equal(found[Entropy()], head.entropy())
    np.testing.assert_array_equal(found[Top(3)].keys, head.top(3).keys)
    np.testing.assert_array_equal(found[Peak()].weights, head.peak().weights)
    assert len(sweeps) == 1  # what was swept for is remembered


def test_summaries_of_regard_are_understood():
    rec, made = asked(CASES["causal"])
    head = rec["L0H3"]
    asks = (Received(5, "visible", "mean"), Received([3, 4, -1]), MaxLogit(), Concentration())
    found = head.summarize(*asks)
    for summary, value in found.items():
        wanted = summary.define(made.truth.exact, made.truth.shape)
        wanted = wanted[1 if getattr(summary, "groups", None) else 3]
        np.testing.assert_allclose(value, wanted.numpy(), atol=1e-6, err_msg=str(summary))
    with pytest.raises(InputError, match="is not a summary"):
        head.summarize("entropy")


def test_marks_are_matched():
    rec, made = asked(CASES["chunks"])
    ids = rec.prompts[0].ids
    head = rec["L0H1"]
    wanted = regard.summary.Matching(torch.from_numpy(ids), torch.from_numpy(ids))
    truth = wanted.define(made.truth.exact, made.truth.shape)[1].numpy()
    np.testing.assert_allclose(head.matching(ids, ids), truth, atol=1e-6)
    np.testing.assert_allclose(head.summarize(wanted)[wanted], truth, atol=1e-6)
    with pytest.raises(ShapeError, match="one whole number per token"):
        head.matching(ids[:3], ids)


# ── what is not there ────────────────────────────────────────────────────────────────────────


def test_without_q_and_k_single_weights_are_refused_by_name():
    rec, _ = asked(CASES["causal"], statistics=True, exact=False, row_bin=64, key_bin=4)
    head = rec["L0H1"]
    assert not head.exact and head.why_not.startswith("it did not fit the budget")
    for ask in (
        lambda: head[0, 0], lambda: head.scores[3], head.dense, head.entropy, head.received,
        head.distance, lambda: head.top(9), lambda: head.pooled(15), lambda: head @ np.ones(700),
        lambda: head.T @ np.ones(700), lambda: np.asarray(head), lambda: head.received(7),
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
    assert stored.values.shape == (11,) and stored.edges.tolist() == [*range(0, 700, 64), 700]
    assert np.asarray(stored).shape == (11,) and len(head.stored) == len(list(head.stored))
    np.testing.assert_array_equal(head.top(8).keys, asked(CASES["causal"])[0]["L0H1"].top(8).keys)


def test_some_top_keys_are_kept_as_they_are():
    rec, _ = asked(CASES["causal"], statistics=True, exact=False, top_every=32)
    stored = rec["L0H0"].stored["top_keys"]
    assert stored.values.shape == (22, 8) and str(stored) == "first of 32 rows a bin"
    with pytest.raises(UnavailableError, match="the keys a row looks at most cannot be computed"):
        rec["L0H0"].top(1)


@pytest.mark.parametrize("case", ["causal", "chunks"])
def test_some_rows(case):
    """Rows keep their numbers; whole answers are about recorded rows."""
    chunks = CASES[case].chunks
    rec, made = asked(CASES[case], rows=(40, 130), statistics=True, exact=True)
    head, truth = rec["L0H2"], made.truth.weights()[2]
    assert head.recorded == range(40, 130) and head.shape == (chunks[-1].rows[1],) * 2
    np.testing.assert_allclose(head[77], truth[77], atol=1e-6)
    np.testing.assert_allclose(head[:, 5], truth[40:130, 5], atol=1e-6)
    np.testing.assert_allclose(head[100:, 5], truth[100:130, 5], atol=1e-6)
    np.testing.assert_allclose(head[::-7, 5], truth[::-7, 5][(np.arange(truth.shape[0])[::-7] >= 40)
                               & (np.arange(truth.shape[0])[::-7] < 130)], atol=1e-6)  # fmt: skip
    np.testing.assert_allclose(np.asarray(head), truth[40:130], atol=1e-6)
    assert head.entropy().shape == (90,) and head.top(3).keys.shape == (90, 3)
    np.testing.assert_allclose(head.received(), truth[40:130].sum(0), atol=1e-5)
    np.testing.assert_allclose(head.received(5), truth[125:130].sum(0), atol=1e-6)
    np.testing.assert_allclose(head.received(range(50, 60)), truth[50:60].sum(0), atol=1e-6)
    np.testing.assert_allclose(head.received(slice(0, 60)), truth[40:60].sum(0), atol=1e-6)
    pooled = np.zeros_like(truth)
    pooled[40:130] = truth[40:130]
    wanted = Pooled(20, "max").define(
        type("M", (), {"weights": torch.from_numpy(pooled)}), made.truth.shape
    )
    np.testing.assert_allclose(head.pooled(20, "max"), wanted, atol=1e-6)
    np.testing.assert_allclose(head @ np.ones(truth.shape[1]), truth[40:130].sum(-1), atol=1e-5)
    np.testing.assert_allclose(head.T @ np.ones(90), truth[40:130].sum(0), atol=1e-5)
    for ask in (lambda: head[39], lambda: head[[50, 130], 3], lambda: head.received([3])):
        with pytest.raises(
            InputError, match=r"was not recorded; this recording has rows 40–129 of "
        ):
            ask()
    with pytest.raises(InputError, match="does not fit"):
        head[5000]


# ── wrong questions ──────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def head() -> Head:
    """A small head."""
    return asked(CASES["causal"])[0]["L0H0"]


def test_who_it_is(head):
    assert (head.label, head.layer, head.head, head.stack, head.ndim) == ("L0H0", 0, 0, "", 2)
    assert head.tokens == head.query_tokens == head.key_tokens and len(head.tokens) == 700
    assert repr(head) == "Head(L0H0, shape=(700, 700), exact)"
    other = asked(CASES["cross"], statistics=True, exact=False)[0]["L0H0"]
    assert other.tokens is None and repr(other) == "Head(L0H0, shape=(60, 130), summaries)"


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda h: h.top(0), InputError, "whole number ≥ 1"),
        (lambda h: h.pooled(0), InputError, "whole number ≥ 1"),
        (lambda h: h.pooled(2**40), InputError, "whole number from 1 to"),
        (lambda h: h.pooled(how="sum"), InputError, "'mean' or 'max'"),
        (lambda h: h.received(per="all"), InputError, "'sum' or 'visible'"),
        (lambda h: h.received(groups="all"), InputError, "'sum', 'mean' or 'max'"),
        (lambda h: h.received(weighted_by=np.ones(3)), ShapeError, "Weighted"),
        (lambda h: h.received(0), InputError, "n ≥ 1"),
        (lambda h: h.received([700]), InputError, "query 700 does not exist"),
        (lambda h: h.received([0.5]), InputError, "whole-number indices"),
        (lambda h: h @ np.ones(3), ShapeError, "the matrix has 700 keys"),
        (lambda h: h.T @ np.ones((3, 2)), ShapeError, "700 recorded rows"),
        (lambda h: h @ np.ones(700, complex), DTypeError, "real numbers"),
    ],
)
def test_wrong_questions_are_told_what_would_work(head, ask, error, said):
    with pytest.raises(error, match=said):
        ask(head)


def test_a_large_matrix_is_refused_unless_forced(head, monkeypatch):
    monkeypatch.setattr("regard.recording.head._LARGEST_DENSE", 1000)
    with pytest.raises(TooLargeError, match=r"L0H0: the dense matrix \(700, 700\)"):
        head.dense()
    assert head.dense(force=True).shape == (700, 700)


def test_groups_need_their_heads():
    rec, made = asked(CASES["some heads"])
    with pytest.raises(InputError, match="L0H0 was not recorded; of L0 there are heads 1, 3"):
        rec["L0H1"].received(groups="sum")
    rec, made = asked(CASES["causal"])
    wanted = made.truth.weights()[2:].sum((0, 1))
    np.testing.assert_allclose(rec["L0H3"].received(groups="sum"), wanted, atol=1e-5)


def test_arrays_on_the_left_do_not_build_the_matrix(head):
    with pytest.raises(TypeError):
        np.ones((3, 700)) @ head
