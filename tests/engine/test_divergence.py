"""regard.divergence between live attentions, against the dense definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine import divergence as engine
from regard.engine.attention import Attention
from regard.errors import InputError, RegardError, ShapeError

F64 = torch.float64
HOWS = ("kl", "reverse_kl", "js", "tv")
QUERIES, KEYS = 33, 50


def _side(
    seed: int, heads: int, key_heads: int, dim: int, sink: bool, **rule: Any
) -> tuple[Attention, Tensor, list[Tensor]]:
    """An attention, its dense weights with the sink in the last column, and what learns."""
    torch.manual_seed(seed)
    q = torch.randn(2, heads, QUERIES, dim, dtype=F64, requires_grad=True)
    k = torch.randn(2, key_heads, KEYS, dim, dtype=F64, requires_grad=True)
    last = torch.randn(heads, dtype=F64, requires_grad=True) if sink else None
    a = regard.replay(q, k, sink=last, **rule)
    dense = regard.attend(q, k, k, sink=last, implementation="dense", **rule)
    weights = torch.cat([dense[...], dense.sink_mass()[..., None]], -1)
    return a, weights, [t for t in (q, k, last) if t is not None]


def _expected(p: Tensor, q: Tensor, how: str, heads: Any) -> Tensor:
    """From dense weights, as the papers write it."""
    if heads == "sum":
        p, q = (w[..., :-1].sum(-3, keepdim=True) for w in (p, q))
        p, q = (w / w.sum(-1, keepdim=True) for w in (p, q))
    elif heads != "each":
        several = [[t] if isinstance(t, int) else list(t) for t in heads.values()]
        p = torch.stack([p[..., of, :, :].mean(-3) for of in several], -3)
        q = q[..., list(heads), :, :]

    def kl(a: Tensor, b: Tensor) -> Tensor:
        seen = a > 0
        ratio = a.where(seen, 1.0).log() - b.where(seen, 1.0).log()
        return (a * ratio).sum(-1)

    if how in ("kl", "reverse_kl"):
        return kl(p, q) if how == "kl" else kl(q, p)
    return (
        (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2 if how == "js" else (p - q).abs().sum(-1) / 2
    )


RULES: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"mask": regard.Causal()},
    "window and cap": {"mask": regard.Window(9), "softcap": 2.0},
    "bias": {"mask": regard.Causal(), "bias": regard.ALiBi(torch.linspace(0.1, 0.6, 4))},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("heads", ["each", "sum", {1: (0, 2), 0: 3}], ids=str)
def test_against_the_definition(rule: str, sink: bool, heads: Any) -> None:
    teacher, p, learns = _side(0, 4, 2, 8, sink, **RULES[rule])
    student, q, more = _side(1, 4, 1, 5, sink, **RULES[rule])
    for how in HOWS:
        found = regard.divergence(teacher, student, how=how, heads=heads)
        expected = _expected(p, q, how, heads)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        grad = torch.randn_like(expected)
        for got, want in zip(
            torch.autograd.grad(found, [*learns, *more], grad),
            torch.autograd.grad(expected, [*learns, *more], grad, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def test_a_different_number_of_heads() -> None:
    teacher, p, _ = _side(0, 6, 3, 8, False, mask=regard.Causal())
    student, q, _ = _side(1, 2, 2, 16, False, mask=regard.Causal())
    found = regard.divergence(teacher, student, heads="sum")
    assert found.shape == (2, 1, QUERIES)
    torch.testing.assert_close(found, _expected(p, q, "kl", "sum"))
    with pytest.raises(ShapeError, match="6 heads, the student 2"):
        regard.divergence(teacher, student)
    with pytest.raises(InputError, match="head 6 of the teacher"):
        regard.divergence(teacher, student, heads={0: (1, 6)})


def test_gradcheck_with_an_indexer_for_a_student() -> None:
    torch.manual_seed(5)
    teacher = regard.replay(
        torch.randn(3, 9, 4, dtype=F64), torch.randn(3, 11, 4, dtype=F64), mask=regard.Causal()
    )
    given = [(2, 9, 5), (1, 11, 5), (2, 9)]
    inputs = [torch.randn(size, dtype=F64, requires_grad=True) for size in given]

    def loss(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        student = regard.lightning_indexer(q, k, w, mask=regard.Causal())
        return regard.divergence(teacher, student, heads="sum")

    assert torch.autograd.gradcheck(loss, inputs)


def test_some_of_the_queries() -> None:
    teacher, p, _ = _side(0, 2, 2, 8, False)
    student, q, _ = _side(1, 2, 2, 8, False)
    whole = _expected(p, q, "kl", "each")
    for queries, rows in ((5, slice(-5, None)), (slice(3, 20, 4), slice(3, 20, 4))):
        found = regard.divergence(teacher, student, queries=queries)
        torch.testing.assert_close(found, whole[..., rows])
    found = regard.divergence(teacher, student, queries=torch.tensor([7, 2, 31]))
    torch.testing.assert_close(found, whole[..., [2, 7, 31]])
    with pytest.raises(InputError, match="query 33"):
        regard.divergence(teacher, student, queries=[33])


def test_what_only_one_side_sees() -> None:
    """Infinite by definition, and without harm to the gradient of other rows."""
    torch.manual_seed(2)
    q, k = (torch.randn(1, 1, 40, 8, dtype=F64, requires_grad=True) for _ in range(2))
    wide = regard.replay(q.detach(), k.detach(), mask=regard.Causal())
    narrow = regard.replay(q, k, mask=regard.Window(9))
    found = regard.divergence(wide, narrow)
    assert torch.isfinite(found[..., :10]).all() and torch.isinf(found[..., 10:]).all()
    assert torch.isfinite(regard.divergence(wide, narrow, how="reverse_kl")).all()
    assert (regard.divergence(wide, narrow, how="tv") <= 1).all()
    grads = torch.autograd.grad(found[..., :10].sum(), (q, k))
    assert all(torch.isfinite(grad).all() for grad in grads)


def test_rows_that_see_nothing_count_nothing() -> None:
    torch.manual_seed(3)
    mask = regard.Causal() & regard.Padding([20, 6], queries=[20, 6])
    q, k = (torch.randn(2, 2, 20, 8, requires_grad=True) for _ in range(2))
    student = regard.replay(q, k, mask=mask)
    teacher = regard.replay(torch.randn(2, 2, 20, 8), torch.randn(2, 2, 20, 8), mask=mask)
    for how in HOWS:
        found = regard.divergence(teacher, student, how=how)
        assert (found[1, :, 6:] == 0).all() and (found[1, :, 1:6] > 0).all()
        grads = torch.autograd.grad(found.sum(), (q, k))
        assert all(torch.isfinite(grad).all() for grad in grads)


def test_the_same_attention_is_not_apart() -> None:
    q, k = torch.randn(1, 4, 300, 16), torch.randn(1, 2, 300, 16)
    a = regard.attend(q, k, torch.randn(1, 2, 300, 8), mask=regard.Causal())
    for how in HOWS:
        assert (regard.divergence(a, regard.replay(q, k, mask=regard.Causal()), how=how) == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scores_far_apart(dtype: torch.dtype) -> None:
    """Within four times what the dense formula loses in float32."""
    torch.manual_seed(4)
    q, k, sq, sk = (torch.randn(1, 2, 200, 32).to(dtype) * 6 for _ in range(4))
    found = regard.divergence(
        regard.replay(q, k, mask=regard.Causal()), regard.replay(sq, sk, mask=regard.Causal())
    )

    def dense(precision: torch.dtype) -> Tensor:
        hidden = torch.ones(200, 200, dtype=torch.bool).triu(1)
        u, v = ((a.to(precision) @ b.to(precision).mT / 32**0.5).masked_fill(hidden, -torch.inf)
                .log_softmax(-1) for a, b in ((q, k), (sq, sk)))  # fmt: skip
        return (u.exp() * (u - v)).masked_fill(hidden, 0.0).sum(-1)

    exact = dense(F64)
    lost = (dense(torch.float32) - exact).abs().max()
    assert (found - exact).abs().max() <= 4 * lost


def test_memory_grows_with_keys_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """No strip holds more cells than it may, and all rows are in one."""
    seen = []
    monkeypatch.setattr(engine, "_CELLS", 4 * 700 * 30)
    strips = engine._strips

    def watched(*given: Any) -> Any:
        for here, *both in strips(*given):
            seen.append((here, sum(one.weights.numel() for one in both)))
            yield here, *both

    monkeypatch.setattr(engine, "_strips", watched)
    q, k = torch.randn(1, 2, 700, 8), torch.randn(1, 2, 700, 8)
    sides = [regard.replay(q * n, k, mask=regard.Causal()) for n in (1, 2)]
    regard.divergence(*sides)
    assert max(cells for _, cells in seen) <= 4 * 700 * 30
    assert [here.start for here, _ in seen[1:]] == [here.stop for here, _ in seen[:-1]]
    assert seen[0][1] < seen[-2][1]  # keys that no row of a strip sees are left out


def test_through_torch_compile() -> None:
    torch.manual_seed(6)
    q, k = (torch.randn(1, 2, 40, 8, requires_grad=True) for _ in range(2))
    teacher = torch.randn(1, 2, 40, 8), torch.randn(1, 2, 40, 8)

    def loss(q: Tensor, k: Tensor) -> Tensor:
        student = regard.replay(q, k, mask=regard.Causal())
        wanted = regard.replay(*teacher, mask=regard.Causal())
        return regard.divergence(wanted, student, heads="sum").mean()

    eager = torch.autograd.grad(loss(q, k), (q, k))
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for got, want in zip(torch.autograd.grad(compiled(q, k), (q, k)), eager, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("how", "heads"), [("x", "each"), (3, "each"), (None, "sum")])
def test_what_is_refused(how: Any, heads: Any) -> None:
    a = regard.replay(torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 4))
    with pytest.raises(InputError, match="how="):
        regard.divergence(a, a, how=how, heads=heads)


def test_sides_that_do_not_fit() -> None:
    a = regard.replay(torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 4))
    longer = regard.replay(torch.randn(1, 2, 8, 4), torch.randn(1, 2, 9, 4))
    for teacher, student, heads in (
        (a, longer, "each"), (a, torch.randn(1, 2, 8, 8), "each"), (a, a, "all"), (a, a, {}),
        (a, a, {0: ()}), (a, a, {0: (1, 1)}), ([a, a], a, "sum"), ([], a, "sum"), (a, a, {"x": 1}),
    ):  # fmt: skip
        with pytest.raises(RegardError):
            regard.divergence(teacher, student, heads=heads)  # type: ignore[arg-type]
