"""The C kernels where they could differ from the definition: lanes, tiles, ties, extremes."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.cpu.conftest import (
    attend,
    each_type,
    random,
    threads,
)
from regard.summary import Received, Top, Visible
from regard.testing import poisoned_memory

INF = torch.inf


def with_scores(scores: Tensor, **options: Any) -> regard.Attention:
    """(L, S): attention whose scores are these numbers, to the bit."""
    queries, keys = scores.shape
    q = torch.eye(queries, dtype=scores.dtype)[None, None]
    k = scores.T.contiguous()[None, None]
    v = torch.ones(1, 1, keys, 1, dtype=scores.dtype)
    return attend(q, k, v, scale=1.0, **options)


# ── exp and tanh ─────────────────────────────────────────────────────────────────────────────


@each_type
def test_weights_are_accurate_over_the_whole_range(isa: str, dtype: torch.dtype) -> None:
    deepest = 80.0 if dtype == torch.float32 else 700.0
    scores = torch.linspace(-deepest, 0.0, 777, dtype=dtype)[None]
    a, exact = with_scores(scores), scores.double().softmax(-1)
    # the exponent itself is rounded: its size times half a grain
    torch.testing.assert_close(
        a.dense()[0, 0].double(), exact, rtol=2 * deepest * torch.finfo(dtype).eps, atol=0.0
    )
    grain = 8 * torch.finfo(dtype).eps
    lse = scores.double().logsumexp(-1)
    torch.testing.assert_close(a.lse[0, 0].double(), lse, rtol=grain, atol=grain)


@each_type
def test_the_cap_is_accurate_from_tiny_to_huge(isa: str, dtype: torch.dtype) -> None:
    sizes = torch.logspace(-12, 6, 200, dtype=dtype)
    scores = torch.cat([sizes, -sizes, torch.zeros(1, dtype=dtype)])[None]
    capped = with_scores(scores, softcap=3.0).scores[0, 0].double()
    exact = 3.0 * torch.tanh(scores.double() / 3.0)
    torch.testing.assert_close(capped, exact, rtol=8 * torch.finfo(dtype).eps, atol=0.0)


@each_type
def test_scores_near_the_end_of_the_numbers(isa: str, dtype: torch.dtype) -> None:
    far = torch.finfo(dtype).max / 2
    scores = torch.tensor([[far, -far, 0.0], [-far, -far, -far], [1.0, -far, 1.0]], dtype=dtype)
    a = with_scores(scores)
    assert a.dense()[0, 0].tolist() == [
        [1.0, 0.0, 0.0], [pytest.approx(1 / 3)] * 3, [0.5, 0.0, 0.5],
    ]  # fmt: skip
    assert a.entropy()[0, 0].tolist() == [0.0, pytest.approx(log(3)), pytest.approx(log(2))]
    assert a.max_logit()[0, 0].tolist() == [far, -far, 1.0]
    assert a.top(2).keys[0, 0].tolist() == [[0, 2], [0, 1], [0, 2]]
    assert a.output[0, 0, :, 0].tolist() == [pytest.approx(1.0)] * 3


# ── top keys ─────────────────────────────────────────────────────────────────────────────────


@each_type
@pytest.mark.parametrize("score", [0.0, -1.5, 1e30, 1e-40])
def test_among_equals_the_lower_key_wins(isa: str, dtype: torch.dtype, score: float) -> None:
    for keys in (1, 7, 16, 33, 300):
        scores = torch.full((1, keys), score, dtype=dtype)
        for k in (1, 2, 8, 15, 16, 17, 20):
            top = with_scores(scores, summaries=(Top(k),)).top(k)
            expected = [*range(min(k, keys)), *[-1] * (k - keys)]
            assert top.keys.flatten().tolist() == expected, (keys, k)


@each_type
def test_ties_among_others_across_tiles(isa: str, dtype: torch.dtype) -> None:
    scores = (torch.arange(3 * 700).reshape(3, 700) * 37 % 11).to(dtype)  # few distinct values
    scores[2, ::2] = -INF
    bias = scores.masked_fill(scores != -INF, 0.0)
    finite = scores.masked_fill(scores == -INF, 0.0)
    for k in (1, 3, 8, 17, 70):
        top = with_scores(finite, bias=bias[None, None], summaries=(Top(k),)).top(k)
        _, expected = scores.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(top.keys[0, 0], expected[:, :k])


@each_type
@pytest.mark.parametrize("k", [15, 16, 17, 100, 400])
def test_more_keys_than_a_vector_has_lanes(isa: str, dtype: torch.dtype, k: int) -> None:
    scores = random(5, 310, dtype=dtype) * 3
    with poisoned_memory():
        top = with_scores(scores, mask=regard.Window(280), summaries=(Top(k),)).top(k)
    dense = with_scores(scores, mask=regard.Window(280))
    ranked = dense.scores[0, 0].sort(dim=-1, descending=True, stable=True)
    expected = torch.full((5, max(k, 310)), -1)
    expected[:, :310] = ranked.indices.masked_fill(ranked.values == -INF, -1)
    assert torch.equal(top.keys[0, 0], expected[:, :k])
    kept = min(k, 310)
    weights = dense.dense()[0, 0].gather(-1, ranked.indices[:, :kept])
    assert torch.equal(top.weights[0, 0, :, :kept], weights)
    assert not top.weights[0, 0, :, kept:].any()


# ── bias ─────────────────────────────────────────────────────────────────────────────────────


@each_type
def test_a_bias_of_minus_infinity_hides(isa: str, dtype: torch.dtype) -> None:
    q, k = random(1, 1, 3, 8, dtype=dtype), random(1, 1, 270, 8, dtype=dtype, seed=1)
    bias = torch.zeros(3, 270, dtype=dtype)
    bias[0] = -INF
    bias[1, 1:] = -INF
    with poisoned_memory():
        a = attend(q, k, k, bias=bias, summaries=(Visible(), Top(2), regard.Entropy()))
        visible, rows = a.summarize(Visible())[Visible()], a.dense()[0, 0]
    assert visible.flatten().tolist() == [0, 1, 270]
    assert a.lse[0, 0, 0] == -INF and a.lse[0, 0, 1:].isfinite().all()
    assert not a.output[0, 0, 0].any() and not rows[0].any()
    torch.testing.assert_close(a.output[0, 0, 1], k[0, 0, 0])
    assert a.top(2).keys[0, 0, :2].tolist() == [[-1, -1], [0, -1]]
    assert a.entropy()[0, 0, :2].tolist() == [0.0, 0.0]
    assert a.max_score()[0, 0, 0] == -INF
    seen = attend(q, k, k, bias=bias).received(per="visible")
    torch.testing.assert_close(seen[0, 0, 1:], rows[2, 1:])
    torch.testing.assert_close(seen[0, 0, 0], rows[1:, 0].mean())


@each_type
def test_the_lowest_finite_number_is_an_ordinary_bias(isa: str, dtype: torch.dtype) -> None:
    lowest = torch.finfo(dtype).min
    bias = torch.full((2, 5), lowest, dtype=dtype)
    bias[1, 2] = 0.0
    a = with_scores(torch.zeros(2, 5, dtype=dtype), bias=bias, summaries=(Visible(),))
    assert a.summarize(Visible())[Visible()].flatten().tolist() == [5, 5]
    assert a.dense()[0, 0, 0].tolist() == [pytest.approx(0.2)] * 5
    assert a.dense()[0, 0, 1].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert a.lse[0, 0].tolist() == [lowest, 0.0]
    assert a.entropy()[0, 0].tolist() == [pytest.approx(log(5)), 0.0]


# ── mass out of the backward ─────────────────────────────────────────────────────────────────


@each_type
@pytest.mark.parametrize("strips", [False, True], ids=["whole", "strips"])
def test_mass_from_the_backward(
    isa: str, dtype: torch.dtype, strips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tiles of keys, several blocks of queries, heads that share keys, threads; and a mask
    that comes in strips of queries. The bits are those of the column sweep."""
    if strips:
        monkeypatch.setattr("regard.engine.backends.cpu.bind._STRIP_BYTES", 1)
    q = random(2, 6, 200, 8, dtype=dtype).requires_grad_()
    k, v = random(2, 2, 530, 8, dtype=dtype, seed=1), random(2, 2, 530, 3, dtype=dtype, seed=2)
    mask = regard.Rule(lambda i, j: (i + 2 * j) % 5 != 0) if strips else regard.Causal()
    swept = attend(q.detach(), k, v, mask=mask).received()
    for count in (1, 3):
        with threads(count), poisoned_memory():
            a = attend(q, k, v, mask=mask, in_backward=(Received(),))
            a.output.square().sum().backward()
        assert torch.equal(a.received().detach(), swept), f"{count} threads: other bits"
