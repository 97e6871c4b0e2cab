"""The same input gives the same bits: run after run, on any number of threads, in any company."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.summary import Visible
from regard.testing import poisoned_memory

each_sweep = pytest.mark.parametrize("implementation", ["cpu", "tiled"])
each_implementation = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
TOKENS, HEADS, KEY_HEADS, DIM = 330, 4, 2, 16  # beyond one tile of every implementation's rows


def tensors(batch: int = 2, tokens: int = TOKENS, dtype: torch.dtype = torch.float32) -> Any:
    dice = torch.Generator().manual_seed(0)
    return [
        torch.randn(batch, heads, tokens, DIM, generator=dice).to(dtype)
        for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    ]


def answers(a: regard.Attention) -> dict[str, Tensor]:
    """What every row says of itself: (batch, heads, rows, …)."""
    top = a.top(5)
    return {
        "output": a.output,
        "lse": a.lse,
        "entropy": a.entropy(),
        "top weights": top.weights,
        "top keys": top.keys,
        "max_score": a.max_score(),
        "max_logit": a.max_logit(),
        "concentration": a.concentration(),
        "distance": a.distance(),
        "visible": a.summarize(Visible())[Visible()],
        "weights": a[...],
        "scores": a.scores[...],
    }


def expect_same_bits(found: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    different = [name for name in right if not torch.equal(found[name], right[name])]
    assert not different


def columns(a: regard.Attention) -> dict[str, Tensor]:
    return {
        "received": a.received(),
        "pooled": a.pooled(7),
        "largest": a.pooled(16, "max"),
        "product": a @ torch.linspace(-1, 1, a.shape[-1]),
        "transposed": a.T @ torch.linspace(-1, 1, a.shape[-2]),
    }


def gradients(implementation: str) -> dict[str, Tensor]:
    leaves = [t.requires_grad_() for t in tensors()]
    a = regard.attend(*leaves, mask=regard.Causal(), implementation=implementation)
    loss = a.output.square().sum() + a.entropy().sum() + a.received().square().sum()
    loss = loss + a.top(3).weights[..., 0].sum() + a[..., 7, :].square().sum()
    return dict(zip("qkv", torch.autograd.grad(loss, leaves), strict=True))


# ── run after run, thread after thread ───────────────────────────────────────────────────────


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def everything(implementation: str) -> dict[str, Tensor]:
    a = regard.attend(*tensors(), mask=regard.Causal(), implementation=implementation)
    return {**answers(a), **columns(a), **gradients(implementation)}


@each_implementation
def test_run_after_run(implementation):
    first = everything(implementation)
    with poisoned_memory():
        expect_same_bits(everything(implementation), first)


# with as many threads as cores, the many small steps of "tiled" wait for whoever else computes
@pytest.mark.parametrize(("implementation", "count"), [("cpu", 2), ("cpu", 3), ("tiled", 3)])
def test_any_number_of_threads(implementation, count):
    with threads(1):
        alone = everything(implementation)
    with threads(count):
        expect_same_bits(everything(implementation), alone)


@pytest.mark.parametrize("kind", ["table", "one row for all", "slopes", "buckets"])
def test_gradients_of_a_bias_on_any_number_of_threads(kind):
    def run() -> Tensor:
        dice = torch.Generator().manual_seed(2)
        draw = lambda *shape: torch.randn(shape, generator=dice).requires_grad_()  # noqa: E731
        learned, bias = {
            "table": lambda: (x := draw(HEADS, TOKENS, TOKENS), x),
            "one row for all": lambda: (x := draw(1, TOKENS), x),
            "slopes": lambda: (x := draw(HEADS), regard.ALiBi(x)),
            "buckets": lambda: (x := draw(32, HEADS), regard.RelativeBias(x)),
        }[kind]()
        a = regard.attend(*tensors(), bias=bias, mask=regard.Causal(), implementation="tiled")
        loss = a.output.square().sum() + a.rows([5, 5, 200]).square().sum() + a.top(2)[0].sum()
        return torch.autograd.grad(loss, learned)[0]

    with threads(1):
        alone = run()
    with threads(3):
        assert torch.equal(run(), alone)


def test_the_number_of_threads_is_left_alone():
    with threads(2):
        regard.attend(*tensors(1, 40)).entropy()
        assert torch.get_num_threads() == 2


@each_sweep
def test_a_summary_says_the_same_whoever_is_asked_with_it(implementation):
    """Known from the forward, asked alone, or asked in company."""
    every = (
        regard.Entropy(), regard.MaxScore(), regard.Concentration(), regard.Distance(),
        regard.Top(5), regard.Pooled(7), regard.Received(),
    )  # fmt: skip
    run = {"mask": regard.Causal(), "implementation": implementation}
    known = regard.attend(*tensors(), summaries=every, **run).summarize(*every)
    company = regard.attend(*tensors(), **run).summarize(*every)
    for summary in every:
        alone = regard.attend(*tensors(), **run).summarize(summary)[summary]
        for found in (known[summary], company[summary]):
            pairs = zip(alone, found, strict=True)
            assert all(torch.equal(x, y) for x, y in pairs), summary


# ── in any company ───────────────────────────────────────────────────────────────────────────


@each_sweep
@pytest.mark.parametrize("mask", [None, regard.Causal(), regard.Window(40)], ids=repr)
def test_alone_or_in_a_batch(implementation, mask):
    q, k, v = tensors(3)
    run = {"mask": mask, "implementation": implementation}
    batch = answers(regard.attend(q, k, v, **run))
    alone = answers(regard.attend(*(t[1:2] for t in (q, k, v)), **run))
    expect_same_bits({name: x[1:2] for name, x in batch.items()}, alone)


@each_sweep
def test_one_head_or_many(implementation):
    q, k, v = tensors()
    run = {"mask": regard.Causal(), "implementation": implementation}
    many = answers(regard.attend(q, k, v, **run))
    one = answers(regard.attend(q[:, 2:3], k[:, 1:2], v[:, 1:2], **run))
    expect_same_bits({name: x[:, 2:3] for name, x in many.items()}, one)


@each_sweep
@pytest.mark.parametrize("length", [1, 64, 257])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_padded_on_the_right_or_not(implementation, length, causal):
    """Rubbish behind the end of a sequence changes nothing before it."""
    q, k, v = tensors()
    for tensor in (q, k, v):
        tensor[1, :, length:] = 1e4
    padding = regard.Padding([TOKENS, length])
    mask = regard.Causal() & padding if causal else padding
    run = {"implementation": implementation}
    padded = answers(regard.attend(q, k, v, mask=mask, **run))
    short = [t[1:2, :, :length] for t in (q, k, v)]
    alone = answers(regard.attend(*short, mask=regard.Causal() if causal else None, **run))
    # distances are measured from the end of the keys, which padding moves
    if not causal:
        del alone["distance"]
    cut = {name: x[1:2, :, :length] for name, x in padded.items()}
    for name in ("weights", "scores"):
        assert torch.equal(cut[name][..., length:].unique(), _outside(name, length))
        cut[name] = cut[name][..., :length]
    expect_same_bits(cut, alone)


def _outside(name: str, length: int) -> Tensor:
    return torch.tensor([0.0 if name == "weights" else -torch.inf])


@each_sweep
@pytest.mark.parametrize("start", [1, 100, 329])
def test_chunks_of_queries_as_in_decoding(implementation, start):
    """The last queries over all keys so far: the last one stands at the last key."""
    q, k, v = tensors()
    run = {"mask": regard.Causal(), "implementation": implementation}
    whole = answers(regard.attend(q, k, v, **run))
    last = answers(regard.attend(q[..., start:, :], k, v, **run))
    expect_same_bits(last, {name: x[:, :, start:] for name, x in whole.items()})


@each_sweep
def test_chunks_of_a_prefill(implementation):
    """Queries in chunks, each over the keys up to its own end."""
    q, k, v = tensors()
    run = {"mask": regard.Causal(), "implementation": implementation}
    whole = answers(regard.attend(q, k, v, **run))
    for start, end in ((0, 100), (100, 101), (101, 290), (290, TOKENS)):
        part = regard.attend(q[..., start:end, :], k[..., :end, :], v[..., :end, :], **run)
        found = answers(part)
        right = {name: x[:, :, start:end] for name, x in whole.items()}
        for name in ("weights", "scores"):
            right[name] = right[name][..., :end]
        expect_same_bits(found, right)


@each_sweep
def test_a_mask_in_another_form(implementation):
    """Intervals, flags, a rule or a table: which keys are seen is all that matters."""
    q, k, v = tensors(1)
    i, j = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)
    forms = [
        regard.Causal(),
        regard.Window(None, 0),
        regard.Rule(lambda i, j: j <= i),
        j <= i,
        ~~regard.Causal(),
        regard.Causal() & regard.Padding(torch.ones(1, TOKENS, dtype=torch.bool)),
    ]
    first, *others = (
        answers(regard.attend(q, k, v, mask=mask, implementation=implementation)) for mask in forms
    )
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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_any_layout(implementation, layout, dtype):
    plain = tensors(2, 70, dtype)
    moved = [LAYOUTS[layout](tensor) for tensor in plain]
    assert all(torch.equal(x, y) for x, y in zip(plain, moved, strict=True))
    run = {"mask": regard.Causal(), "implementation": implementation}
    a, b = regard.attend(*moved, **run), regard.attend(*plain, **run)
    if implementation == "dense":  # torch's own product chooses by layout
        torch.testing.assert_close(a.output, b.output)
        return
    expect_same_bits(answers(a), answers(b))
    expect_same_bits(columns(a), columns(b))


@each_sweep
def test_expanded_tensors(implementation):
    """One key and value for a whole batch, spread without a copy."""
    q, k, v = tensors(3, 70)
    spread = [t[:1].expand(3, -1, -1, -1) for t in (k, v)]
    run = {"mask": regard.Causal(), "implementation": implementation}
    found = answers(regard.attend(q, *spread, **run))
    expect_same_bits(found, answers(regard.attend(q, *(t.contiguous() for t in spread), **run)))
    leaves = [t.detach().requires_grad_() for t in (q, k[:1], v[:1])]
    wide = [leaves[0], *(t.expand(3, -1, -1, -1) for t in leaves[1:])]
    found = torch.autograd.grad(regard.attend(*wide, **run).output.square().sum(), leaves)
    right = regard.attend(*wide, mask=regard.Causal(), implementation="dense")
    for mine, exact in zip(
        found, torch.autograd.grad(right.output.square().sum(), leaves), strict=True
    ):
        torch.testing.assert_close(mine, exact, rtol=1e-4, atol=1e-4)


# ── ugly numbers ─────────────────────────────────────────────────────────────────────────────


@each_implementation
def test_entropy_survives_scores_of_thirty_thousand(implementation):
    """Each key stands there twice, so a row is torn between two and its entropy is log 2. A
    float32 at 30,000 is 0.002 from the next: one lse for both would spoil the third digit."""
    torch.manual_seed(0)
    key = torch.randn(1, 1, 300, DIM)
    key = torch.cat([key, key], -2)
    query = torch.randn(1, 1, 50, DIM) * 30_000
    a = regard.attend(query, key, key, scale=1.0, implementation=implementation)
    assert a.max_logit().abs().median() > 30_000
    exact = regard.attend(
        query.double(), key.double(), key.double(), scale=1.0, implementation="dense"
    )
    torch.testing.assert_close(a.entropy().double(), exact.entropy(), rtol=0, atol=2e-6)
    torch.testing.assert_close(
        a.entropy(), torch.full_like(a.entropy(), math.log(2)), rtol=0, atol=2e-6
    )
    torch.testing.assert_close(a[...].sum(-1), torch.ones(1, 1, 50), rtol=0, atol=2e-6)


@each_implementation
def test_a_nan_in_a_query_shows_in_its_own_row_only(implementation):
    q, k, v = tensors(1, 130)
    q[0, 1, 70, 3] = torch.nan
    a = regard.attend(q, k, v, mask=regard.Causal(), implementation=implementation)
    clean = q.clone()
    clean[0, 1, 70, 3] = 0.0
    b = regard.attend(clean, k, v, mask=regard.Causal(), implementation=implementation)
    rest = torch.ones(1, HEADS, 130, dtype=torch.bool)
    rest[0, 1, 70] = False
    found, right = answers(a), answers(b)
    for name in found:
        assert torch.equal(found[name][rest], right[name][rest]), name
        if name in ("top keys", "visible"):
            continue
        row = found[name][0, 1, 70]
        row = row[..., :71] if name in ("weights", "scores") else row
        assert row.isnan().all(), name
    assert a.received()[0, 1, :71].isnan().all()
    assert not a.received()[0, [0, 2, 3]].isnan().any()


@each_implementation
@pytest.mark.parametrize("row", [0, 1, 66])
def test_a_nan_in_a_key_shows_in_every_row_that_sees_it(implementation, row):
    q, k, v = tensors(1, 130)
    k[:, :, row] = torch.nan
    a = regard.attend(q, k, v, mask=regard.Window(9), implementation=implementation)
    sees = torch.zeros(130, dtype=torch.bool)
    sees[row : row + 10] = True
    found = answers(a)
    for name in ("output", "lse", "entropy", "concentration", "distance", "max_score"):
        shows = found[name].isnan()
        shows = shows.all(-1) if name == "output" else shows
        assert torch.equal(shows, sees.expand(1, HEADS, 130)), name
    assert torch.equal(found["visible"][0, 0], torch.arange(1, 131).clamp(max=10)), (
        "a NaN is a key that may be seen"
    )


@each_implementation
def test_a_row_whose_only_key_is_nan_is_not_empty(implementation):
    q, k, v = tensors(1, 80)
    k[:, :, 33] = torch.nan
    only = regard.Rule(lambda i, j: j == 33)
    a = regard.attend(q, k, v, mask=only, implementation=implementation)
    assert a.output.isnan().all() and a.lse.isnan().all()


MASKS: dict[str, Callable[[], Any]] = {
    "padding": lambda: regard.Padding([50]),
    "scattered": lambda: regard.Padding((torch.arange(130) < 50)[None] & (torch.arange(130) != 9)),
    "a table": lambda: (torch.arange(130) < 50).expand(130, 130),
    "a rule": lambda: regard.Rule(lambda i, j: (j < 50) & (i == i)),
}


@each_implementation
@pytest.mark.parametrize("name", MASKS)
def test_rubbish_in_hidden_keys_does_not_reach_the_statistics(implementation, name):
    q, k, v = tensors(1, 130)
    run = {"mask": MASKS[name](), "implementation": implementation}
    clean = regard.attend(q, k, v, **run)
    k = k.clone()
    hidden = torch.arange(130) >= 50
    k[:, :, hidden] = torch.tensor([torch.nan, torch.inf]).repeat(40)[:, None]
    dirty = regard.attend(q, k, v, **run)
    expect_same_bits(answers(dirty), answers(clean))
    expect_same_bits(columns(dirty), columns(clean))
