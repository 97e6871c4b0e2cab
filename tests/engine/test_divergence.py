"""regard.divergence between live attentions, and a lightning indexer as a student: against the
formulas over dense weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import draw, qkv
from regard.engine import divergence as engine
from regard.engine import plan
from regard.errors import InputError, RegardError, ShapeError, UnavailableError

F64, CAUSAL = torch.float64, regard.Causal()
HOWS = ("kl", "reverse_kl", "js", "tv")
QUERIES, KEYS = 33, 50


def side(
    seed: int, heads: int, key_heads: int, dim: int, sink: bool, **rule: Any
) -> tuple[regard.Attention, Tensor, list[Tensor]]:
    """An attention, its dense weights with the sink in the last column, and what learns."""
    sizes = (2, heads, QUERIES, dim), (2, key_heads, KEYS, dim), (heads,)
    q, k, last = (draw(*size, seed=seed).requires_grad_() for size in sizes)
    rule |= {"sink": last if sink else None}
    dense = regard.attend(q, k, k, implementation="dense", **rule)
    weights = torch.cat([dense[...], dense.sink_mass()[..., None]], -1)
    return regard.replay(q, k, **rule), weights, [q, k, last][: 2 + sink]


def expected(p: Tensor, q: Tensor, how: str, heads: Any) -> Tensor:
    """From dense weights, as the papers write it."""
    if heads == "sum":
        p, q = (w[..., :-1].sum(-3, keepdim=True) for w in (p, q))
        p, q = (w / w.sum(-1, keepdim=True) for w in (p, q))
    elif heads != "each":
        several = [[t] if isinstance(t, int) else list(t) for t in heads.values()]
        p = torch.stack([p[..., of, :, :].mean(-3) for of in several], -3)
        q = q[..., list(heads), :, :]

    def kl(a: Tensor, b: Tensor) -> Tensor:
        ratio = a.where(a > 0, 1.0).log() - b.where(a > 0, 1.0).log()
        return (a * ratio).sum(-1)

    if how in ("kl", "reverse_kl"):
        return kl(p, q) if how == "kl" else kl(q, p)
    mean = (p + q) / 2
    return (kl(p, mean) + kl(q, mean)) / 2 if how == "js" else (p - q).abs().sum(-1) / 2


RULES: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"mask": CAUSAL},
    "window and cap": {"mask": regard.Window(9), "softcap": 2.0},
    "bias": {"mask": CAUSAL, "bias": regard.ALiBi(torch.linspace(0.1, 0.6, 4))},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sink", [False, True])
def test_against_the_definition(rule: str, sink: bool) -> None:
    teacher, p, learns = side(0, 4, 2, 8, sink, **RULES[rule])
    student, q, more = side(1, 4, 1, 5, sink, **RULES[rule])
    for heads in ("each", "sum", {1: (0, 2), 0: 3}):
        for how in HOWS:
            right = expected(p, q, how, heads)
            value = regard.divergence(teacher, student, how=how, heads=heads)
            assert_close(value, right, rtol=0, atol=1e-12)
            grads = [
                torch.autograd.grad(x, [*learns, *more], draw(*right.shape), retain_graph=True)
                for x in (value, right)
            ]
            assert_close(*grads, rtol=0, atol=1e-10)


def test_a_different_number_of_heads() -> None:
    teacher, p, _ = side(0, 6, 3, 8, False, mask=CAUSAL)
    student, q, _ = side(1, 2, 2, 16, False, mask=CAUSAL)
    value = regard.divergence(teacher, student, heads="sum")
    assert value.shape == (2, 1, QUERIES)
    assert_close(value, expected(p, q, "kl", "sum"))
    with pytest.raises(ShapeError, match="6 heads, the student 2"):
        regard.divergence(teacher, student)
    with pytest.raises(InputError, match="head 6 of the teacher"):
        regard.divergence(teacher, student, heads={0: (1, 6)})


def test_some_of_the_queries() -> None:
    (teacher, p, _), (student, q, _) = (side(n, 2, 2, 8, False) for n in range(2))
    whole = expected(p, q, "kl", "each")
    for queries, rows in (
        (5, slice(-5, None)), (slice(3, 20, 4), slice(3, 20, 4)),
        (torch.tensor([7, 2, 31]), [2, 7, 31]), (slice(4, 4), slice(4, 4)),
    ):  # fmt: skip
        assert_close(regard.divergence(teacher, student, queries=queries), whole[..., rows])
    with pytest.raises(InputError, match="query 33"):
        regard.divergence(teacher, student, queries=[33])


def test_what_only_one_side_sees() -> None:
    """Infinite by definition, and without harm to the gradient of other rows."""
    q, k, _ = qkv(40, batch=(1,), heads=(1, 1), dtype=F64, grad=True)
    wide = regard.replay(q.detach(), k.detach(), mask=CAUSAL)
    narrow = regard.replay(q, k, mask=regard.Window(9))
    value = regard.divergence(wide, narrow)
    assert torch.isfinite(value[..., :10]).all() and torch.isinf(value[..., 10:]).all()
    assert torch.isfinite(regard.divergence(wide, narrow, how="reverse_kl")).all()
    assert (regard.divergence(wide, narrow, how="tv") <= 1).all()
    grads = torch.autograd.grad(value[..., :10].sum(), (q, k))
    assert all(torch.isfinite(grad).all() for grad in grads)


def test_rows_that_see_nothing_count_nothing_and_the_same_is_not_apart() -> None:
    mask = CAUSAL & regard.Padding([20, 6], queries=[20, 6])
    q, k, v = qkv(20, grad=True)
    student = regard.replay(q, k, mask=mask)
    teacher = regard.replay(q.detach() * 2, v.detach(), mask=mask)
    for how in HOWS:
        value = regard.divergence(teacher, student, how=how)
        assert (value[1, :, 6:] == 0).all() and (value[1, :, 1:6] > 0).all()
        grads = torch.autograd.grad(value.sum(), (q, k))
        assert all(torch.isfinite(grad).all() for grad in grads)
        with torch.no_grad():
            a = regard.attend(q, k, v, mask=mask)
            assert (regard.divergence(a, regard.replay(q, k, mask=mask), how=how) == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scores_far_apart(dtype: torch.dtype) -> None:
    """Within four times what the dense formula loses in float32."""
    q, k, sq, sk = (draw(1, 2, 200, 32, seed=n, dtype=dtype) * 6 for n in range(4))
    value = regard.divergence(regard.replay(q, k, mask=CAUSAL), regard.replay(sq, sk, mask=CAUSAL))

    def dense(precision: torch.dtype) -> Tensor:
        hidden = torch.ones(200, 200, dtype=torch.bool).triu(1)
        u, v = ((a.to(precision) @ b.to(precision).mT / 32**0.5).masked_fill(hidden, -torch.inf)
                .log_softmax(-1) for a, b in ((q, k), (sq, sk)))  # fmt: skip
        return (u.exp() * (u - v)).masked_fill(hidden, 0.0).sum(-1)

    lost = (dense(torch.float32) - dense(F64)).abs().max()
    assert (value - dense(F64)).abs().max() <= 4 * lost


def test_strips_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory grows with keys, not with their square: few cells at a time."""
    (teacher, p, _), (student, q, learns) = (side(n, 2, 2, 8, True, mask=CAUSAL) for n in range(2))
    monkeypatch.setattr(engine, "_CELLS", 4 * 2 * 2 * KEYS)
    value, right = regard.divergence(teacher, student), expected(p, q, "kl", "each")
    assert_close(value, right)
    assert_close(*(torch.autograd.grad(x.sum(), learns) for x in (value, right)))


REPLAYED = regard.replay(*qkv(8)[:2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"how": "x"}, "how="), ({"how": 3}, "how="), ({"how": None, "heads": "sum"}, "how="),
        ({"student": regard.replay(*qkv(8, 9)[:2])}, "batch, queries and keys must be the same"),
        ({"student": torch.randn(1, 2, 8, 8)}, ""), ({"heads": "all"}, "heads"),
        ({"heads": {}}, "heads"), ({"heads": {0: ()}}, ""), ({"heads": {0: (1, 1)}}, ""),
        ({"heads": {"x": 1}}, ""), ({"teacher": [REPLAYED] * 2, "heads": "sum"}, "one side"),
        ({"teacher": [], "heads": "sum"}, ""),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(RegardError) as caught:
        regard.divergence(**{"teacher": REPLAYED, "student": REPLAYED} | options)
    assert said in str(caught.value)


# ── a lightning indexer ──────────────────────────────────────────────────────────────────────


def indexer() -> list[Tensor]:
    """Queries of three heads, keys that they share, weights of the heads."""
    sizes = (2, 3, 40, 8), (2, 1, 55, 8), (2, 3, 40)
    return [draw(*size, seed=n).requires_grad_() for n, size in enumerate(sizes)]


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_an_indexer_is_one_softmax_of_several_heads(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_order", lambda problem: (backend,))
    q, k, w = given = indexer()
    a = regard.lightning_indexer(q, k, w, mask=CAUSAL)
    assert a.implementation == backend and a.shape == (2, 1, 40, 55)
    raw = (w[..., None] * (q @ k.mT).relu()).sum(-3, keepdim=True)
    hidden = torch.ones(40, 55, dtype=torch.bool).triu(16)
    weights = raw.masked_fill(hidden, -torch.inf).softmax(-1)
    entropy = torch.special.entr(weights.clamp(min=1e-300)).sum(-1)
    assert_close(a[...], weights)
    assert_close(a.entropy(), entropy)
    assert_close(a.received(), weights.sum(-2))
    assert_close(a.top(5).weights, weights.topk(5).values)
    teacher = regard.replay(*qkv(40, 55, dtype=F64)[:2], mask=CAUSAL)
    losses = (
        a.entropy().sum() + regard.divergence(teacher, a, heads="sum").sum(),
        entropy.sum() + expected(
            *(torch.cat([x, x[..., :1] * 0], -1) for x in (teacher.dense(), weights)), "kl", "sum"
        ).sum(),
    )  # fmt: skip
    assert_close(*(torch.autograd.grad(loss, given) for loss in losses))


def test_kernels_of_dot_products_say_why_they_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "library", "triton"):
        monkeypatch.setattr(plan, "_order", lambda problem, name=name: (name,))
        with pytest.raises(UnavailableError, match=r"dot products|no CUDA GPU|Triton|GPU"):
            regard.lightning_indexer(*indexer())
