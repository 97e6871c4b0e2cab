"""What an answer costs: as few sweeps over the matrix as possible, and none for what is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from engine.conftest import each_sweep, qkv
from regard.engine.backends.tiled import tile
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

MASS, COUNTED, LARGEST, LAST = Received(), Received(per="visible"), Received(how="max"), Received(3)
MAP, MAXIMA = Pooled(4), Pooled(3, "max")
NUMBERS = (Entropy(), MaxScore(), MaxLogit(), Concentration(), Distance(), Visible())
EVERYTHING = (*NUMBERS, Top(4), Peak(), MAP, MAXIMA, MASS, COUNTED, Offsets())
ROWS, COLUMNS, BOTH = {"rows": 1}, {"columns": 1}, {"rows": 1, "columns": 1}
# the C kernels bring sums over queries with the rows, tiles in a sweep of their own
TOGETHER = {"cpu": ROWS, "tiled": BOTH}

# with the call → what is asked afterwards, one after the other, each with what it costs
ASKED: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "nothing": [((), ROWS)],
    "twice": [((), ROWS), ((Entropy(),), ROWS), ((Entropy(),), {}), ((MASS,), COLUMNS),
              ((MASS,), {}), ((Received(groups="sum"), Received(groups="mean")), {}),
              ((LAST,), COLUMNS), ((LAST,), {})],
    "everything with the call": [(EVERYTHING, TOGETHER), (EVERYTHING, {}), ((Top(2), Peak()), {})],
    "everything at once": [((), ROWS), (EVERYTHING, TOGETHER), (EVERYTHING, {})],
    "rows and mass": [((Entropy(), MASS), TOGETHER), ((MASS, Entropy()), {})],
    "mass alone": [((MASS,), TOGETHER), ((Received(groups="sum"),), {})],
    "each alone": [((), ROWS), ((MASS,), COLUMNS), ((MAP,), ROWS)],
    "mass is known": [((MASS,), TOGETHER), ((MASS, MAP), ROWS)],
    "the map is known": [((MAP,), ROWS), ((MASS, MAP), COLUMNS)],
    "counts come later": [((MASS, MAP), TOGETHER), ((COUNTED,), COLUMNS)],
    "the largest with the mass": [((), ROWS), ((MASS, LARGEST), COLUMNS)],
    "some queries apart": [((), ROWS), ((LAST, MAP), BOTH)],
    "weighted ones apart": [((), ROWS), ((Weighted(MASS, torch.ones(6)), MASS), {"columns": 2})],
    "diagonals bring the mass": [((Offsets(), MAP), TOGETHER), ((Offsets(), MAP, MASS), {})],
    "a larger top holds smaller ones": [((Top(4),), ROWS), ((Peak(), Top(2), Top(4)), {}),
                                        ((Top(5),), ROWS)],
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
@each_sweep
def test_a_question_costs_what_is_not_known(name: str, implementation: str, sweeps: Any) -> None:
    (with_call, first), *later = ASKED[name]
    given = qkv(6, 9, dtype=torch.float64)
    right = regard.attend(*given, mask=regard.Causal(), implementation="dense")
    a = regard.attend(
        *given, mask=regard.Causal(), summaries=with_call, implementation=implementation
    )
    assert sweeps == first.get(implementation, first)
    for asked, cost in later:
        sweeps.clear()
        answers = a.summarize(*asked)
        assert sweeps == cost.get(implementation, cost), asked
        for summary, wanted in right.summarize(*asked).items():
            torch.testing.assert_close(answers[summary], wanted, rtol=1e-10, atol=1e-12)


@each_sweep
def test_the_backward_is_one_sweep(implementation: str, sweeps: Any) -> None:
    a = regard.attend(*qkv(grad=True), implementation=implementation, summaries=(Entropy(),))
    (a.output.sum() + a.entropy().sum() + a.lse.sum()).backward()
    assert sweeps == {"rows": 1, "backward": 1}


def test_the_library_leaves_no_state_so_the_first_question_sweeps_for_it(sweeps: Any) -> None:
    a = regard.attend(*qkv(), implementation="library")
    assert not sweeps
    a.max_logit(), a.max_logit()
    assert sweeps == {"rows": 2}


@each_sweep
def test_gradients_do_not_depend_on_when_a_question_was_asked(implementation: str) -> None:
    asked = (Entropy(), Top(2), Received(), MAP)
    grads = []
    for known in ((), asked, asked[2:]):
        leaves = qkv(grad=True)
        a = regard.attend(*leaves, implementation=implementation, summaries=known)
        a.summarize(*asked)
        loss = a.entropy().sum() + a.top(2).weights[..., 0].sum() + a.received().square().sum()
        grads.append(torch.autograd.grad(loss, leaves[:2]))
    for others in grads[1:]:
        torch.testing.assert_close(others, grads[0])


# ── tiles that nobody sees ───────────────────────────────────────────────────────────────────


def test_only_tiles_within_packed_sequences_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Σ Lq·Lk and not the square of all tokens, for every sweep over tiles."""
    scored, score = [], tile.score_tile
    monkeypatch.setattr(
        tile, "score_tile", lambda *args, **more: scored.append(args[1:3]) or score(*args, **more)
    )
    each, count = 512, 6
    q = torch.randn(each * count, 1, 8)
    starts = torch.arange(0, each * count + 1, each)
    a = regard.attend(q, q, q, mask=regard.Causal(), implementation="tiled", cu_seqlens_q=starts)
    a.received()
    assert len(scored) == 2 * each // tile.ROWS * count, "rows and columns"


@pytest.mark.parametrize("part", [64, slice(10, 50), slice(-90, -20), range(100, 120)], ids=str)
def test_of_a_few_queries_no_other_row_is_looked_at(part: Any) -> None:
    query, key, _ = qkv(400, 420)
    rows = torch.arange(400)[-part:] if isinstance(part, int) else torch.arange(400)[
        slice(part.start, part.stop)
    ]  # fmt: skip
    alone = torch.full_like(query, torch.nan)
    alone[:, :, rows] = query[:, :, rows]
    answers = regard.attend(alone, key, key, mask=regard.Causal()).received(part)
    right = regard.attend(query, key, key, mask=regard.Causal()).received(part)
    assert answers.isfinite().all() and torch.equal(answers, right)


# ── mass that the backward brings ────────────────────────────────────────────────────────────

LATER: dict[str, Any] = {"in_backward": (Received(),), "mask": regard.Causal()}


@each_sweep
def test_asked_before_the_backward_it_is_swept_and_stays(implementation: str, sweeps: Any) -> None:
    a = regard.attend(*qkv(grad=True), implementation=implementation, **LATER)
    before = a.received().detach()
    a.output.sum().backward()
    assert torch.equal(a.received(), before)
    assert sweeps == {"rows": 1, "columns": 1, "backward": 1}


WAYS = {
    "output": lambda a: a.output.sum(),
    "lse": lambda a: a.lse.sum(),
    "entropy": lambda a: a.entropy().sum(),
    "all of them": lambda a: a.output.sum() + a.lse.sum() + a.entropy().sum(),
    "a few numbers": lambda a: a.output[0, 0, 3, 1],
}


@each_sweep
@pytest.mark.parametrize("way", WAYS)
def test_whatever_goes_backward_brings_it(implementation: str, way: str, sweeps: Any) -> None:
    given, known = qkv(grad=True), {"summaries": (Entropy(),), "implementation": implementation}
    a = regard.attend(*given, **known, **LATER)
    plain = regard.attend(*given, **known, mask=regard.Causal())
    mine, theirs = (
        torch.autograd.grad(WAYS[way](one), given, allow_unused=True) for one in (a, plain)
    )
    assert all(x is y or torch.equal(x, y) for x, y in zip(mine, theirs, strict=True))
    assert torch.equal(a.received(), plain.received())
    assert sweeps["columns"] == 1, "that of the plain one"


def test_a_backward_that_does_not_pass_brings_nothing(sweeps: Any) -> None:
    """An entropy asked for afterwards has a graph of its own; without gradients none is there."""
    given = qkv(grad=True)
    right = regard.attend(*given, mask=regard.Causal(), implementation="dense").received()
    a = regard.attend(*given, implementation="cpu", **LATER)
    a.entropy().sum().backward()
    with torch.no_grad():
        off = regard.attend(*given, **LATER)
    for one in (a, off, regard.attend(*(t.detach() for t in given), **LATER)):
        torch.testing.assert_close(one.received(), right)
    assert sweeps["columns"] == 3


def test_several_in_one_graph_and_a_graph_walked_twice(sweeps: Any) -> None:
    """Other masks, learned biases and sinks, dropout, layers of regard's own."""
    given, sink = qkv(grad=True), torch.zeros(4, requires_grad=True)
    learned = {"bias": torch.randn(4, 6, 6, requires_grad=True), "sink": sink, "softcap": 3.0}
    learned["implementation"] = "tiled"
    several = [
        regard.attend(*given, **LATER | options)
        for options in ({}, {"mask": regard.Window(5)}, learned, learned | {"dropout": 0.5})
    ]
    several.append(regard.nn.MultiHeadAttention(16, 4).look(torch.randn(2, 20, 16), **LATER))
    loss = sum(a.output.square().sum() for a in several)
    for _ in range(2):
        loss.backward(retain_graph=True)
        for a in several:
            torch.testing.assert_close(a.received().detach(), a.dense().sum(-2).detach())
    assert sweeps["columns"] == 0


def test_known_from_the_backward_it_has_a_gradient() -> None:
    q, k, v = qkv(grad=True)
    a = regard.attend(q, k, v, implementation="cpu", **LATER)
    a.output.sum().backward()
    right = regard.attend(q, k, v, mask=regard.Causal(), implementation="dense")
    grads = [
        torch.autograd.grad(one.received(groups="mean").square().sum(), [q, k])
        for one in (a, right)
    ]
    torch.testing.assert_close(*grads)
    with torch.no_grad():
        assert not a.received().requires_grad


def test_where_gradients_exist_an_own_implementation_brings_it() -> None:
    q, k, v = qkv(grad=True)  # few queries: torch's operator is faster
    assert regard.attend(q, k, v).implementation == "library"
    assert regard.attend(q, k, v, **LATER).implementation == "cpu"
    with torch.no_grad():
        assert regard.attend(q, k, v, **LATER).implementation == "library"
    with pytest.raises(regard.errors.UnavailableError, match="it measures nothing on the way"):
        regard.attend(q, k, v, implementation="library", **LATER)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_brings_it_when_it_runs_again(reentrant: bool, sweeps: Any) -> None:
    given, kept = qkv(grad=True), []

    def layer(*inside: torch.Tensor) -> torch.Tensor:
        kept.append(regard.attend(*inside, **LATER))
        return kept[-1].output

    torch.utils.checkpoint.checkpoint(layer, *given, use_reentrant=reentrant).sum().backward()
    sweeps.clear()
    # a layer run again in full has gradients the second time, one run again in part the first
    assert kept[-1 if reentrant else 0].received().shape == (2, 4, 6) and not sweeps
    for a in kept:
        torch.testing.assert_close(a.received().detach(), a.dense().sum(-2).detach())


def test_where_tensors_are_held_back_nothing_is_left_to_the_backward(sweeps: Any) -> None:
    """A mode may make others of them."""

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func(*args, **(kwargs or {}))

    with Mode():
        a = regard.attend(*qkv(grad=True), implementation="tiled", **LATER)
    a.output.sum().backward()
    torch.testing.assert_close(a.received().detach(), a.dense().sum(-2).detach())
    assert sweeps["columns"] == 1
