"""What torch does to code: operators that keep its contract, modes, autocast, checkpoints, and
transforms and derivatives that work as in the definition or are refused in our words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import library as contract
from torch.autograd import forward_ad
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

import regard
from engine.conftest import draw, each_sweep, qkv
from regard.engine import divergence, ops
from regard.engine.backends import library
from regard.engine.operator import Operator
from regard.errors import GradientError, InputError
from regard.summary import Matching, Visible

F64, CAUSAL = torch.float64, regard.Causal()


class Mode(TorchDispatchMode):
    """Passes everything on, as other people's modes may; keeps the calls of our operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "regard":
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))


def answers(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> dict[str, Tensor]:
    """Of every kind, each by an operator of its own where one is needed."""
    torch.manual_seed(0)
    marks = Matching(*(torch.arange(t.shape[-2]) % 2 for t in (q, k)))
    asked = (
        regard.Entropy(), regard.Pooled(3), regard.Pooled(4, "max"), marks, Visible(),
        regard.MaxScore(), regard.MaxLogit(), regard.Concentration(), regard.Received(),
        regard.Received(per="visible"), regard.Offsets(),
    )  # fmt: skip
    a = regard.attend(q, k, v, summaries=asked[: len(asked) // 2], **options)
    top, by = a.top(2), draw(q.shape[-2], dtype=q.dtype)
    made = {"output": a.output, "lse": a.lse, "top": top.weights, "keys": top.keys}
    made |= {repr(s): answer for s, answer in a.summarize(*asked).items()}
    made |= {
        "weights": a[..., [1, 1, 0], :, 1:], "scores": a.scores[..., -1:, 1:],
        "some": a.received(3, how="mean", weighted_by=by), "largest": a.received(how="max"),
        "largest, weighted": a.received(how="max", weighted_by=by),
        "product": a @ draw(k.shape[-2], 2, dtype=q.dtype),
        "transposed": a.T @ draw(q.shape[-2], 2, dtype=q.dtype),
    }  # fmt: skip
    again = regard.replay(q, k, a.lse.detach(), **_rules(options))
    return made | {"distance": again.distance(), "replayed": again.received()}


def _rules(options: dict[str, Any]) -> dict[str, Any]:
    return {n: o for n, o in options.items() if n not in ("implementation", "dropout")}


def loss_of(made: dict[str, Tensor]) -> Tensor:
    """Of everything that has a gradient."""
    refused = (
        "Pooled",
        "Max",
        "Concentration",
        "Offsets",
        "Visible",
        "Matching",
        "largest",
        "dist",
    )
    kept = [t for name, t in made.items() if t.requires_grad and not name.startswith(refused)]
    return sum((t.masked_fill(t == -torch.inf, 0.0).square().sum() for t in kept), torch.zeros(()))


# ── operators ────────────────────────────────────────────────────────────────────────────────

RULES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "lengths": lambda: {"mask": CAUSAL & regard.Padding([3, 7]), "scale": 1 / 3},
    "arrays": lambda: {"mask": torch.ones(2, 1, 5, 7) > 0, "bias": draw(5, 7), "sink": draw(4)},
    "slopes": lambda: {"bias": regard.ALiBi([0.5, 0.25, 1, 2], "start"), "softcap": 5},
    "buckets": lambda: {"bias": regard.RelativeBias(draw(8, 4), False, 20), "sink": draw(4)},
    "a rule": lambda: {"mask": regard.Rule(lambda i, j: (i + j) % 3 > 0)},
    "dropout": lambda: {"dropout": 0.5, "implementation": "tiled"},
    "tiled": lambda: {"implementation": "tiled", "mask": CAUSAL},
    "cpu": lambda: {"implementation": "cpu", "mask": CAUSAL},
}


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_through_an_operator_all_is_as_past_it(rule: str, learns: bool) -> None:
    """Where torch just runs, no operator is called: same bits either way, of gradients too."""
    given, options = [t.requires_grad_(learns) for t in qkv(5, 7, dtype=F64)], RULES[rule]()
    past = answers(*given, **options)
    past_grads = torch.autograd.grad(loss_of(past), given) if learns else ()
    with Mode() as mode:
        through = answers(*given, **options)
        grads = torch.autograd.grad(loss_of(through), given) if learns else ()
    assert {"rows", "columns", "cells"} <= {func._opname for func, _ in mode.calls}
    for name, answer in past.items():
        assert torch.equal(through[name], answer), name
        assert through[name].dtype == answer.dtype, name
        assert through[name].stride() == answer.stride() or not answer.numel(), name
    assert all(map(torch.equal, grads, past_grads))


def test_parts_know_their_place_past_and_through_an_operator() -> None:
    """A finished merge answers by the methods of an attention what was asked of its parts."""
    q, k, v = qkv(20, 70, dtype=F64)
    rule, sink = {"mask": CAUSAL, "bias": regard.ALiBi([0.1, 0.2, 0.3, 0.4])}, draw(4)
    names = ("entropy", "max_score", "max_logit", "concentration", "distance")
    asked = (
        regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Concentration(),
        regard.Distance(), regard.Top(4),
    )  # fmt: skip
    whole = regard.attend(q, k, v, **rule, sink=sink)
    for mode in (Mode(), nullcontext()):
        with mode:
            parts = [
                regard.attend_partial(
                    q, k[..., a:b, :], v[..., a:b, :], **rule, key_start=a, total_keys=70,
                    summaries=asked,
                )
                for a, b in ((0, 30), (30, 70))
            ]  # fmt: skip
        merged = regard.merge(*parts).finish(sink)
        for name in names:
            assert_close(getattr(merged, name)(), getattr(whole, name)())
        assert_close((merged.output, merged.lse), (whole.output, whole.lse))
        assert_close(merged.top(3).weights, whole.top(3).weights)
        assert torch.equal(merged.top(3).keys, whole.top(3).keys)
    bare = regard.attend_partial(q, k, v).finish()
    for ask in (bare.entropy, lambda: bare.top(3), lambda: bare[regard.Entropy()]):
        with pytest.raises(InputError, match="was not asked of attend_partial"):
            ask()


LAYOUTS: dict[str, Callable[[], list[Tensor]]] = {
    "contiguous": lambda: qkv(5, 7, dtype=F64),
    "a head each": lambda: qkv(5, 7, heads=(2, 2), dtype=F64),
    "half": lambda: qkv(5, 7, dtype=torch.bfloat16),
    "no queries": lambda: qkv(0, 7, dtype=F64),
    "tokens first": lambda: [
        t.transpose(1, 2).contiguous().transpose(1, 2) for t in qkv(5, 7, dtype=F64)
    ],
    "columns first": lambda: [t.mT.contiguous().mT for t in qkv(5, 7, dtype=F64)],
    "expanded": lambda: [t.expand(2, -1, -1, -1) for t in qkv(5, 7, batch=(1,), dtype=F64)],
}


def recorded(layout: str, learn: bool = True) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The calls of our operators behind every answer and its gradient, by what they are."""
    given = [t.requires_grad_(learn) for t in LAYOUTS[layout]()]
    heads, exact = given[0].shape[1], torch.promote_types(given[0].dtype, torch.float32)
    table, sink = (
        draw(*size, dtype=exact) for size in ((heads, *given[0].shape[2:3], 7), (heads,))
    )
    rules = {"bias": table.mT.contiguous().mT.requires_grad_(learn), "sink": sink, "softcap": 4.0}
    calls = [
        lambda: answers(*given, mask=CAUSAL & regard.Padding([4, 7]), **rules),
        lambda: answers(*given, dropout=0.5, implementation="tiled"),
        lambda: {"output": regard.attend(*given, in_backward=(regard.Received(),)).output},
        lambda: {"output": regard.attend(*given, implementation="library").output},
        lambda: {"kl": regard.divergence(*(regard.replay(given[0] * n, given[1]) for n in (1, 2)))},
    ]
    with Mode() as mode:
        for call in calls if given[0].numel() else calls[:2]:
            made = call()
            if learn:
                loss_of(made).backward()
    names = {}
    for func, args in mode.calls:
        kinds = [arg[:60] for arg in args if isinstance(arg, str)]
        given = [len(a) if isinstance(a, list) else a is not None for a in args]
        names[f"{func._opname} {kinds[:-1]} {given} {args[-1]}"] = func, args
    return names


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leaves in the same places of memory."""
    return tree_map_only(Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), args)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_keep_torchs_contract(layout: str) -> None:
    """Schema, autograd registration; sizes, strides and dtypes as they are said while tracing."""
    calls = recorded(layout)
    quick = ("test_schema", "test_autograd_registration", "test_faketensor")
    for func, args in calls.values():
        contract.opcheck(func, fresh(args), test_utils=quick)
    if layout == "contiguous":
        each = [one for home in (ops, divergence, library) for one in vars(home).values()]
        operators = {one.name for one in each if isinstance(one, Operator)}
        on_a_gpu = {"fused", "fused_backward"}
        assert {func._opname for func, _ in calls.values()} == operators - on_a_gpu


@pytest.mark.parametrize("name", ["rows", "columns", "cells", "attach", "flash"])
def test_operators_keep_torchs_contract_in_compiled_code(name: str) -> None:
    calls = [call for call in recorded("contiguous").values() if call[0]._opname == name]
    contract.opcheck(*calls[0][:1], fresh(calls[0][1]), test_utils="test_aot_dispatch_dynamic")


# ── autocast, checkpoints, graphs ────────────────────────────────────────────────────────────


def test_autocast_computes_in_its_dtype_and_gives_gradients_back_in_ours() -> None:
    q, k, v = qkv(10, 12, grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = regard.attend(q, k, v, mask=CAUSAL)
        loss = a.output.float().square().sum() + a.entropy().sum()
        assert regard.attend(*qkv(dtype=F64)).output.dtype == F64, "which is left alone"
        meta = (t.to("meta") for t in (q, k, v))
        assert regard.attend(*meta).output.dtype == torch.float32, "other devices are not meant"
    assert a.output.dtype == torch.bfloat16
    assert a.lse.dtype == a.entropy().dtype == torch.float32
    halved = [t.detach().bfloat16() for t in (q, k, v)]
    plain = regard.attend(*halved, mask=CAUSAL)
    assert torch.equal(a.output, plain.output)
    assert torch.equal(a[...], plain[...]), "later questions use the cast q and k"
    grads = torch.autograd.grad(loss, [q, k, v])
    again = [t.float().requires_grad_() for t in halved]
    b = regard.attend(*again, mask=CAUSAL)
    right = torch.autograd.grad(b.output.square().sum() + b.entropy().sum(), again)
    for mine, exact in zip(grads, right, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - exact).abs().max() < 0.05 * exact.abs().max()


def test_torchs_layers_and_ours_work_together_under_autocast() -> None:
    layer = regard.nn.MultiHeadAttention(16, 4)
    x = torch.randn(2, 5, 16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x, mask=CAUSAL)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gives_the_same_gradients(reentrant: bool, dropout: float) -> None:
    """The seed of the dropout comes from torch's generator, whose state a checkpoint restores."""
    leaves = qkv(dtype=F64, grad=True)

    def function(*given: Tensor) -> Tensor:
        a = regard.attend(*given, mask=CAUSAL, dropout=dropout)
        return a.output.square().sum() + a.entropy().sum()

    torch.manual_seed(3)
    right = torch.autograd.grad(function(*leaves), leaves)
    torch.manual_seed(3)
    checkpoint(function, *leaves, use_reentrant=reentrant).backward()
    for leaf, expected in zip(leaves, right, strict=True):
        assert_close(leaf.grad, expected)


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_a_graph_may_be_walked_twice(implementation: str) -> None:
    leaves = qkv(grad=True)
    a = regard.attend(*leaves, implementation=implementation)
    loss = a.output.square().sum() + a.entropy().sum() + a.received().square().sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, leaves)


# ── derivatives of other kinds ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [20, 600])
@pytest.mark.parametrize("implementation", [None, "cpu", "tiled", "library"])
def test_second_derivatives_are_refused(implementation: str | None, tokens: int) -> None:
    q, k, v = qkv(tokens, batch=(1,), heads=(2, 2), grad=True)
    a = regard.attend(q, k, v, implementation=implementation)
    other = regard.attend(*(t.detach() * 2 for t in (q, k, v)))
    for answer in (
        a.output, a.lse, a.entropy(), a.top(2).weights, a.received(), a[..., :3, :], a @ v,
        a.T @ v, regard.divergence(other, a),
    ):  # fmt: skip
        (grad,) = torch.autograd.grad(answer.square().sum(), q, create_graph=True)
        with pytest.raises(GradientError, match=r"second derivative.*implementation='dense'"):
            grad.square().sum().backward()


def test_the_definition_has_second_derivatives() -> None:
    leaves = qkv(3, 4, dtype=F64, grad=True)
    torch.autograd.gradgradcheck(
        lambda *given: regard.attend(*given, implementation="dense").output, leaves
    )


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_functions_of_torch_func(transform: Any) -> None:
    q, k, v = qkv(20)
    for name in (None, "cpu", "tiled"):
        with pytest.raises(GradientError, match=r"torch\.func\.grad.*backward\(\)"):
            transform(lambda q, by=name: regard.attend(q, k, v, implementation=by).output.sum())(q)
    with pytest.raises(GradientError, match=r"torch\.func\.grad"):
        transform(lambda x: (regard.attend(q, k, v) @ x).sum())(v[:, :1])
    transform(lambda q: regard.attend(q, k, v, implementation="dense").output.sum())(q)


def test_vmap_works_on_the_definition_and_is_refused_by_the_others() -> None:
    x = torch.randn(2, 3, 4, 5, 8)
    regard.attend(x[0], x[0], x[0])  # calls alike are settled by now
    for name in (None, "cpu", "library", "tiled"):
        with pytest.raises(InputError, match=r"torch\.vmap over regard.*the whole batch at once"):
            torch.vmap(lambda q, by=name: regard.attend(q, q, q, implementation=by).output)(x)
    mapped = torch.vmap(lambda q: regard.attend(q, q, q, implementation="dense").output)(x)
    assert_close(mapped, regard.attend(x, x, x).output)


def test_forward_mode_is_refused_and_not_zero() -> None:
    """An operator without a forward derivative would give a tangent of 0."""
    q, k, v = qkv(dtype=F64)
    tangent = torch.ones_like(q)

    def output(name: str | None) -> Callable[[Tensor], Tensor]:
        return lambda query: regard.attend(query, k, v, implementation=name).output

    regard.attend(q, k, v)  # settled before
    for name in (None, "tiled", "cpu", "library"):
        with pytest.raises(GradientError, match="forward-mode"):
            torch.func.jvp(output(name), (q,), (tangent,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, tangent)
        with pytest.raises(GradientError, match="implementation='dense'"):
            regard.attend(dual, k, v)
        assert regard.attend(q, k, v).output.shape == q.shape
    _, slope = torch.func.jvp(output("dense"), (q,), (tangent,))
    step = 1e-6
    near = (output("dense")(q + step * tangent) - output("dense")(q - step * tangent)) / (2 * step)
    assert_close(slope, near, rtol=1e-6, atol=1e-8)


@each_sweep
def test_subclasses_modes_and_transforms_are_no_plain_calls(implementation: str) -> None:
    """Whoever looks is given operators: FakeTensorMode and make_fx get through."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    q = qkv()[0]
    right = regard.attend(q, q, q, implementation=implementation)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(q)
        mass = regard.attend(fake, fake, fake, implementation=implementation).received()
    assert type(mass) is type(fake) and mass.shape == right.received().shape
    graph = make_fx(lambda q: regard.attend(q, q, q, implementation=implementation).output)(q)
    assert torch.ops.regard.rows.default in [node.target for node in graph.graph.nodes]
    assert torch.equal(graph(q), right.output)
    own = q.as_subclass(type("Own", (Tensor,), {}))
    assert torch.equal(regard.attend(own, q, q, implementation=implementation).output, right.output)
