"""The same input gives the same bits: run after run, on any number of threads, in any company, laid
out in any way; and a NaN shows where it is and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.conftest import draw, each_sweep, qkv
from regard.testing import poisoned_memory

each_implementation = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
CAUSAL, F32 = regard.Causal(), torch.float32
QUERIES, KEYS, DIM = 140, 530, 16  # beyond one tile of every implementation, both ways


def tensors(batch: int = 2, queries: int = QUERIES, keys: int = KEYS, dtype: Any = F32) -> Any:
    return qkv(queries, keys, batch=(batch,), dim=DIM, dtype=dtype)


def rows(a: regard.Attention) -> dict[str, Tensor]:
    """What every row says of itself: (batch, heads, rows, …)."""
    top, visible = a.top(5), regard.summary.Visible()
    return {
        "output": a.output, "lse": a.lse, "entropy": a.entropy(), "top weights": top.weights,
        "top keys": top.keys, "max_score": a.max_score(), "max_logit": a.max_logit(),
        "concentration": a.concentration(), "distance": a.distance(),
        "visible": a.summarize(visible)[visible], "weights": a[...], "scores": a.scores[...],
    }  # fmt: skip


def columns(a: regard.Attention) -> dict[str, Tensor]:
    return {
        "received": a.received(), "largest received": a.received(how="max"),
        "weighted": a.received(weighted_by=torch.linspace(-1, 2, a.shape[-2])),
        "pooled": a.pooled(7), "largest": a.pooled(16, "max"),
        "product": a @ torch.linspace(-1, 1, a.shape[-1]),
        "transposed": a.T @ torch.linspace(-1, 1, a.shape[-2]),
    }  # fmt: skip


def expect_same_bits(mine: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert [name for name in right if not torch.equal(mine[name], right[name])] == []


# ── run after run, thread after thread ───────────────────────────────────────────────────────


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
        assert torch.get_num_threads() == count, "the user's count is left alone"
    finally:
        torch.set_num_threads(before)


def everything(implementation: str) -> dict[str, Tensor]:
    a = regard.attend(*tensors(), mask=CAUSAL, implementation=implementation)
    leaves = [t.requires_grad_() for t in tensors()]
    b = regard.attend(*leaves, mask=CAUSAL, implementation=implementation)
    loss = b.output.square().sum() + b.entropy().sum() + b.received().square().sum()
    loss = loss + b.top(3).weights[..., 0].sum() + b[..., 7, :].square().sum()
    grads = dict(zip("qkv", torch.autograd.grad(loss, leaves), strict=True))
    return {**rows(a), **columns(a), **grads}


@pytest.mark.parametrize(
    ("implementation", "count"), [("cpu", 2), ("cpu", 3), ("tiled", 3), ("dense", 1)]
)
def test_run_after_run_on_any_number_of_threads(implementation: str, count: int) -> None:
    with threads(1):
        alone = everything(implementation)
    with threads(count), poisoned_memory():
        expect_same_bits(everything(implementation), alone)


LEARNED: dict[str, Callable[[], tuple[Tensor, Any]]] = {
    "table": lambda: (x := draw(4, 140, 140, dtype=F32).requires_grad_(), x),
    "one row for all": lambda: (x := draw(1, 140, dtype=F32).requires_grad_(), x),
    "slopes": lambda: (x := draw(4, dtype=F32).requires_grad_(), regard.ALiBi(x)),
    "buckets": lambda: (x := draw(32, 4, dtype=F32).requires_grad_(), regard.RelativeBias(x)),
}


@pytest.mark.parametrize("kind", LEARNED)
def test_gradients_of_a_bias_on_any_number_of_threads(kind: str) -> None:
    def run() -> Tensor:
        learned, bias = LEARNED[kind]()
        a = regard.attend(*tensors(keys=140), bias=bias, mask=CAUSAL, implementation="tiled")
        loss = a.output.square().sum() + a.rows([5, 5, 100]).square().sum() + a.top(2)[0].sum()
        return torch.autograd.grad(loss, learned)[0]

    with threads(1):
        alone = run()
    with threads(3):
        assert torch.equal(run(), alone)


@each_sweep
def test_a_summary_says_the_same_whoever_is_asked_with_it(implementation: str) -> None:
    """Known from the forward, asked alone, or asked in company."""
    every = (
        regard.Entropy(), regard.MaxScore(), regard.Concentration(), regard.Distance(),
        regard.Top(5), regard.Pooled(7), regard.Pooled(16, "max"), regard.Received(),
    )  # fmt: skip
    run = {"mask": CAUSAL, "implementation": implementation}
    known = regard.attend(*tensors(1), summaries=every, **run).summarize(*every)
    company = regard.attend(*tensors(1), **run).summarize(*every)
    for summary in every:
        alone = regard.attend(*tensors(1), **run).summarize(summary)[summary]
        for answer in (known[summary], company[summary]):
            assert all(torch.equal(x, y) for x, y in zip(alone, answer, strict=True)), summary


# ── in any company ───────────────────────────────────────────────────────────────────────────

Part = tuple[slice | int, slice, slice, int]  # batch entries, heads, queries, and how many keys
EVERY = slice(None)
COMPANY: dict[str, Part] = {
    "alone": (slice(1, 2), EVERY, EVERY, KEYS),
    "one head": (EVERY, slice(2, 3), EVERY, KEYS),
    **{f"from {n}": (EVERY, EVERY, slice(n, None), KEYS) for n in (1, 100, QUERIES - 1)},
    **{f"{a} to {b}": (EVERY, EVERY, slice(a, b), KEYS - QUERIES + b)
       for a, b in ((0, 100), (100, 101), (101, 128))},
}  # fmt: skip


@each_sweep
@pytest.mark.parametrize("mask", [None, CAUSAL, regard.Window(40)], ids=repr)
def test_in_any_company(implementation: str, mask: Any) -> None:
    """Alone or in a batch, one head or many; the last queries, as in decoding; chunks of a prefill,
    each over the keys up to its own end."""
    q, k, v = tensors()
    run = {"mask": mask, "implementation": implementation}
    whole = rows(regard.attend(q, k, v, **run))
    for name, (entries, heads, queries, keys) in COMPANY.items():
        if mask is None and keys < KEYS:
            continue
        own = slice(1, 2) if name == "one head" else EVERY
        given = q[entries, heads, queries], *(t[entries, own, :keys] for t in (k, v))
        right = {about: x[entries, heads, queries] for about, x in whole.items()}
        for about in ("weights", "scores"):
            right[about] = right[about][..., :keys]
        if mask is None:  # whose distances are counted from the last query
            right.pop("distance") if keys < KEYS else None
        expect_same_bits(rows(regard.attend(*given, **run)), right)


@each_sweep
@pytest.mark.parametrize("length", [1, 64, 129])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_padded_on_the_right_or_not(implementation: str, length: int, causal: bool) -> None:
    """Rubbish behind the end of a sequence changes nothing before it."""
    q, k, v = tensors(keys=QUERIES)
    for tensor in (q, k, v):
        tensor[1, :, length:] = 1e4
    padding = regard.Padding([QUERIES, length])
    run = {"implementation": implementation}
    padded = rows(regard.attend(q, k, v, mask=CAUSAL & padding if causal else padding, **run))
    short = [t[1:2, :, :length] for t in (q, k, v)]
    alone = rows(regard.attend(*short, mask=CAUSAL if causal else None, **run))
    if not causal:  # distances are measured from the end of the keys, which padding moves
        del alone["distance"]
    cut = {name: x[1:2, :, :length] for name, x in padded.items()}
    for name, outside in (("weights", 0.0), ("scores", -torch.inf)):
        assert cut[name][..., length:].unique().tolist() == [outside]
        cut[name] = cut[name][..., :length]
    expect_same_bits(cut, alone)


@each_sweep
def test_a_mask_in_another_form(implementation: str) -> None:
    """Intervals, flags, a rule or a table: which keys are seen is all that matters."""
    q, k, v = tensors(1, keys=QUERIES)
    i, j = torch.arange(QUERIES)[:, None], torch.arange(QUERIES)
    first, *others = (
        rows(regard.attend(q, k, v, mask=mask, implementation=implementation))
        for mask in (
            CAUSAL, regard.Window(None, 0), regard.Rule(lambda i, j: j <= i), j <= i, ~~CAUSAL,
            CAUSAL & regard.Padding(torch.ones(1, QUERIES, dtype=torch.bool)),
        )
    )  # fmt: skip
    for other in others:
        expect_same_bits(other, first)


# ── however the tensors lie in memory ────────────────────────────────────────────────────────

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "tokens before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "columns first": lambda t: t.mT.contiguous().mT,
    "every other number": lambda t: torch.stack([t, t + 1], -1).flatten(-2)[..., ::2],
    "every other token": lambda t: torch.stack([t, t + 1], -2).flatten(2, 3)[:, :, ::2],
    "a slice of something wide": lambda t: torch.cat([t, t, t], -1)[..., DIM : 2 * DIM],
    "off the beginning": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
}


@each_implementation
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(implementation: str, layout: str) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        plain = tensors(1, 70, 70, dtype)
        moved = [LAYOUTS[layout](tensor) for tensor in plain]
        assert all(torch.equal(x, y) for x, y in zip(plain, moved, strict=True))
        run = {"mask": CAUSAL, "implementation": implementation}
        a, b = regard.attend(*moved, **run), regard.attend(*plain, **run)
        if implementation == "dense":  # torch's own product chooses by layout
            torch.testing.assert_close(a.output, b.output)
            continue
        expect_same_bits({**rows(a), **columns(a)}, {**rows(b), **columns(b)})


@each_sweep
def test_expanded_tensors(implementation: str) -> None:
    """One key and value for a whole batch, spread without a copy."""
    q, k, v = (t.requires_grad_() for t in tensors(3, 70, 70))
    leaves = [t.detach().requires_grad_() for t in (q, k[:1], v[:1])]
    spread = [t.expand(3, -1, -1, -1) for t in leaves[1:]]
    run = {"mask": CAUSAL, "implementation": implementation}
    a, b = (regard.attend(q, *keys, **run) for keys in (spread, [t.contiguous() for t in spread]))
    expect_same_bits(rows(a), rows(b))
    mine, right = (
        regard.attend(leaves[0], *spread, mask=CAUSAL, implementation=name).output.square().sum()
        for name in (implementation, "dense")
    )
    grads = (torch.autograd.grad(loss, leaves) for loss in (mine, right))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


# ── ugly numbers ─────────────────────────────────────────────────────────────────────────────


@each_implementation
def test_entropy_survives_scores_of_thirty_thousand(implementation: str) -> None:
    """Each key stands there twice, so a row is torn between two and its entropy is log 2. A
    float32 at 30,000 is 0.002 from the next: one lse for both would spoil the third digit."""
    key = draw(1, 1, 300, DIM, dtype=F32)
    key = torch.cat([key, key], -2)
    query = draw(1, 1, 50, DIM, seed=1, dtype=F32) * 30_000
    a = regard.attend(query, key, key, scale=1.0, implementation=implementation)
    assert a.max_logit().abs().median() > 30_000
    two = torch.full_like(a.entropy(), math.log(2))
    torch.testing.assert_close(a.entropy(), two, rtol=0, atol=2e-6)
    torch.testing.assert_close(a[...].sum(-1), torch.ones(1, 1, 50), rtol=0, atol=2e-6)


@each_implementation
@pytest.mark.parametrize("at", [0, 70, 129])
def test_a_nan_in_a_query_shows_in_its_own_row_only(implementation: str, at: int) -> None:
    """Before others, among them, behind them in another block of rows."""
    q, k, v = tensors(1, 130, 130)
    clean = regard.attend(q, k, v, mask=CAUSAL, implementation=implementation)
    q = q.clone()
    q[0, 1, at, 3] = torch.nan
    a = regard.attend(q, k, v, mask=CAUSAL, implementation=implementation)
    rest = torch.ones(1, 4, 130, dtype=torch.bool)
    rest[0, 1, at] = False
    mine, right = rows(a), rows(clean)
    for name in mine:
        assert torch.equal(mine[name][rest], right[name][rest]), name
        if name not in ("top keys", "visible"):
            row = mine[name][0, 1, at]
            assert (row[: at + 1] if name in ("weights", "scores") else row).isnan().all(), name
    for mass in (a.received(), a.received(how="max")):
        assert mass[0, 1, : at + 1].isnan().all() and not mass[0, [0, 2, 3]].isnan().any()


@each_implementation
@pytest.mark.parametrize("at", [0, 1, 66])
def test_a_nan_in_a_key_shows_in_every_row_that_sees_it(implementation: str, at: int) -> None:
    q, k, v = tensors(1, 130, 130)
    k[:, :, at] = torch.nan
    a = regard.attend(q, k, v, mask=regard.Window(9), implementation=implementation)
    sees = torch.zeros(130, dtype=torch.bool)
    sees[at : at + 10] = True
    mine = rows(a)
    for name in ("output", "lse", "entropy", "concentration", "distance", "max_score"):
        shows = mine[name].isnan()
        shows = shows.all(-1) if name == "output" else shows
        assert torch.equal(shows, sees.expand(1, 4, 130)), name
    assert torch.equal(mine["visible"][0, 0], torch.arange(1, 131).clamp(max=10)), "it is a key"
    only = regard.Rule(lambda i, j: j == at)
    a = regard.attend(q, k, v, mask=only, implementation=implementation)
    assert a.output.isnan().all() and a.lse.isnan().all(), "no row is empty"


HIDING: dict[str, Callable[[], Any]] = {
    "padding": lambda: regard.Padding([50]),
    "scattered": lambda: regard.Padding((torch.arange(130) < 50)[None] & (torch.arange(130) != 9)),
    "a table": lambda: (torch.arange(130) < 50).expand(130, 130),
    "a rule": lambda: regard.Rule(lambda i, j: (j < 50) & (i == i)),
}


@each_implementation
@pytest.mark.parametrize("name", HIDING)
def test_rubbish_in_hidden_keys_does_not_reach_the_statistics(
    implementation: str, name: str
) -> None:
    q, k, v = tensors(1, 130, 130)
    run = {"mask": HIDING[name](), "implementation": implementation}
    clean = regard.attend(q, k, v, **run)
    k = k.clone()
    k[:, :, 50:] = torch.tensor([torch.nan, torch.inf]).repeat(40)[:, None]
    dirty = regard.attend(q, k, v, **run)
    expect_same_bits({**rows(dirty), **columns(dirty)}, {**rows(clean), **columns(clean)})
