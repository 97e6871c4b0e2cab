"""What an Attention holds, for how long, and what it says once its tensors have changed."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from engine.conftest import each_implementation, each_sweep, qkv
from fuzz._answers import ANSWERS
from regard.errors import GradientError, StaleError
from regard.mask import Extent
from regard.score import Bias

REFUSED: dict[str, Callable[[Any], Any]] = {  # a gradient
    "max score": lambda a: a.max_score(),
    "max logit": lambda a: a.max_logit(),
    "distance": lambda a: a.distance(),
    "concentration": lambda a: a.concentration(),
    "pooled": lambda a: a.pooled(2),
    "largest received": lambda a: a.received(how="max"),
}
HELD = ("lse", "sink mass")  # there from the start; of a sink that is not there
QUESTIONS = {name: ask for name, (ask, _) in ANSWERS.items() if name not in HELD} | REFUSED
# whose answers carry no gradient
PLAIN: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "sink mass": lambda a: a.sink_mass().detach(),
}


def attend(implementation: str | None = None, grad: bool = False, **options: Any) -> Any:
    return regard.attend(*qkv(grad=grad), implementation=implementation, **options)


def expect_stale(a: regard.Attention, said: str | None = None) -> None:
    for question in (QUESTIONS | PLAIN).values():
        with pytest.raises(StaleError, match=said):
            question(a)


# ── changed in place ─────────────────────────────────────────────────────────────────────────

WATCHED: dict[str, tuple[str, Callable[[], Any]]] = {
    "a table of booleans": ("mask", lambda: torch.ones(6, 6, dtype=torch.bool)),
    "lengths": ("mask", lambda: regard.Causal() & regard.Padding(torch.tensor([4, 6]))),
    "a bias": ("bias", lambda: torch.zeros(6, 6)),
    "slopes": ("bias", lambda: regard.ALiBi(torch.ones(4))),
    "a sink": ("sink", lambda: torch.zeros(4)),
}


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_every_rule_is_watched(name: str, implementation: str) -> None:
    option, make = WATCHED[name]
    given = make()
    a = attend(implementation, **{option: given})
    a.entropy()
    (inside,) = [given] if isinstance(given, Tensor) else given.arrays()
    inside.add_(1) if inside.dtype != torch.bool else inside.logical_not_()
    expect_stale(a)


@pytest.mark.parametrize("which", [0, 1], ids=["query", "key"])
@each_implementation
def test_query_and_key_are_watched_and_values_are_not(which: int, implementation: str) -> None:
    given = qkv()
    a = regard.attend(*given, implementation=implementation)
    output, entropy = a.output.clone(), a.entropy()
    given[2].zero_()
    assert torch.equal(a.entropy(), entropy) and torch.equal(a.output, output)
    given[which][..., 0, 0] += 1
    expect_stale(a, r"changed in place .* pass clones to attend")
    assert torch.equal(a.output, output) and a.lse.shape == (2, 4, 6), "these are there"


@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "dense", "library", "replay"])
@pytest.mark.parametrize("grad", [False, True])
def test_the_lse_is_watched_that_a_replay_is_given_or_an_attention_gives_away(
    implementation: str | None, grad: bool
) -> None:
    a = attend("cpu" if implementation == "replay" else implementation, grad)
    lse = a.lse.detach()
    if implementation == "replay":
        a = regard.replay(*qkv(grad=grad)[:2], lse)
    a.received()
    lse.add_(1)
    expect_stale(a, "was changed in place")


CHANGED = {
    "entropy": lambda a: a.entropy(),
    "received": lambda a: a.received(),
    "top weights": lambda a: a.top(2).weights,
    "part of the top": lambda a: a.peak().weights,
    "pooled": lambda a: a.pooled(2),
}


@each_implementation
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_answer_is_no_source_of_others(name: str, implementation: str) -> None:
    """It was a copy, or whoever asks again is told."""
    with_call = (regard.Entropy(), regard.Received(), regard.Top(2))
    for summaries in ((), with_call if implementation != "library" else ()):
        a = attend(implementation, summaries=summaries)
        a.top(3)
        answer = CHANGED[name](a)
        right = answer.clone()
        answer.mul_(2)
        try:
            assert torch.equal(CHANGED[name](a), right)
        except StaleError as error:
            assert "an answer of this attention was changed in place" in str(error)
            assert "change a copy" in str(error)


NUMPY: dict[str, tuple[Callable[[], Any], str, Callable[[Any], Any]]] = {
    "a table": (lambda: np.tri(6, dtype=bool), "mask", lambda given: given),
    "lengths": (lambda: np.array([3, 6]), "mask", regard.Padding),
    "numbers in a list": (lambda: [3, 6], "mask", regard.Padding),
    "booleans": (lambda: np.arange(6) < np.array([[3], [6]]), "mask", regard.Padding),
    "ids": (lambda: np.arange(6) // 2, "mask", regard.Documents),
    "a prefix": (lambda: np.array([3, 5]), "mask", regard.Prefix),
    "slopes": (lambda: np.array([0.5, 0.25, 0.1, 1]), "bias", regard.ALiBi),
    "a bias": (lambda: np.eye(6), "bias", lambda given: given),
    "a sink": (lambda: np.array([0.5, 1.0, 0, -1]), "sink", lambda given: given),
}


@pytest.mark.parametrize("kind", NUMPY)
@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_lists_and_arrays_of_numpy_are_copied_by_the_call(kind: str, implementation: str) -> None:
    make, option, wrap = NUMPY[kind]
    array, leaves = make(), qkv(grad=True)
    right, a = (
        regard.attend(*leaves, **{option: wrap(given)}, implementation=implementation)
        for given in (make(), array)
    )
    array[:] = [0] * len(array) if isinstance(array, list) else 0
    torch.testing.assert_close(a.dense(), right.dense())
    torch.testing.assert_close(a.received(), right.received())
    torch.testing.assert_close(a.sink_mass(), right.sink_mass())
    grads = [torch.autograd.grad(x.output.square().sum(), leaves) for x in (a, right)]
    torch.testing.assert_close(*grads)


def test_factors_and_starts_too() -> None:
    q, k, v = qkv(grad=True)
    factor = np.ones(6, np.float32)
    a = regard.attend(q, k, v)
    losses = (a @ factor).square().sum(), a.received(weighted_by=factor).square().sum()
    grads = [torch.autograd.grad(x, q, retain_graph=True)[0] for x in losses]
    factor[:] = 5
    for before, x in zip(grads, losses, strict=True):
        torch.testing.assert_close(torch.autograd.grad(x, q)[0], before)
    starts, packed = np.array([0, 2, 6]), [t[0].transpose(0, 1) for t in (q, k, v)]
    a = regard.attend(*packed, cu_seqlens_q=starts)
    starts[1] = 4
    torch.testing.assert_close(
        a.received(), regard.attend(*packed, cu_seqlens_q=[0, 2, 6]).received()
    )


def test_tensors_of_inference_mode_have_no_versions_and_are_taken_as_they_are() -> None:
    with torch.inference_mode():
        a = attend()
        assert a.entropy().shape == (2, 4, 6)
    assert a.max_logit().shape == (2, 4, 6)


# ── detach, clone, copies, release ───────────────────────────────────────────────────────────


@each_implementation
def test_detach_keeps_the_matrix_and_drops_the_graph(implementation: str) -> None:
    q, k, v = qkv(grad=True)
    a = regard.attend(q, k, v, implementation=implementation)
    a.entropy()
    b = a.detach()
    for question in QUESTIONS.values():
        mine, right = question(b), question(a)
        assert not mine.requires_grad and torch.equal(mine, right.detach())
    assert not b.output.requires_grad and not b.lse.requires_grad
    assert torch.equal(b.output, a.output) and a.output.requires_grad
    with torch.no_grad():
        k.add_(1)
    for late in (b.entropy, b.detach, a.detach):
        with pytest.raises(StaleError):
            late()


@each_implementation
def test_a_clone_shares_nothing_and_survives_changes(implementation: str) -> None:
    given = qkv()
    a = regard.attend(*given, implementation=implementation)
    right = [t.clone() for t in (a.entropy(), a.received(), a.output, a.lse, a.dense())]
    changed, kept = a.clone(), a.clone()
    for tensor in (changed.entropy(), changed.received(), changed.output, changed.lse, *given):
        tensor.zero_()
    mine = kept.entropy(), kept.received(), kept.output, kept.lse, kept.dense()
    assert all(torch.equal(x, y) for x, y in zip(mine, right, strict=True))
    with pytest.raises(StaleError):
        a.clone()


@each_implementation
@pytest.mark.parametrize("how", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_answers_as_the_original(how: Any, implementation: str) -> None:
    given = qkv()
    a = regard.attend(*given, mask=regard.Causal(), implementation=implementation)
    entropy, rows = a.entropy(), a.rows(3)
    b = how(a)
    given[0].mul_(2)
    assert torch.equal(b.entropy(), entropy) and torch.equal(b.rows(3), rows)
    b.lse.add_(1)
    with pytest.raises(StaleError):
        b.received()


def test_release_lets_go_of_everything_but_output_and_lse() -> None:
    q, k, v = qkv()
    a = regard.attend(q, k, v, summaries=(regard.Entropy(),))
    output, lse = a.output, a.lse
    a.release()
    assert torch.equal(a.output, output) and torch.equal(a.lse, lse)
    assert repr(a) == "Attention(released)"
    expect_stale(a, "was released; ask before release")
    held = weakref.ref(q), weakref.ref(k), weakref.ref(v)
    del q, k, v
    assert all(reference() is None for reference in held)


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@each_implementation
@pytest.mark.parametrize(
    "options",
    [{}, {"grad": True}, {"grad": True, "in_backward": (regard.Received(),)}],
    ids=["no gradients", "gradients", "brought by the backward"],
)
def test_nothing_lives_longer_than_the_attention(
    implementation: str, options: dict[str, Any], no_collector: None
) -> None:
    options = dict(options)
    q, k, v = qkv(grad=options.pop("grad", False))
    big = q * 1.0  # kept by the graph and by the attention
    if implementation == "library":
        options = {}
    a = regard.attend(big, k, v, implementation=implementation, **options)
    if q.requires_grad:
        (a.output.sum() + a.entropy().sum()).backward()
    for question in (QUESTIONS | PLAIN).values():
        question(a)
    held = [weakref.ref(t) for t in (a, big, q, k, v, a.output, a.received())]
    del a, big, q, k, v
    assert [reference() is None for reference in held] == [True] * len(held)


@each_implementation
def test_answers_do_not_keep_the_attention_alive(implementation: str, no_collector: None) -> None:
    leaves = qkv(grad=True)
    later = () if implementation == "library" else (regard.Received(),)
    a = regard.attend(*leaves, implementation=implementation, in_backward=later)
    kept = [a.output, a.lse, a.entropy(), a.top(2).weights, a.received(), a.rows(0)]
    dead = weakref.ref(a)
    del a
    assert dead() is None
    total = sum(answer.sum() for answer in kept)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, leaves))


class Ramp(Bias):
    """A class without a tag, around a function."""

    fn: Any

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        return self.fn(i[:, None], j[None, :]).double()


def test_functions_live_as_long_as_somebody_may_ask(no_collector: None) -> None:
    """They are named in the operator's text, and held by whoever may still need them."""
    leaves, held = qkv(grad=True, dtype=torch.float64), []

    def make(implementation: str) -> Any:
        def rule(i: Tensor, j: Tensor) -> Tensor:
            return (i + j) % 3 != 0

        def slope(i: Tensor, j: Tensor) -> Tensor:
            return (i - j) * 0.1

        held.extend([weakref.ref(rule), weakref.ref(slope)])
        options = {"mask": regard.Rule(rule), "bias": Ramp(slope)}
        return regard.attend(*leaves, implementation=implementation, **options)

    losses = []
    for name in ("tiled", "dense"):
        a = make(name)
        losses.append(a.output.square().sum() + a.received().square().sum())
        del a
    gc.collect()
    assert all(one() is not None for one in held[:2]), "the graph of the output needs them"
    torch.testing.assert_close(*(torch.autograd.grad(loss, leaves) for loss in losses))
    losses.clear()
    gc.collect()
    assert all(one() is None for one in held)


@each_sweep
@pytest.mark.parametrize("turned", [False, True])
def test_answers_are_contiguous_and_share_no_memory(implementation: str, turned: bool) -> None:
    """Whoever writes into one changes no other, nor what came in."""
    q, k, v = (torch.randn(2, 9, 4, 8).transpose(1, 2) for _ in range(3))
    q, k, v = (q, k, v) if turned else (t.contiguous() for t in (q, k, v))
    asked = (
        regard.Entropy(), regard.MaxScore(), regard.Distance(), regard.Received(),
        regard.Offsets(), regard.Pooled(4),
    )  # fmt: skip
    a = regard.attend(q, k, v, mask=regard.Causal(), summaries=asked, implementation=implementation)
    held = [a.output, a.lse, *a.summarize(*asked).values(), *a.top(2)]
    assert all(t.is_contiguous() for t in held)
    assert len({t.untyped_storage().data_ptr() for t in (*held, q, k, v)}) == len(held) + 3


# ── gradients are settled when attend is called ──────────────────────────────────────────────


def test_no_gradients_at_attend_means_none_later() -> None:
    leaves = qkv(grad=True)
    with torch.no_grad():
        a = regard.attend(*leaves)
    assert not any(question(a).requires_grad for question in QUESTIONS.values())
    assert not a.output.requires_grad


@each_implementation
def test_no_gradients_while_asking_means_none_for_that_answer(implementation: str) -> None:
    a = attend(implementation, grad=True)
    for question in QUESTIONS.values():
        with torch.no_grad():
            assert not question(a).requires_grad
        assert question(a).requires_grad


@pytest.mark.parametrize("question", REFUSED)
@each_sweep
def test_a_gradient_that_is_not_offered_is_an_error_not_zero(
    question: str, implementation: str
) -> None:
    answer = QUESTIONS[question](attend(implementation, grad=True))
    with pytest.raises(GradientError, match=r"has no gradient here.*implementation='dense'"):
        answer.sum().backward()
    q, k, v = qkv(grad=True)
    QUESTIONS[question](regard.attend(q, k, v, implementation="dense")).sum().backward()
    assert q.grad is not None and q.grad.abs().sum() > 0
