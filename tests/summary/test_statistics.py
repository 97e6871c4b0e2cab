"""Every statistic on matrices small enough to compute by hand, and which of them merge."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import DTypeError, GradientError, InputError, ShapeError
from regard.shapes import AttentionShape
from regard.statistics import (
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
    Weighted,
)
from regard.summary import Summary, Visible

INF = torch.inf
NAN = float("nan")


def matrix(weights: Any, **options: Any) -> regard.Attention:
    """Attention with these weights (H, L, S), by the definition; a weight of 0 is hidden."""
    w = torch.tensor(weights, dtype=torch.float64)
    w = w[None] if w.ndim == 2 else w
    q = torch.eye(w.shape[1], dtype=torch.float64).expand(len(w), -1, -1)
    k = torch.where(w > 0, w, 1.0).log().mT  # scores q @ kᵀ = log w
    options = {"mask": w > 0, "scale": 1.0, "implementation": "dense"} | options
    return regard.attend(q, k, k, **options)


HALVES = [[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.5, 0.25, 0.25, 0], [0.0] * 4]
STEPS = [[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0.25, 0.25, 0.5, 0, 0]]
HEADS = [[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]]
SCORES = [[5.0, 7, 5, 7, 5], [-500.0, 0, -400, -INF, -INF], [-INF] * 5]
SINK = {"sink": torch.zeros(1, dtype=torch.float64)}  # as heavy as all keys together


@pytest.mark.parametrize(
    ("weights", "options", "ask", "expected"),
    [
        (HALVES, {}, lambda a: a.entropy(), [0, log(2), log(4), 1.5 * log(2), 0]),
        (HALVES, {}, lambda a: a.entropy(True), [0, 1, 1, 1.5 * log(2) / log(3), 0]),
        ([[0.5, 0.5], [0, 0]], SINK, lambda a: a.entropy(), [1.5 * log(2), 0]),
        ([[1.0, 0.0], [0, 0]], SINK, lambda a: a.entropy(True), [1, 0]),
        (HALVES, {}, lambda a: a.concentration(), [1, 0.5, 0.25, 0.375, 0]),
        ([[1.0]], SINK, lambda a: a.concentration(), [0.25]),
        (HALVES, {}, lambda a: a.summarize(Visible())[Visible()], [1, 2, 4, 3, 0]),
        ([[0.5, 0.5]], SINK, lambda a: a.summarize(Visible())[Visible()], [2]),
        (STEPS, {}, lambda a: a.distance(), [2, 2.5, 2.75]),  # query 0 stands at key 2
        (HALVES[:1], {}, lambda a: a.distance(), [3]),
        (HALVES[1:], {}, lambda a: a.distance(), [0.5, 1, 1.25, 0]),
        (HALVES, {}, lambda a: a.max_logit().exp(), [1, 0.5, 0.25, 0.5, 0]),
        (HALVES, {}, lambda a: a.max_score().exp(), [1, 0.5, 0.25, 0.5, 0]),
        (STEPS, {}, lambda a: a.pooled(2), [[0.5, 0, 0], [0.25, 0.25, 0]]),
        (STEPS, {}, lambda a: a.pooled(2, "max"), [[1, 0, 0], [0.25, 0.5, 0]]),
        (STEPS, {}, lambda a: a.pooled(1, "max"), STEPS),
        (STEPS, {}, lambda a: a.pooled(8), [[0.2]]),
        (STEPS, {}, lambda a: a.summarize(Offsets())[Offsets()], [0.25, 0.75, 2, 0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_by_hand(weights, options, ask, expected):
    found = ask(matrix(weights, **options))[0]
    right = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.to(right), right, atol=1e-15, rtol=1e-15)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [[1.5, 0.5], [1.25, 0.75]]),
        ({"queries": 1}, [[0.5, 0.5], [0.25, 0.75]]),
        ({"queries": []}, [[0, 0], [0, 0]]),
        ({"per": "visible"}, [[0.75, 0.5], [0.625, 0.75]]),
        ({"how": "mean"}, [[0.75, 0.5], [0.625, 0.75]]),
        ({"queries": [0], "how": "mean"}, [[1, 0], [1, 0]]),  # key 1 is seen by none: no 0/0
        ({"how": "max"}, [[1, 0.5], [1, 0.75]]),
        ({"queries": [], "how": "max"}, [[0, 0], [0, 0]]),
        ({"groups": "sum"}, [[2.75, 1.25]]),
        ({"groups": "mean"}, [[1.375, 0.625]]),
        ({"per": "visible", "groups": "mean"}, [[0.6875, 0.625]]),
        ({"how": "max", "groups": "max"}, [[1, 0.75]]),
        ({"weighted_by": [2.0, 4.0]}, [[4, 2], [3, 3]]),
        ({"weighted_by": [2.0, 4.0], "how": "mean"}, [[2, 2], [1.5, 3]]),
        ({"weighted_by": [2.0, 6.0], "how": "max"}, [[3, 3], [2, 4.5]]),
        ({"weighted_by": [-1.0, -1.0], "how": "max"}, [[0, 0], [0, 0]]),  # from 0 on
        ({"weighted_by": [[1.0, 0.0], [0.0, 4.0]], "groups": "sum"}, [[2, 3]]),
    ],
    ids=repr,
)
def test_mass_of_keys(given, expected):
    by = given.get("weighted_by")
    given = given | ({"weighted_by": torch.tensor(by, dtype=torch.float64)} if by else {})
    q, k = torch.eye(2, dtype=torch.float64).expand(2, 2, 2), torch.ones(1, 2, 2).double()
    steps = matrix(HEADS)
    a = steps if "groups" not in given else regard.attend(
        q, k, k, scale=1.0, bias=torch.tensor(HEADS).double().log(), implementation="dense"
    )  # fmt: skip
    right = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(a.received(**given), right)


QUERIES: list[tuple[Any, list[int]]] = [
    (None, [0, 1, 2, 3, 4, 5, 6]), (3, [4, 5, 6]), (100, [0, 1, 2, 3, 4, 5, 6]),
    (slice(None), [0, 1, 2, 3, 4, 5, 6]), (slice(1, 6, 2), [1, 3, 5]), (slice(-2, None), [5, 6]),
    (slice(None, None, -3), [0, 3, 6]), (slice(5, 1, -1), [2, 3, 4, 5]), (slice(3, 1), []),
    (range(2, 5), [2, 3, 4]), (range(6, 0, -2), [2, 4, 6]), ([4, 1], [1, 4]), ((0, -1), [0, 6]),
    ([2, 2, -5, 2], [2]), (torch.tensor([5, -7, 5]), [0, 5]), (np.array([3, 1]), [1, 3]),
    (np.int64(3), [4, 5, 6]), (torch.tensor(3), [4, 5, 6]), ([np.int64(3), 1], [1, 3]),
    (slice(np.int64(1), np.int32(6), np.int8(2)), [1, 3, 5]),
]  # fmt: skip


def test_mass_from_some_queries():
    a = matrix(torch.rand(7, 5).softmax(-1).tolist())
    w = a.dense()
    for queries, rows in QUERIES:
        torch.testing.assert_close(a.received(queries), w[:, rows].sum(1))


def test_heaviest_keys():
    scores = torch.tensor([SCORES])
    q = torch.eye(3).expand(1, 3, 3)
    a = regard.attend(
        q, torch.zeros(1, 5, 3), torch.zeros(1, 5, 3), bias=scores, scale=1.0,
        implementation="dense",
    )  # fmt: skip
    keys, weights = a.top(4).keys[0].tolist(), a.top(4).weights[0]
    # the lower key among equals; scores decide where weights are 0 in single precision
    assert keys == [[1, 3, 0, 2], [1, 2, 0, -1], [-1] * 4]
    torch.testing.assert_close(
        weights[0], scores[0, 0, [1, 3, 0, 2]].exp() / scores[0, 0].exp().sum()
    )
    assert weights[1:].tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert a.peak().keys.tolist() == [[1, 1, -1]]
    assert torch.equal(a.peak().weights, a.top(1).weights[..., 0])
    nothing = regard.attend(q, q[:, :0], q[:, :0], implementation="dense")
    assert nothing.top(2).keys.tolist() == [[[-1, -1]] * 3]
    assert nothing.max_score().tolist() == nothing.max_logit().tolist() == [[-INF] * 3]


def test_scores_before_and_after_what_changes_them():
    q, k = torch.tensor([[[2.0], [3.0]]]).double(), torch.tensor([[[1.0], [2.0], [30.0]]]).double()
    bias = torch.tensor([[100.0, -100.0, 0.0], [0.0, 0.0, -INF]]).double()
    options = {"mask": regard.Causal(), "scale": 0.5, "softcap": 10.0, "sink": SINK["sink"] + 1e3}
    # row 0 sees keys 0 and 1; row 1 keys 0 and 1, because its bias hides key 2
    a = regard.attend(q, k, k, bias=bias, implementation="dense", **options)
    assert a.max_score().tolist() == [[2.0, 3.0]]
    capped = 10 * torch.tanh(torch.tensor([[1.0, 3.0]]).double() / 10)
    torch.testing.assert_close(a.max_logit(), capped + torch.tensor([[100.0, 0.0]]))


def test_nan_shows_and_a_weight_of_zero_has_a_slope():
    q = torch.tensor([[[NAN], [1.0]]])
    a = regard.attend(q, q, q, implementation="dense")
    for numbers in (a.entropy(), a.max_logit(), a.concentration()):
        assert numbers[0, 0].isnan()
    q = torch.tensor([[[500.0], [1.0]]], requires_grad=True)
    (grad,) = torch.autograd.grad(regard.attend(q, q, q, implementation="dense").entropy().sum(), q)
    assert grad.isfinite().all()


@pytest.mark.parametrize(
    ("queries", "keys", "size"),
    [(1, 1, 1), (512, 512, 1), (513, 10, 2), (10, 1025, 3), (4096, 8192, 16), (0, 0, 1)],
)
def test_a_map_has_at_most_512_cells_a_side(queries, keys, size):
    shape = AttentionShape.of((1, queries, 1), (1, keys, 1))
    assert Pooled().size(shape) == size and Pooled(7).size(shape) == 7
    area = Pooled().area(shape, torch.zeros(1))
    assert max(area.shape) <= 512 and area.sum() == queries * keys


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
def test_an_empty_matrix_has_an_empty_map(queries, keys):
    q, k = torch.ones(1, queries, 2), torch.ones(1, keys, 2)
    for how in ("mean", "max"):
        a = regard.attend(q, k, k, implementation="dense")
        assert a.pooled(2, how).shape == (1, -(-queries // 2), -(-keys // 2))


# ── marks and diagonals ──────────────────────────────────────────────────────────────────────

TEXT = torch.tensor([3, 5, 3, 5, 3, 9])


def attended(queries: int = 6, keys: int = 6, **options: Any) -> regard.Attention:
    dice = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, n, 4, generator=dice) for n in (queries, keys, keys))
    return regard.attend(q, k, v, **({"mask": regard.Causal()} | options))


@pytest.mark.parametrize("implementation", [None, "tiled", "dense"])
def test_mass_on_copies_of_a_token_and_on_what_followed_them(implementation):
    large = TEXT * 2**40  # marks of any size
    after = torch.cat([torch.tensor([-1]), TEXT[:-1]])
    copies, followed = Matching(large, large), Matching(TEXT, after)
    other = Matching(large, large + 2**32)  # equal in their lower half alone
    many = [Matching(TEXT % n, TEXT % n) for n in range(1, 8)]  # more than fit one sweep
    a = attended(implementation=implementation)
    found, w = a.summarize(copies, followed, other, *many), a.dense()
    # row 4 is the third 3: copies at 0 and 2, followed by 1 and 3
    torch.testing.assert_close(found[copies][:, 4], w[:, 4, [0, 2]].sum(-1))
    torch.testing.assert_close(found[followed][:, 4], w[:, 4, [1, 3]].sum(-1))
    assert (found[copies][:, [0, 1, 5]] == 0).all()  # no earlier copy; never oneself
    assert (found[other] == 0).all()
    assert all(torch.equal(found[m], attended(implementation=implementation).summarize(m)[m])
               for m in many)  # fmt: skip
    during = attended(summaries=(copies,), implementation=implementation)
    assert torch.equal(during.summarize(copies)[copies], found[copies])


def test_a_decoding_step_stands_at_the_end():
    q, k = torch.randn(1, 1, 4), torch.randn(1, 6, 4)
    match = Matching(torch.tensor([3]), TEXT)
    a = regard.replay(q, k)
    torch.testing.assert_close(a.summarize(match)[match][0, 0], a.dense()[0, 0, [0, 2, 4]].sum())


# ── as values ────────────────────────────────────────────────────────────────────────────────

MERGE = (Entropy(), Visible(), MaxScore(), MaxLogit(), Concentration(), Distance(), Top(3))
DO_NOT = (Peak(), Received(), Pooled(4))
APART = (
    *MERGE, *DO_NOT, Top(4), Pooled(5), Pooled(4, "max"), Received(3), Received(per="visible"),
    Received(groups="sum"), Received(groups="mean"), Received(slice(3)), Received([3]),
    Received(slice(1, 3)), Received(how="max"),
)  # fmt: skip


def test_equal_parameters_make_equal_statistics():
    assert len(set(APART)) == len(APART)
    for summary in APART:
        again = type(summary)(**vars(summary))
        assert again == summary and {summary: 1}[again] == 1
        assert summary.check(AttentionShape.of((1, 9, 3), (1, 9, 3))) is None
        with pytest.raises(AttributeError):
            summary.k = 9
    assert Received([1, 2]) == Received(torch.tensor([1, 2])) == Received(np.array([1, 2]))
    assert Received(5) == Received(np.int64(5))
    assert Received(4, how="mean") == Received(4, "visible") == Received(4, "visible", how="sum")


@pytest.mark.parametrize("summary", DO_NOT, ids=repr)
def test_what_does_not_merge_is_refused_for_a_part(summary):
    assert all(s.merges for s in MERGE) and not summary.merges
    x = torch.ones(1, 1, 2, 2)
    with pytest.raises(InputError, match=r"does not merge over keys; take it by rep"):
        regard.attend_partial(x, x, x, summaries=(summary,))


@pytest.mark.parametrize("summary", [Matching(TEXT, TEXT), Offsets()], ids=["Matching", "Offsets"])
def test_those_without_a_gradient_say_so(summary):
    q = torch.randn(2, 6, 4, requires_grad=True)
    with pytest.raises(GradientError, match=type(summary).__name__):
        regard.attend(q, q, q).summarize(summary)[summary].sum().backward()


SEVEN = AttentionShape.of((1, 7, 1), (1, 3, 1))
WHICH = "give a slice, a range, whole-number indices, or a numb"
REFUSED: list[tuple[Any, str, Any]] = [
    *((InputError, r"query -?\d does not exist; there are 7 queries",
       lambda given=given: Received(given).check(SEVEN))
      for given in ([7], [-8], range(5, 9), torch.tensor([0, 9]))),
    *((InputError, "a number means the last n queries, so n ≥ 1",
       lambda n=n: Received(n).check(SEVEN)) for n in (0, -2)),
    *((InputError, WHICH, lambda given=given: Received(given))
      for given in (2.0, "last", [1.5], [True, False], np.array([0.5]))),
    *((InputError, "or a number n for the last n queries", lambda given=given: Received(given))
      for given in (True, np.bool_(True), np.float64(3), torch.tensor(2.0))),
    (InputError, r"queries=slice\('a', 'b', None\); give a slice of whole",
     lambda: Received(slice("a", "b"))),
    (InputError, "the step of a slice is not 0", lambda: Received(slice(0, 5, 0))),
    (InputError, r"Received\(per='mean'\); give 'sum' or 'visible'", lambda: Received(per="mean")),
    (InputError, r"groups='all'\); give None, 'sum', 'mean' or 'max'",
     lambda: Received(groups="all")),
    (InputError, r"Received\(how='least'\); give 'sum', 'mean' or 'max'",
     lambda: Received(how="least")),
    (InputError, "the largest weight is not divided", lambda: Received(per="visible", how="max")),
    (DTypeError, "one number per query", lambda: Weighted(Received(), [1.0, 2.0])),
    (DTypeError, r"torch\.bool", lambda: Weighted(Received(), torch.tensor([True]))),
    (InputError, r"give regard\.Received", lambda: Weighted(torch.ones(2), torch.ones(2))),
    *((InputError, r"Pooled\(cell=.*\); give a whole number ≥ 1, or None",
       lambda cell=cell: Pooled(cell)) for cell in (0, -1, 2.0, True, "8")),
    (InputError, r"Pooled\(how='sum'\); give 'mean' or 'max'", lambda: Pooled(2, "sum")),
    *((InputError, r"Top\(k=.*\); give a whole number ≥ 1", lambda k=k: Top(k))
      for k in (0, -1, 1.0, True, "3", None)),
    (DTypeError, r"query_marks.*float32.*whole numbers", lambda: Matching(torch.zeros(3), TEXT)),
    (ShapeError, r"key_marks.*\(3,\).*\(6,\)",
     lambda: attended().summarize(Matching(TEXT, TEXT[:3]))),
    (InputError, r"'entropy' is not a summary; give e\.g\.",
     lambda: attended(summaries=("entropy",))),
    (InputError, r"is not a summary; give e\.g\.", lambda: attended().summarize(Entropy)),
    (TypeError, "define", lambda: type("Nameless", (Summary,), {})()),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "attempt"), REFUSED)
def test_what_is_refused(error, words, attempt):
    with pytest.raises(error, match=words):
        attempt()
