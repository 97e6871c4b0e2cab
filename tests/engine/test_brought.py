"""`in_backward`: what a backward brings, when it is known, and that nothing else changes."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import regard
from installed import needs_one_graph
from regard.engine.backends.cpu.sweeps import CpuSweeps
from regard.engine.backends.tiled import TiledSweeps
from regard.engine.call import Brought
from regard.engine.ops import _EXPECTED, bringing
from regard.errors import InputError, UnavailableError

LATER: dict[str, Any] = {"in_backward": (regard.Received(),)}
SWEEPS = {"cpu": CpuSweeps, "tiled": TiledSweeps}
each_sweep = pytest.mark.parametrize("implementation", SWEEPS)


def tensors(tokens: int = 70, heads: tuple[int, int] = (4, 2)) -> list[Tensor]:
    dice = torch.Generator().manual_seed(0)
    sizes = [(2, heads[0], tokens, 8), (2, heads[1], tokens, 8), (2, heads[1], tokens, 5)]
    return [torch.randn(size, generator=dice).requires_grad_() for size in sizes]


def right(*given: Tensor, **options: Any) -> Tensor:
    """Straight from the definition."""
    with torch.no_grad():
        return regard.attend(*given, implementation="dense", **options).received()


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each sweep ran, whoever's."""
    counted: Counter[str] = Counter()
    for kind in SWEEPS.values():
        for name in ("rows", "columns", "backward"):
            original = getattr(kind, name)

            def count(self: Any, *given: Any, _name: str = name, _run: Any = original) -> Any:
                counted[_name] += 1
                return _run(self, *given)

            monkeypatch.setattr(kind, name, count)
    return counted


# ── when it is known ─────────────────────────────────────────────────────────────────────────


@each_sweep
@pytest.mark.parametrize("joined", [None, "sum", "mean"])
def test_after_the_backward_no_column_is_swept(
    implementation: str, joined: Any, sweeps: Counter[str]
) -> None:
    given = tensors()
    asked = regard.Received(groups=joined)
    a = regard.attend(
        *given, mask=regard.Causal(), in_backward=asked, implementation=implementation
    )
    a.output.square().sum().backward()
    for _ in range(2):
        found = a.received(groups=joined)
    assert sweeps == {"rows": 1, "backward": 1}
    exact = regard.attend(*given, mask=regard.Causal(), implementation="dense")
    torch.testing.assert_close(found, exact.received(groups=joined))


@each_sweep
def test_without_being_asked_for_it_is_not_measured(
    implementation: str, sweeps: Counter[str]
) -> None:
    a = regard.attend(*tensors(), implementation=implementation)
    a.output.sum().backward()
    a.received()
    assert sweeps == {"rows": 1, "backward": 1, "columns": 1}


@each_sweep
def test_asked_before_the_backward_it_is_swept_and_stays(
    implementation: str, sweeps: Counter[str]
) -> None:
    given = tensors()
    a = regard.attend(*given, implementation=implementation, **LATER)
    before = a.received().detach()
    assert sweeps == {"rows": 1, "columns": 1}
    torch.testing.assert_close(before, right(*given))
    a.output.sum().backward()
    assert torch.equal(a.received(), before)
    assert sweeps == {"rows": 1, "columns": 1, "backward": 1}


@each_sweep
def test_the_mean_over_those_who_see_a_key_needs_their_number(
    implementation: str, sweeps: Counter[str]
) -> None:
    """What is brought is the mass: who sees a key is counted by a sweep, as are some queries."""
    given = tensors()
    a = regard.attend(*given, mask=regard.Causal(), implementation=implementation, **LATER)
    a.output.sum().backward()
    exact = regard.attend(*given, mask=regard.Causal(), implementation="dense")
    torch.testing.assert_close(a.received(per="visible"), exact.received(per="visible"))
    torch.testing.assert_close(a.received(7), exact.received(7))
    torch.testing.assert_close(a.received(), exact.received())
    assert sweeps["columns"] == 2


@each_sweep
def test_it_comes_along_with_maps_and_diagonals_asked_later(implementation: str) -> None:
    given = tensors()
    a = regard.attend(*given, implementation=implementation, **LATER)
    a.output.sum().backward()
    asked = (regard.Received(), regard.Pooled(8), regard.Offsets(), regard.Entropy())
    exact = regard.attend(*given, implementation="dense").summarize(*asked)
    for summary, found in a.summarize(*asked).items():
        torch.testing.assert_close(found, exact[summary], msg=repr(summary))


@each_sweep
def test_dropout_does_not_show(implementation: str) -> None:
    given = tensors()
    name = "tiled" if implementation == "cpu" else implementation  # the kernels have none
    a = regard.attend(*given, dropout=0.5, implementation=name, **LATER)
    a.output.sum().backward()
    assert a._known.brought.mass is not None
    torch.testing.assert_close(a.received().detach(), right(*given))


def test_learned_biases_and_sinks() -> None:
    given = tensors()
    bias, sink = torch.randn(4, 70, 70, requires_grad=True), torch.zeros(4, requires_grad=True)
    rule = {"bias": bias, "sink": sink, "softcap": 3.0}
    a = regard.attend(*given, implementation="tiled", **rule, **LATER)
    mine = torch.autograd.grad(a.output.square().sum(), [bias, sink])
    plain = regard.attend(*given, implementation="tiled", **rule)
    theirs = torch.autograd.grad(plain.output.square().sum(), [bias, sink])
    assert all(torch.equal(x, y) for x, y in zip(mine, theirs, strict=True))
    torch.testing.assert_close(a.received().detach(), right(*given, **rule))


# ── many ways to go backward ─────────────────────────────────────────────────────────────────

LOSSES: dict[str, Callable[[regard.Attention], Tensor]] = {
    "output": lambda a: a.output.sum(),
    "lse": lambda a: a.lse.sum(),
    "entropy": lambda a: a.entropy().sum(),
    "all of them": lambda a: a.output.sum() + a.lse.sum() + a.entropy().sum(),
    "a few numbers": lambda a: a.output[0, 0, 3, 1],
}


@each_sweep
@pytest.mark.parametrize("loss", LOSSES)
def test_whatever_has_a_gradient(implementation: str, loss: str, sweeps: Counter[str]) -> None:
    given = tensors()
    known: dict[str, Any] = {"summaries": (regard.Entropy(),), "implementation": implementation}
    a, plain = regard.attend(*given, **known, **LATER), regard.attend(*given, **known)
    mine, theirs = (
        torch.autograd.grad(LOSSES[loss](one), given, allow_unused=True) for one in (a, plain)
    )
    assert all(x is y or torch.equal(x, y) for x, y in zip(mine, theirs, strict=True))
    assert torch.equal(a.received(), plain.received())
    assert sweeps["columns"] == 1, "that of the plain one"


@each_sweep
def test_only_some_of_the_inputs_learn(implementation: str, sweeps: Counter[str]) -> None:
    for learns in range(3):
        given = [t.detach().requires_grad_(n == learns) for n, t in enumerate(tensors())]
        a = regard.attend(*given, implementation=implementation, **LATER)
        a.output.sum().backward()
        torch.testing.assert_close(a.received().detach(), right(*given))
    assert sweeps["columns"] == 0


@each_sweep
def test_twice_over_one_graph_and_several_in_one(implementation: str, sweeps: Counter[str]) -> None:
    q, k, v = tensors(heads=(2, 2))
    masks = regard.Causal(), regard.Window(5), None
    several = [
        regard.attend(q, k, v, mask=mask, implementation=implementation, **LATER) for mask in masks
    ]
    loss = sum(a.output.square().sum() for a in several)
    for _ in range(2):
        loss.backward(retain_graph=True)
        for a, mask in zip(several, masks, strict=True):
            torch.testing.assert_close(a.received().detach(), right(q, k, v, mask=mask))
    assert sweeps == {"rows": 3, "backward": 6}


@each_sweep
def test_a_backward_that_does_not_pass_brings_nothing(
    implementation: str, sweeps: Counter[str]
) -> None:
    """An entropy asked for afterwards has a graph of its own."""
    given = tensors()
    a = regard.attend(*given, implementation=implementation, **LATER)
    a.entropy().sum().backward()
    torch.testing.assert_close(a.received().detach(), right(*given))
    assert sweeps["columns"] == 1


@each_sweep
def test_known_or_not_received_has_a_gradient(implementation: str, sweeps: Counter[str]) -> None:
    q, k, v = tensors()
    a = regard.attend(q, k, v, mask=regard.Causal(), implementation=implementation, **LATER)
    a.output.sum().backward()
    exact = regard.attend(q, k, v, mask=regard.Causal(), implementation="dense")
    mine, theirs = (
        torch.autograd.grad(one.received(groups="mean").square().sum(), [q, k])
        for one in (a, exact)
    )
    for x, y in zip(mine, theirs, strict=True):
        torch.testing.assert_close(x, y)
    assert sweeps["columns"] == 0
    with torch.no_grad():
        assert not a.received().requires_grad


def test_a_graph_of_the_gradient_does_not_reach_the_mass() -> None:
    given = tensors()
    a = regard.attend(*given, implementation="cpu", **LATER)
    torch.autograd.grad(a.output.sum(), given, create_graph=True)
    assert not a.detach().received().requires_grad


# ── where none comes ─────────────────────────────────────────────────────────────────────────


def test_without_gradients_it_is_ignored(sweeps: Counter[str]) -> None:
    q, k, _ = (t.detach() for t in tensors())
    with_it, bare = regard.attend(q, k, k, **LATER), regard.attend(q, k, k)
    with torch.no_grad():
        off = regard.attend(*(t.requires_grad_() for t in (q, k)), k, **LATER)
    for a in (with_it, bare, off):
        assert a.implementation == bare.implementation
        torch.testing.assert_close(a.received(), right(q, k, k))
    assert sweeps["columns"] == 3


def test_with_gradients_an_own_implementation_is_chosen() -> None:
    q, k, _ = tensors(tokens=9)  # few queries: torch's operator is faster
    assert regard.attend(q, k, k).implementation == "library"
    assert regard.attend(q, k, k, **LATER).implementation == "cpu"
    with torch.no_grad():
        assert regard.attend(q, k, k, **LATER).implementation == "library"
    with pytest.raises(UnavailableError, match="it measures nothing on the way"):
        regard.attend(q, k, k, implementation="library", **LATER)


def test_the_definition_keeps_its_matrix() -> None:
    given = tensors()
    a = regard.attend(*given, implementation="dense", **LATER)
    a.output.sum().backward()
    assert torch.equal(a.received().detach(), right(*given))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_runs_it_again(reentrant: bool) -> None:
    given, kept = tensors(), []

    def layer(*inside: Tensor) -> Tensor:
        kept.append(regard.attend(*inside, **LATER))
        return kept[-1].output

    checkpoint(layer, *given, use_reentrant=reentrant).square().sum().backward()
    grads = [t.grad for t in given]
    plain = torch.autograd.grad(regard.attend(*given).output.square().sum(), given)
    assert all(torch.equal(x, y) for x, y in zip(grads, plain, strict=True))
    # a layer run again in full has gradients the second time, one run again in part the first
    assert kept[-1 if reentrant else 0]._known.brought.mass is not None
    for a in kept:
        torch.testing.assert_close(a.received().detach(), right(*given))


def test_compiled() -> None:
    needs_one_graph()

    def step(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        a = regard.attend(q, k, v, mask=regard.Causal(), **LATER)
        return a.output, a.received()

    given = tensors()
    output, mass = torch.compile(step, fullgraph=True, backend="aot_eager")(*given)
    torch.testing.assert_close(mass.detach(), right(*given, mask=regard.Causal()))
    plain = regard.attend(*given, mask=regard.Causal()).output
    for mine, theirs in zip(
        *(torch.autograd.grad(one.sum(), given) for one in (output, plain)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_while_somebody_else_looks_nothing_is_left_to_the_backward(sweeps: Counter[str]) -> None:
    """A mode may hold back tensors or make others of them."""

    class Looking(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    given = tensors()
    with Looking():
        a = regard.attend(*given, implementation="tiled", **LATER)
    a.output.sum().backward()
    torch.testing.assert_close(a.received().detach(), right(*given))
    assert sweeps["columns"] == 1


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(
    "wrong",
    [
        regard.Entropy(), regard.Top(3), regard.Pooled(4), regard.Offsets(), regard.Received(5),
        regard.Received(slice(0, 3)), regard.Received([0]),
    ],
    ids=repr,
)  # fmt: skip
def test_other_summaries_are_refused(wrong: regard.Summary, gradients: bool) -> None:
    given = [t.detach().requires_grad_(gradients) for t in tensors(tokens=6)]
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            regard.attend(*given, in_backward=(regard.Received(), wrong))
        assert repr(wrong) in str(caught.value)
        assert "give (regard.Received(),)" in str(caught.value)
        regard.attend(*given)  # what is settled for calls alike does not let it through


@pytest.mark.parametrize("wrong", ["received", 3, None, regard.Received, [regard.Received]])
def test_what_is_no_summary_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="is not a summary"):
        regard.attend(*tensors(tokens=6), in_backward=wrong)


def test_calls_settled_without_gradients_do_not_settle_those_with(sweeps: Counter[str]) -> None:
    q, k, _ = tensors()
    bare = [t.detach() for t in (q, k, k)]
    for _ in range(2):
        regard.attend(*bare, **LATER)
    a = regard.attend(q, k, k, **LATER)
    a.output.sum().backward()
    sweeps.clear()
    a.received()
    assert not sweeps
    b = regard.attend(*bare, **LATER)
    assert b._known.brought is None


# ── lifetime ─────────────────────────────────────────────────────────────────────────────────


@each_sweep
@pytest.mark.parametrize("walked", [False, True], ids=["no backward", "backward"])
@pytest.mark.parametrize("summaries", [(), (regard.Entropy(),)], ids=["bare", "entropy"])
def test_nothing_lives_longer_than_the_attention(
    implementation: str, walked: bool, summaries: Any, no_collector: None
) -> None:
    q, k, v = tensors()
    big = q * 1.0  # kept by the graph and by the attention
    a = regard.attend(big, k, v, implementation=implementation, summaries=summaries, **LATER)
    if walked:
        (a.output.sum() + a.entropy().sum()).backward()
    a.received()
    held = [weakref.ref(t) for t in (a, big, q, k, v, a.output)]
    mass = a._known.values[regard.Received()].mass
    held.append(weakref.ref(mass))
    del a, big, q, k, v, mass
    assert [reference() is None for reference in held] == [True] * len(held)


@each_sweep
def test_the_graph_does_not_hold_the_attention(implementation: str, no_collector: None) -> None:
    given = tensors()
    a = regard.attend(*given, implementation=implementation, **LATER)
    output, dead = a.output, weakref.ref(a)
    del a
    assert dead() is None
    output.sum().backward()
    assert given[0].grad is not None


@each_sweep
def test_one_without_a_graph_hears_of_it_too(implementation: str, sweeps: Counter[str]) -> None:
    given = tensors()
    a = regard.attend(*given, implementation=implementation, **LATER)
    apart = a.detach()
    a.output.sum().backward()
    found = apart.received()
    assert not found.requires_grad and sweeps["columns"] == 0
    torch.testing.assert_close(found, right(*given))
    a.release()


def test_layers_pass_it_on(sweeps: Counter[str]) -> None:
    torch.manual_seed(0)
    layer, x = regard.nn.MultiHeadAttention(16, 4), torch.randn(2, 40, 16)
    a = layer.look(x, **LATER)
    a.output.sum().backward()
    assert a.received().shape == (2, 4, 40) and sweeps["columns"] == 0


# ── the handing over ─────────────────────────────────────────────────────────────────────────


def test_it_is_expected_only_within_the_block() -> None:
    outer, inner = Brought(), Brought()
    assert _EXPECTED.get() is None
    with bringing(outer):
        with pytest.raises(KeyError), bringing(inner):
            assert _EXPECTED.get() is inner
            raise KeyError
        assert _EXPECTED.get() is outer
    assert _EXPECTED.get() is None and outer.mass is None
