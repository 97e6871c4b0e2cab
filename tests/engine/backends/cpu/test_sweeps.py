"""The C kernels where they could differ from the definition: lanes, tiles, ties, extremes."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import api
from regard.engine.backends.cpu.load import Kernels, _find
from regard.engine.backends.cpu.sweeps import CPU
from regard.summary import Pooled, Top, Visible
from regard.testing import poisoned_memory

INF = torch.inf
TYPES = (torch.float32, torch.float64)
each_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype)[6:])


def kernels() -> Kernels:
    found = _find()
    assert isinstance(found, Kernels), found
    return found


def instruction_sets() -> list[str]:
    """For parametrising; without kernels the one parameter makes the tests fail by name."""
    found = _find()
    return found.instruction_sets() if isinstance(found, Kernels) else ["none"]


@pytest.fixture(params=instruction_sets())
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernels of one instruction set."""
    chosen = Kernels(kernels().path, request.param)
    monkeypatch.setattr("regard.engine.backends.cpu.sweeps.load", lambda: chosen)
    return chosen.isa


def attend(*tensors: Tensor, **options: Any) -> regard.Attention:
    return regard.attend(*tensors, implementation="cpu", **options)


def with_scores(scores: Tensor, **options: Any) -> regard.Attention:
    """(L, S): attention whose scores are these numbers, to the bit."""
    queries, keys = scores.shape
    q = torch.eye(queries, dtype=scores.dtype)[None, None]
    k = scores.T.contiguous()[None, None]
    v = torch.ones(1, 1, keys, 1, dtype=scores.dtype)
    return attend(q, k, v, scale=1.0, **options)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=dice, dtype=torch.float64).to(dtype)


# ── instruction sets ─────────────────────────────────────────────────────────────────────────

PROBLEMS: dict[str, Callable[[torch.dtype], dict[str, Any]]] = {
    "plain": lambda dtype: {},
    "causal": lambda dtype: {"mask": regard.Causal()},
    "everything": lambda dtype: {
        "mask": regard.Window(100) & regard.Rule(lambda i, j: (i + j) % 7 != 0),
        "softcap": 3.0,
        "bias": regard.ALiBi(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=dtype)),
        "sink": torch.tensor([0.0, 1.0, -1.0, 2.0], dtype=dtype),
    },
}


def answers(dtype: torch.dtype, options: dict[str, Any]) -> dict[str, Tensor]:
    q = random(2, 4, 70, 20, dtype=dtype, seed=1).requires_grad_()
    k, v = (random(2, 2, 300, d, dtype=dtype, seed=d).requires_grad_() for d in (20, 9))
    a = attend(q, k, v, **options)
    (a.output.sum() + a.entropy().square().sum() + a.lse.sum()).backward()
    found = {
        "output": a.output, "lse": a.lse, "entropy": a.entropy(), "max score": a.max_score(),
        "max logit": a.max_logit(), "concentration": a.concentration(),
        "distance": a.distance(), "top": a.top(5).weights, "mean": a.pooled(48),
        "max": a.pooled(32, "max"), "received": a.received(), "dense": a.dense(),
        "transposed": a.T @ torch.ones(70, dtype=dtype),
        "dq": q.grad, "dk": k.grad, "dv": v.grad,
    }  # fmt: skip
    return {name: value.detach() for name, value in found.items() if value is not None}


@each_type
@pytest.mark.parametrize("problem", PROBLEMS)
def test_instruction_sets_agree_but_for_rounding(problem: str, dtype: torch.dtype) -> None:
    by_isa = {}
    for name in kernels().instruction_sets():
        chosen = Kernels(kernels().path, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("regard.engine.backends.cpu.sweeps.load", lambda chosen=chosen: chosen)
            by_isa[name] = answers(dtype, PROBLEMS[problem](dtype))
    first = by_isa.pop(next(iter(by_isa)))
    grain = 200 * torch.finfo(dtype).eps
    for name, found in by_isa.items():
        for what, value in found.items():
            room = grain * max(1.0, float(first[what].abs().max()))
            torch.testing.assert_close(
                value, first[what], rtol=0.0, atol=room, msg=f"{what} of {name} is off"
            )


# ── exp and tanh ─────────────────────────────────────────────────────────────────────────────


@each_type
def test_weights_are_accurate_over_the_whole_range(isa: str, dtype: torch.dtype) -> None:
    deepest = 80.0 if dtype == torch.float32 else 700.0
    scores = torch.linspace(-deepest, 0.0, 777, dtype=dtype)[None]
    a = with_scores(scores)
    exact = scores.double().softmax(-1)
    # the exponent itself is rounded: its size times half a grain
    torch.testing.assert_close(
        a.dense()[0, 0].double(), exact, rtol=2 * deepest * torch.finfo(dtype).eps, atol=0.0
    )
    grain = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        a.lse[0, 0].double(), scores.double().logsumexp(-1), rtol=grain, atol=grain
    )


@each_type
def test_the_cap_is_accurate_from_tiny_to_huge(isa: str, dtype: torch.dtype) -> None:
    sizes = torch.logspace(-12, 6, 200, dtype=dtype)
    scores = torch.cat([sizes, -sizes, torch.zeros(1, dtype=dtype)])[None]
    found = with_scores(scores, softcap=3.0).scores[0, 0].double()
    exact = 3.0 * torch.tanh(scores.double() / 3.0)
    torch.testing.assert_close(found, exact, rtol=8 * torch.finfo(dtype).eps, atol=0.0)


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
@pytest.mark.parametrize("score", [0.0, 1.5, -1.5, 1e30, -1e30, 1e-40])
@pytest.mark.parametrize("keys", [1, 7, 16, 33, 300])
def test_among_equals_the_lower_key_wins(
    isa: str, dtype: torch.dtype, score: float, keys: int
) -> None:
    scores = torch.full((1, keys), score, dtype=dtype)
    for k in range(1, 21):
        found = with_scores(scores, summaries=(Top(k),)).top(k)
        expected = [*range(min(k, keys)), *[-1] * (k - keys)]
        assert found.keys.flatten().tolist() == expected, k


@each_type
def test_ties_among_others_across_tiles(isa: str, dtype: torch.dtype) -> None:
    scores = (torch.arange(3 * 700).reshape(3, 700) * 37 % 11).to(dtype)  # few distinct values
    scores[2, ::2] = -INF
    bias = scores.masked_fill(scores != -INF, 0.0)
    finite = scores.masked_fill(scores == -INF, 0.0)
    for k in (1, 3, 8, 17, 70):
        found = with_scores(finite, bias=bias[None, None], summaries=(Top(k),)).top(k)
        _, expected = scores.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(found.keys[0, 0], expected[:, :k])


@each_type
@pytest.mark.parametrize("k", [15, 16, 17, 40, 100, 400])
def test_more_keys_than_a_vector_has_lanes(isa: str, dtype: torch.dtype, k: int) -> None:
    scores = random(5, 310, dtype=dtype) * 3
    with poisoned_memory():
        found = with_scores(scores, mask=regard.Window(280), summaries=(Top(k),)).top(k)
    dense = with_scores(scores, mask=regard.Window(280))
    ranked = dense.scores[0, 0].sort(dim=-1, descending=True, stable=True)
    expected = torch.full((5, max(k, 310)), -1)
    expected[:, :310] = ranked.indices.masked_fill(ranked.values == -INF, -1)
    assert torch.equal(found.keys[0, 0], expected[:, :k])
    kept = min(k, 310)
    weights = dense.dense()[0, 0].gather(-1, ranked.indices[:, :kept])
    assert torch.equal(found.weights[0, 0, :, :kept], weights)
    assert not found.weights[0, 0, :, kept:].any()


# ── maps ─────────────────────────────────────────────────────────────────────────────────────


@each_type
def test_any_number_of_maps_at_once(isa: str, dtype: torch.dtype) -> None:
    q, k = random(1, 2, 150, 8, dtype=dtype), random(1, 2, 600, 8, dtype=dtype, seed=1)
    maps = [Pooled(n, how) for n in (1, 3, 7, 16, 64, 100, 300) for how in ("mean", "max")]
    mask = regard.Window(333, 5)
    with poisoned_memory():
        first = attend(q, k, k, mask=mask, summaries=(*maps, regard.Entropy()))
        later = attend(q, k, k, mask=mask).summarize(*maps)
    right = regard.attend(q, k, k, mask=mask, implementation="dense").summarize(*maps)
    grain = 50 * torch.finfo(dtype).eps
    for one in maps:
        found = first.summarize(one)[one]
        torch.testing.assert_close(found, right[one], rtol=grain, atol=grain)
        assert torch.equal(found, later[one])


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


# ── intervals and batches ────────────────────────────────────────────────────────────────────


@each_type
@pytest.mark.parametrize("keys", [5, 256, 300])
def test_intervals_of_no_length(isa: str, dtype: torch.dtype, keys: int) -> None:
    q, k = random(3, 2, 70, 8, dtype=dtype), random(3, 2, keys, 8, dtype=dtype, seed=1)
    q.requires_grad_()
    mask = regard.Padding([0, keys, 1]) & regard.Window(None, 0, align="start")
    mask = mask & regard.Padding([keys] * 3, [70, 65, 70])
    with poisoned_memory():
        a = attend(q, k, k, mask=mask, summaries=(regard.Pooled(10), regard.Top(2)))
        (a.output.sum() + a.entropy().sum()).backward()
        found = a.pooled(10), a.received(), a.dense(), a.top(2).weights, a.output, q.grad
    for part in found:
        assert part is not None and part.isfinite().all() and not part[0].any()
    assert (a.lse[0] == -INF).all() and (a.lse[1, :, 65:] == -INF).all()
    torch.testing.assert_close(a.dense()[2, ..., 0], torch.ones(2, 70, dtype=dtype))
    right = regard.attend(q, k, k, mask=mask, implementation="dense")
    torch.testing.assert_close(a.output, right.output)


@each_type
def test_several_batch_axes_are_one(isa: str, dtype: torch.dtype) -> None:
    q, k = random(2, 3, 4, 33, 8, dtype=dtype), random(2, 3, 2, 40, 8, dtype=dtype, seed=1)
    lengths = torch.tensor([[1, 40, 7], [0, 3, 39]])
    mask = regard.Padding(lengths) & regard.Causal()
    deep = attend(q, k, k, mask=mask, summaries=(regard.Top(3), regard.Pooled(8)))
    flat = attend(
        q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1),
        mask=regard.Padding(lengths.flatten()) & regard.Causal(),
    )  # fmt: skip
    assert deep.shape == (2, 3, 4, 33, 40)
    for one, other in (
        (deep.output, flat.output), (deep.lse, flat.lse), (deep.entropy(), flat.entropy()),
        (deep.received(), flat.received()), (deep.dense(), flat.dense()),
        (deep.top(3).keys, flat.top(3).keys), (deep.pooled(8), flat.pooled(8)),
    ):  # fmt: skip
        assert torch.equal(one.flatten(0, 1), other)


@each_type
def test_transposed_and_spread_inputs(isa: str, dtype: torch.dtype) -> None:
    wide = random(1, 40, 3, 8, dtype=dtype)  # tokens before heads, as projections leave them
    q = k = wide.transpose(1, 2)
    v = random(1, 1, 40, 8, dtype=dtype, seed=2).expand(1, 3, 40, 8)[..., ::2]
    found = attend(q, k, v, mask=regard.Causal())
    right = attend(q.contiguous(), k.contiguous(), v.contiguous(), mask=regard.Causal())
    assert torch.equal(found.output, right.output) and torch.equal(found.dense(), right.dense())


# ── mass out of the backward ─────────────────────────────────────────────────────────────────


@each_type
@pytest.mark.parametrize("strips", [False, True], ids=["whole", "strips"])
def test_mass_from_the_backward(
    isa: str, dtype: torch.dtype, strips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tiles of keys, several blocks of queries, heads that share keys, threads; and a mask
    that comes in strips of queries."""
    if strips:
        monkeypatch.setattr("regard.engine.backends.cpu.bind._STRIP_BYTES", 1)
    q = random(2, 6, 200, 8, dtype=dtype).requires_grad_()
    k, v = random(2, 2, 530, 8, dtype=dtype, seed=1), random(2, 2, 530, 3, dtype=dtype, seed=2)
    mask = regard.Rule(lambda i, j: (i + 2 * j) % 5 != 0) if strips else regard.Causal()
    found, threads = [], torch.get_num_threads()
    for count in (1, 3):
        torch.set_num_threads(count)
        try:
            with poisoned_memory():
                a = attend(q, k, v, mask=mask, in_backward=(regard.Received(),))
                a.output.square().sum().backward()
        finally:
            torch.set_num_threads(threads)
        found.append(a._known.brought.mass)
    assert torch.equal(found[0], found[1]), "the number of threads changes no bit"
    assert found[0].shape == (2, 6, 530) and found[0].dtype == dtype
    swept = attend(q.detach(), k, v, mask=mask).received()
    assert torch.equal(found[0], swept)


def test_only_mass_that_is_asked_for_is_added_up(isa: str) -> None:
    q, k = random(1, 2, 9, 4), random(1, 2, 20, 4, seed=1)
    call = api._call(q, k, k, None, None, None, None, None, 0.0)
    state = CPU.rows(call, False, ()).state
    told = torch.ones(1, 2, 9, 4), torch.zeros(1, 2, 9), None
    assert CPU.backward(call, state, *told).mass is None
    mass = CPU.backward(call, state, *told, mass=True).mass
    assert mass is not None
    torch.testing.assert_close(mass.sum(-1), torch.full((1, 2), 9.0))
