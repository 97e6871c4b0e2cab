"""What an Attention holds, for how long, and what it never computes twice."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.engine.backends.cpu.sweeps import CpuSweeps
from regard.engine.backends.tiled import TiledSweeps
from regard.errors import GradientError, StaleError
from regard.mask import Extent
from regard.score import Bias
from regard.summary import Visible

IMPLEMENTATIONS = pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense", "library"])
SWEEPS = {"cpu": CpuSweeps, "tiled": TiledSweeps}
# what rows and sums over queries take together: the C kernels take both from one row sweep
TOGETHER = {"cpu": {"rows": 1}, "tiled": {"rows": 1, "columns": 1}}
each_sweep = pytest.mark.parametrize("implementation", SWEEPS)


def tensors(grad: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    made = [torch.randn(1, heads, 6, 8) for heads in (4, 2, 2)]
    return [tensor.requires_grad_(grad) for tensor in made]


QUESTIONS = {
    "a cell": lambda a: a[0, 0, 0, 0],
    "scores": lambda a: a.scores[..., 0, :],
    "rows": lambda a: a.rows([0, 1]),
    "dense": lambda a: a.dense(),
    "numpy": np.asarray,
    "entropy": lambda a: a.entropy(),
    "normalized entropy": lambda a: a.entropy(normalized=True),
    "max_score": lambda a: a.max_score(),
    "max_logit": lambda a: a.max_logit(),
    "top": lambda a: a.top(2).weights,
    "peak": lambda a: a.peak().weights,
    "distance": lambda a: a.distance(),
    "concentration": lambda a: a.concentration(),
    "received": lambda a: a.received(),
    "pooled": lambda a: a.pooled(2),
    "summarize": lambda a: a.summarize(regard.Entropy())[regard.Entropy()],
    "product": lambda a: a @ torch.ones(6),
    "transposed product": lambda a: a.T @ torch.ones(6),
}


# ── stale tensors ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("changed", ["query", "key"])
def test_a_question_after_q_or_k_changed_is_refused(question, changed):
    q, k, v = tensors()
    a = regard.attend(q, k, v)
    {"query": q, "key": k}[changed][..., 0, 0] += 1
    with pytest.raises(StaleError, match=r"changed in place .* pass clones to attend"):
        QUESTIONS[question](a)


@IMPLEMENTATIONS
def test_everything_that_defines_the_matrix_is_watched(implementation):
    q, k, v = tensors()
    given: dict[str, dict[str, Any]] = {
        "a table of booleans": {"mask": torch.ones(6, 6, dtype=torch.bool)},
        "lengths": {"mask": regard.Causal() & regard.Padding(torch.tensor([4]))},
        "a bias": {"bias": torch.zeros(6, 6)},
        "slopes": {"bias": regard.ALiBi(torch.ones(4))},
        "a sink": {"sink": torch.zeros(4)},
    }
    if implementation == "library":
        given = {}
    for name, options in given.items():
        a = regard.attend(q, k, v, implementation=implementation, **options)
        a.entropy()
        (inside,) = _arrays(options)
        inside.add_(1) if inside.dtype != torch.bool else inside.logical_not_()
        with pytest.raises(StaleError):
            a.entropy()
            pytest.fail(name)


def _arrays(options: dict[str, Any]) -> list[Tensor]:
    (value,) = options.values()
    return [value] if isinstance(value, Tensor) else list(value.arrays())


@IMPLEMENTATIONS
def test_values_do_not_define_the_matrix(implementation):
    q, k, v = tensors()
    v = torch.randn(1, 2, 6, 8)
    a = regard.attend(q, k, v, implementation=implementation)
    output, entropy = a.output.clone(), a.entropy()
    v.zero_()
    assert torch.equal(a.entropy(), entropy)
    assert torch.equal(a.output, output), "the output was made before"


def test_an_array_typed_in_by_hand_cannot_change():
    q, k, v = tensors()
    lengths = [3]
    a = regard.attend(q, k, v, mask=regard.Padding(lengths))
    lengths[0] = 6
    assert int((a[0, 0, 0] > 0).sum()) == 3


def test_tensors_of_inference_mode_have_no_versions_and_are_taken_as_they_are():
    with torch.inference_mode():
        q, k, v = tensors()
        a = regard.attend(q, k, v)
        assert a.entropy().shape == (1, 4, 6)
    assert a.max_logit().shape == (1, 4, 6)


def test_nothing_needs_to_be_asked_to_read_output_and_lse():
    q, k, v = tensors()
    a = regard.attend(q, k, v)
    q.zero_()
    assert a.output.shape == (1, 4, 6, 8)
    assert a.lse.shape == (1, 4, 6)


# ── detach, clone, release ───────────────────────────────────────────────────────────────────


@IMPLEMENTATIONS
def test_detach_keeps_the_matrix_and_drops_the_graph(implementation):
    q, k, v = tensors(grad=True)
    a = regard.attend(q, k, v, implementation=implementation)
    a.entropy()
    b = a.detach()
    for question in QUESTIONS.values():
        found, expected = question(b), question(a)
        assert not getattr(found, "requires_grad", False)
        assert np.array_equal(np.asarray(found), np.asarray(_plain(expected)))
    assert not b.output.requires_grad and not b.lse.requires_grad
    assert torch.equal(b.output, a.output)
    assert a.output.requires_grad, "the original keeps its own"
    with torch.no_grad():
        k.add_(1)
    for late in (b.entropy, b.detach, a.detach):
        with pytest.raises(StaleError):
            late()


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


@IMPLEMENTATIONS
def test_clone_survives_changes_in_place(implementation):
    q, k, v = tensors()
    a = regard.attend(q, k, v, implementation=implementation)
    expected = a.dense(), a.entropy(), a.received()
    b = a.clone()
    for tensor in (q, k, v):
        tensor.zero_()
    found = b.dense(), b.entropy(), b.received()
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    with pytest.raises(StaleError):
        a.clone()


def test_release_lets_go_of_everything_but_output_and_lse():
    q, k, v = tensors()
    a = regard.attend(q, k, v, summaries=(regard.Entropy(),))
    output, lse = a.output, a.lse
    a.release()
    assert torch.equal(a.output, output) and torch.equal(a.lse, lse)
    assert repr(a) == "Attention(released)"
    for question in QUESTIONS.values():
        with pytest.raises(StaleError, match="was released; ask before release"):
            question(a)
    held = weakref.ref(q), weakref.ref(k), weakref.ref(v)
    del q, k, v
    assert all(reference() is None for reference in held)


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@IMPLEMENTATIONS
@pytest.mark.parametrize("grad", [False, True], ids=["no gradients", "gradients"])
def test_nothing_lives_longer_than_the_attention(implementation, grad, no_collector):
    q, k, v = tensors(grad)
    a = regard.attend(q, k, v, implementation=implementation)
    for question in QUESTIONS.values():
        question(a)
    held = [weakref.ref(t) for t in (a, q, k, v)]
    del a, q, k, v
    assert [reference() is None for reference in held] == [True] * 4


@IMPLEMENTATIONS
def test_answers_do_not_keep_the_attention_alive(implementation, no_collector):
    q, k, v = tensors(grad=True)
    a = regard.attend(q, k, v, implementation=implementation)
    kept = [a.output, a.lse, a.entropy(), a.top(2).weights, a.received(), a.rows(0)]
    dead = weakref.ref(a)
    del a
    assert dead() is None
    total = sum(answer.sum() for answer in kept)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, [q, k, v]))


def test_a_walked_graph_lets_go_of_its_tensors(no_collector):
    q, k, v = tensors(grad=True)
    a = regard.attend(q, k, v)
    loss = a.output.sum() + a.entropy().sum()
    held = [weakref.ref(t) for t in (q, k, v)]
    loss.backward()
    del a, q, k, v, loss
    assert all(reference() is None for reference in held)


def test_a_rule_lives_as_long_as_somebody_may_ask(no_collector):
    """The function is named in the operator's text, and held by whoever may still need it."""
    q, k, v = tensors(grad=True)

    def make() -> tuple[Any, Any]:
        def rule(i, j):
            return i >= j

        a = regard.attend(q, k, v, mask=regard.Rule(rule))
        return a, weakref.ref(rule)

    a, rule = make()
    assert a.entropy().shape == (1, 4, 6)
    output = a.output
    del a
    assert rule() is not None, "the graph of the output needs it"
    output.sum().backward()
    del output
    assert rule() is None


def test_inputs_are_not_copied():
    q, k, v = tensors()
    a = regard.attend(q, k.transpose(0, 0), v)
    held = a._call
    for mine, given in zip((held.query, held.key, held.value), (q, k, v), strict=True):
        assert mine.data_ptr() == given.data_ptr()
    table = torch.zeros(6, 6)
    assert next(regard.attend(q, k, v, bias=table)._call.score.arrays()).data_ptr() == (
        table.data_ptr()
    )


# ── gradients are settled when attend is called ──────────────────────────────────────────────

LEARNING = [name for name in QUESTIONS if name not in ("numpy", "normalized entropy")]


@pytest.mark.parametrize("question", LEARNING)
def test_no_gradients_at_attend_means_none_later(question):
    q, k, v = tensors(grad=True)
    with torch.no_grad():
        a = regard.attend(q, k, v)
    assert not QUESTIONS[question](a).requires_grad
    assert not a.output.requires_grad


@IMPLEMENTATIONS
def test_no_gradients_while_asking_means_none_for_that_answer(implementation):
    q, k, v = tensors(grad=True)
    a = regard.attend(q, k, v, implementation=implementation)
    with torch.no_grad():
        assert not a.entropy().requires_grad
        assert not a.rows(0).requires_grad
        assert not a.received().requires_grad
        assert not a.top(2).weights.requires_grad
    assert a.entropy().requires_grad
    assert a.rows(0).requires_grad
    assert a.received().requires_grad
    assert a.top(2).weights.requires_grad


@pytest.mark.parametrize("question", ["max_score", "max_logit", "distance", "concentration"])
@each_sweep
def test_a_gradient_that_is_not_offered_is_an_error_not_zero(question, implementation):
    q, k, v = tensors(grad=True)
    found = QUESTIONS[question](regard.attend(q, k, v, implementation=implementation))
    assert found.requires_grad
    with pytest.raises(GradientError, match=r"has no gradient here.*implementation='dense'"):
        found.sum().backward()
    exact = QUESTIONS[question](regard.attend(q, k, v, implementation="dense"))
    exact.sum().backward()
    assert q.grad.abs().sum() > 0


def test_pooled_maps_have_no_gradient_here():
    q, k, v = tensors(grad=True)
    for how in ("mean", "max"):
        with pytest.raises(GradientError, match="Pooled has no gradient here"):
            regard.attend(q, k, v).pooled(2, how).sum().backward()


# ── nothing is swept twice ───────────────────────────────────────────────────────────────────


@pytest.fixture
def sweeps(implementation: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each sweep of the implementation ran."""
    counted: Counter[str] = Counter()
    for name in ("rows", "columns", "cells", "backward"):
        original = getattr(SWEEPS[implementation], name)

        def count(self: Any, *given: Any, _name: str = name, _run: Any = original) -> Any:
            counted[_name] += 1
            return _run(self, *given)

        monkeypatch.setattr(SWEEPS[implementation], name, count)
    return counted


EVERYTHING = (
    regard.Entropy(),
    regard.MaxScore(),
    regard.MaxLogit(),
    regard.Concentration(),
    regard.Distance(),
    Visible(),
    regard.Top(4),
    regard.Peak(),
    regard.Pooled(2),
    regard.Pooled(3, "max"),
    regard.Received(),
)


@each_sweep
def test_asking_twice_sweeps_once(implementation, sweeps):
    a = regard.attend(*tensors(), implementation=implementation)
    assert sweeps == {"rows": 1}, "the forward leaves what later sweeps need"
    for _ in range(2):
        a.entropy()
        assert sweeps == {"rows": 2}
    for _ in range(2):
        a.received()
        a.received(groups="sum")
        assert sweeps == {"rows": 2, "columns": 1}
    for _ in range(2):
        a.received(3)
        assert sweeps == {"rows": 2, "columns": 2}


@each_sweep
def test_summaries_given_up_front_cost_no_further_sweep(implementation, sweeps):
    a = regard.attend(*tensors(), implementation=implementation, summaries=EVERYTHING)
    assert sweeps == TOGETHER[implementation]
    a.summarize(*EVERYTHING)
    a.entropy(normalized=True)
    a.top(2), a.top(4), a.peak(), a.received(), a.pooled(2), a.max_score(), a.distance()
    assert sweeps == TOGETHER[implementation]


@each_sweep
def test_several_summaries_share_one_sweep_of_each_kind(implementation, sweeps):
    a = regard.attend(*tensors(), implementation=implementation)
    sweeps.clear()
    a.summarize(*EVERYTHING)
    assert sweeps == TOGETHER[implementation]


@each_sweep
def test_a_smaller_top_and_the_peak_come_out_of_a_larger_one(implementation, sweeps):
    a = regard.attend(*tensors(), implementation=implementation)
    five = a.top(5)
    sweeps.clear()
    three, peak = a.top(3), a.peak()
    assert not sweeps
    assert torch.equal(three.keys, five.keys[..., :3])
    assert torch.equal(peak.weights, five.weights[..., 0])
    a.top(6)
    assert sweeps == {"rows": 1}, "a larger one needs a sweep"


@each_sweep
def test_a_known_entropy_goes_backward_with_the_output_in_one_sweep(implementation, sweeps):
    q, k, v = tensors(grad=True)
    a = regard.attend(q, k, v, implementation=implementation, summaries=(regard.Entropy(),))
    (a.output.sum() + a.entropy().sum() + a.lse.sum()).backward()
    assert sweeps == {"rows": 1, "backward": 1}


@each_sweep
def test_what_is_known_has_the_bits_of_what_is_asked_later(implementation):
    early = regard.attend(*tensors(), implementation=implementation, summaries=EVERYTHING)
    late = regard.attend(*tensors(), implementation=implementation)
    for summary in EVERYTHING:
        known, asked = early.summarize(summary)[summary], late.summarize(summary)[summary]
        known, asked = (x if isinstance(x, tuple) else (x,) for x in (known, asked))
        assert all(torch.equal(x, y) for x, y in zip(known, asked, strict=True)), summary


@each_sweep
def test_gradients_do_not_depend_on_when_a_question_was_asked(implementation):
    found = []
    for summaries in ((), (regard.Entropy(), regard.Top(2), regard.Received())):
        q, k, v = tensors(grad=True)
        a = regard.attend(q, k, v, implementation=implementation, summaries=summaries)
        loss = a.entropy().sum() + a.top(2).weights[..., 0].sum() + a.received().square().sum()
        found.append(torch.autograd.grad(loss, [q, k]))
    for early, late in zip(*found, strict=True):
        torch.testing.assert_close(early, late)


def test_the_library_leaves_no_state_so_the_first_question_sweeps_for_it(monkeypatch):
    q, k, v = tensors()
    v = torch.randn(1, 2, 6, 8)
    counted = Counter()
    original = CpuSweeps.rows

    def count(self, *given):
        counted["rows"] += 1
        return original(self, *given)

    monkeypatch.setattr(CpuSweeps, "rows", count)
    a = regard.attend(q, k, v, implementation="library")
    assert not counted
    a.max_logit()
    a.max_logit()
    assert counted == {"rows": 2}


class _Ramp(Bias):
    """A class without a tag, around a function."""

    fn: Any

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        return self.fn(i[:, None], j[None, :]).double()


def test_functions_stay_as_long_as_gradients_may_be_asked_for():
    def loss(implementation):
        mask = regard.Rule(lambda i, j: (i + j) % 3 != 0)
        bias = _Ramp(lambda i, j: (i - j) * 0.1)
        a = regard.attend(q, k, v, mask=mask, bias=bias, implementation=implementation)
        return a.output.square().sum() + a.received().square().sum()

    dice = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 9, 4, generator=dice, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    )
    found, right = loss("tiled"), loss("dense")
    gc.collect()
    for a, b in zip(*(torch.autograd.grad(one, (q, k, v)) for one in (found, right)), strict=True):
        torch.testing.assert_close(a, b)
