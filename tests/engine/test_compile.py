"""torch.compile, torch.export, autocast, checkpointing and the rest of what torch does to code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import Any

import numpy as np
import pytest
import setuptools  # noqa: F401 - inductor imports it late, when others may have touched distutils
import torch
from torch import Tensor, library, nn
from torch._library.custom_ops import CustomOpDef
from torch.utils.checkpoint import checkpoint

import regard
from installed import needs_one_graph
from regard.engine import ops
from regard.engine.backends import library as fused
from regard.engine.call import RowState
from regard.engine.codec import Spec, measure_text
from regard.errors import InputError
from regard.score import ALiBi, BiasTable, ScoreRule
from regard.summary import Matching

near = bind(torch.testing.assert_close, rtol=1e-12, atol=1e-12)


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    """Each test compiles for itself."""
    torch.compiler.reset()


def tensors(queries: int = 10, keys: int = 12, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """q, k, v with four query heads on two key heads."""
    dice = torch.Generator().manual_seed(0)
    sizes = ((4, queries), (2, keys), (2, keys))
    made = [torch.randn(2, heads, n, 8, generator=dice, dtype=dtype) for heads, n in sizes]
    return [tensor.requires_grad_() for tensor in made]


# ── compiled functions ───────────────────────────────────────────────────────────────────────


def output_and_entropy(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Causal())
    return [a.output, a.entropy()]


def padded(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    lengths = torch.tensor([3, 12])
    a = regard.attend(q, k, v, mask=regard.Causal() & regard.Padding(lengths))
    return [a.output, a.lse.clamp(min=-100)]


def hidden_by_a_table(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    visible = torch.arange(q.shape[-2])[:, None] >= torch.arange(k.shape[-2]) - 3
    return [regard.attend(q, k, v, mask=visible).output]


def everything_at_once(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    sums = (regard.Entropy(), regard.Top(2), regard.Pooled(4), regard.Received())
    rule = {"bias": ALiBi(torch.ones(4).double()), "softcap": 5.0, "sink": torch.ones(4).double()}
    a = regard.attend(q, k, v, summaries=sums, **rule)
    found = a.summarize(*sums)
    maps = found[regard.Pooled(4)].detach()
    top = found[regard.Top(2)]
    return [a.output, found[regard.Entropy()], top.weights, maps, found[regard.Received()]]


def columns(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Window(4))
    by = torch.arange(q.shape[-2]) / 5 - 1
    return [
        a.received(), a.received(3, per="visible", groups="mean"),
        a.received(how="mean", weighted_by=by), a.received(4, weighted_by=by),
    ]  # fmt: skip


def largest_of_columns(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q.detach(), k.detach(), v, mask=regard.Causal())
    by = torch.arange(q.shape[-2]) / 5 - 1
    return [
        a.output,
        a.received(how="max").detach(),
        a.received(how="max", weighted_by=by).detach(),
    ]


def slices(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Causal())
    return [a[..., -1, :], a.rows([0, 2]), a[:, 1, ::3, 2], a.scores[..., -1, :3]]


def last_row(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Causal())
    return [a[..., -1, :], a[..., q.shape[-2] // 2, 1]]


def products(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """By the method's name: torch.compile sends `object @ tensor` to torch, which knows no a."""
    a = regard.attend(q, k, v)
    return [a.__matmul__(k[:, :1, :, :3]), a.T.__matmul__(q[..., :2])]


def infix_products(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v)
    return [a @ k[:, :1, :, :3], a.T @ q[..., :2]]


def numbers(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Causal())
    found = [a.max_score(), a.max_logit(), a.distance(), a.concentration()]
    return [a.output, a.entropy(normalized=True), *(number.detach() for number in found)]


def torchs_twin(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    run = regard.scaled_dot_product_attention
    return [run(q, k, v, is_causal=True, enable_gqa=True)]


def replayed(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Causal())
    again = regard.replay(q.detach(), k.detach(), a.lse.detach(), mask=regard.Causal())
    return [a.output, again.received()]


FUNCTIONS = [
    output_and_entropy, padded, hidden_by_a_table, everything_at_once, columns, slices, products,
    numbers, torchs_twin, replayed, largest_of_columns,
]  # fmt: skip


def gradients(answers: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Of a weighted sum of everything that has a gradient."""
    total = sum(
        (answer * torch.linspace(0.5, 1.5, answer.numel()).reshape(answer.shape)).sum()
        for answer in answers
        if answer.requires_grad
    )
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, found, strict=True)]


def expect_same(compiled: Callable[..., list[Tensor]], plain: Any, leaves: list[Tensor]) -> None:
    found, right = compiled(*leaves), plain(*leaves)
    for one, other in zip(found, right, strict=True):
        near(one, other)
    for one, other in zip(gradients(found, leaves), gradients(right, leaves), strict=True):
        near(one, other)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_functions_say_what_plain_ones_say(function):
    needs_one_graph()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expect_same(compiled, function, tensors())


@pytest.mark.parametrize("name", ["cpu", "tiled"])
def test_an_implementation_may_be_named_in_compiled_code(name):
    needs_one_graph()

    def function(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        a = regard.attend(q, k, v, mask=regard.Causal() & regard.Window(4), implementation=name)
        return [a.output, a.entropy(), a.received()]

    given = tensors()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for found, right in zip(compiled(*given), function(*given), strict=True):
        assert torch.equal(found, right)


def test_one_that_cannot_says_so_when_compiled_code_runs(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, implementation="triton").output

    with pytest.raises(regard.errors.UnavailableError, match="'triton' cannot serve this call"):
        torch.compile(function, fullgraph=True, backend="aot_eager")(*tensors())


def test_infix_products_break_the_graph_and_are_right():
    compiled = torch.compile(infix_products, backend="aot_eager")
    expect_same(compiled, infix_products, tensors())


def test_infix_products_with_square_matrices_are_not_swapped():
    """Dynamo has one call for a @ x and x @ a, and their shapes may agree."""

    def both(q, k, v):
        a = regard.attend(q, k, v)
        x = k[:, :1] @ k[:, :1].mT  # (B, 1, S, S)
        return [a @ x, x @ a]

    expect_same(torch.compile(both, backend="aot_eager"), both, tensors(12, 12))


def test_inductor_compiles_it_too():
    needs_one_graph()
    compiled = torch.compile(output_and_entropy, fullgraph=True)
    expect_same(compiled, output_and_entropy, tensors())


def test_a_mask_tensor_is_an_input_not_a_constant():
    """Other lengths give other answers without compiling again."""

    def function(q, k, v, lengths):
        return [regard.attend(q, k, v, mask=regard.Padding(lengths)).output]

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    q, k, v = tensors()
    compiled(q, k, v, torch.tensor([5, 12]))
    with torch.compiler.set_stance("fail_on_recompile"):
        for lengths in ([5, 12], [0, 1], [12, 3]):
            given = torch.tensor(lengths)
            near(compiled(q, k, v, given), function(q, k, v, given))


@pytest.mark.parametrize("function", [columns, last_row, padded])
def test_lengths_may_vary_without_compiling_again(function):
    needs_one_graph()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)
    compiled(*tensors(10, 13))
    with torch.compiler.set_stance("fail_on_recompile"):
        for queries, keys in ((11, 12), (40, 70)):
            expect_same(compiled, function, tensors(queries, keys))


def test_validation_works_while_tracing():
    needs_one_graph()
    compiled = torch.compile(output_and_entropy, fullgraph=True, backend="aot_eager")
    q, k, v = tensors()
    with pytest.raises(Exception, match="query dim 8 ≠ key dim 7"):
        compiled(q, k[..., :7].contiguous(), v)


# ── export ───────────────────────────────────────────────────────────────────────────────────


class Layer(nn.Module):
    """A layer with a mask that comes in, and a statistic that goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.nn.MultiHeadAttention(16, 4, kv_heads=2)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        mask = regard.Causal() & regard.Padding(lengths)
        entropy = self.attention.look(x, mask=mask).entropy()
        return self.attention(x, mask=mask), entropy


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed length", "any length"])
def test_a_layer_exports(dynamic, strict):
    if strict:
        needs_one_graph()
    torch.manual_seed(0)
    layer = Layer()
    x, lengths = torch.randn(2, 9, 16), torch.tensor([4, 9])
    tokens = torch.export.Dim("tokens", min=2, max=500)
    shapes = {"x": {1: tokens}, "lengths": {}} if dynamic else None
    program = torch.export.export(layer, (x, lengths), dynamic_shapes=shapes, strict=strict)
    for count in (9, 3, 200) if dynamic else (9,):
        given = torch.randn(2, count, 16), torch.tensor([count // 2, count])
        for found, right in zip(program.module()(*given), layer(*given), strict=True):
            torch.testing.assert_close(found, right)


# ── operators ────────────────────────────────────────────────────────────────────────────────


def _layouts() -> dict[str, Callable[[int, int], Tensor]]:
    """(heads, tokens) → (2, heads, tokens, 8), laid out in memory in several ways."""
    draw = bind(torch.randn, dtype=torch.float64)
    return {
        "contiguous": lambda heads, n: draw(2, heads, n, 8),
        "transposed": lambda heads, n: draw(2, n, heads, 8).transpose(1, 2),
        "expanded": lambda heads, n: draw(1, heads, n, 8).expand(2, heads, n, 8),
        "columns first": lambda heads, n: draw(2, heads, 8, n).transpose(2, 3),
    }


Arguments = tuple[Any, ...]


def _problem(layout: str, heads: int, key_heads: int, learn: bool = True) -> dict[str, Any]:
    torch.manual_seed(0)
    make = _layouts()[layout]
    q, k, v = make(heads, 5), make(key_heads, 7), make(key_heads, 7)
    table, sink = torch.randn(heads, 5, 7).double(), torch.randn(heads).double()
    mask = regard.Causal() & regard.Padding(torch.tensor([4, 7]))
    spec = Spec.of(mask, ScoreRule(0.5, 4.0, BiasTable(table), sink))
    given = {"q": q, "k": k, "v": v, "arrays": [torch.tensor([4, 7]), table, sink], "spec": spec}
    given["state"] = _state(given)
    if learn:
        for tensor in (q, k, v, table, sink):
            tensor.requires_grad_()
    return given


def _state(given: dict[str, Any]) -> list[Tensor]:
    q, k, v, arrays = (given[name] for name in ("q", "k", "v", "arrays"))
    return list(RowState(*ops.rows(q, k, v, arrays, [], [], None, given["spec"].asking())[1:3]))


def _rows(g: dict[str, Any]) -> Arguments:
    marks = [torch.arange(5) % 2, torch.arange(7) % 2]
    match = Matching(*marks)
    asked = measure_text((regard.Entropy(), regard.Top(2), regard.Pooled(3), match))
    spec = g["spec"].asking(output=True, asked=asked)
    return g["q"], g["k"], g["v"], g["arrays"], [], marks, None, spec


def _rows_and_columns(g: dict[str, Any]) -> Arguments:
    every = (regard.Top(2), regard.Pooled(3), regard.Received(per="visible"), regard.Offsets())
    spec = g["spec"].asking(output=True, asked=measure_text((regard.Entropy(), *every)))
    return g["q"], g["k"], g["v"], g["arrays"], [], [], None, spec


def _given_rows(g: dict[str, Any]) -> Arguments:
    spec = g["spec"].asking(output=True)
    return g["q"], g["k"], g["v"], g["arrays"], g["state"], [], None, spec


def _dropped_rows(g: dict[str, Any]) -> Arguments:
    spec = g["spec"].asking(output=True, dropout=0.5)
    return g["q"], g["k"], g["v"], g["arrays"], [], [], torch.tensor(3), spec


def _columns(g: dict[str, Any]) -> Arguments:
    chosen = torch.arange(5) > 1
    spec = g["spec"].asking(seen=True, offsets=True, largest=True)
    y = torch.randn(*g["q"].shape[:-1], 2).double().requires_grad_()
    by = torch.rand(*g["q"].shape[:-1]).double().requires_grad_()
    return g["q"], g["k"], g["arrays"], g["state"], chosen, y, spec, by


def _cells(g: dict[str, Any]) -> Arguments:
    place = [torch.tensor([0, 3]), torch.tensor([4, 1, 1]), torch.tensor([6, 0])]
    return g["q"], g["k"], g["arrays"], g["state"], place, g["spec"].asking(what="scores")


def _attach(g: dict[str, Any]) -> Arguments:
    value, keys = torch.rand(2, 4, 5, 2).double(), torch.randint(7, (2, 4, 5, 2))
    return g["q"], g["k"], g["arrays"], g["state"], value, keys, g["spec"].asking()


def _refuse(g: dict[str, Any]) -> Arguments:
    return torch.rand(2, 4, 5), g["q"].detach(), g["k"].detach(), "Distance()"


def _gradient(g: dict[str, Any]) -> Arguments:
    arrived = [torch.randn_like(g["v"][:, :1].expand(2, 4, 7, 8)[..., :5, :]), *_shift(g)]
    q, k, v, *arrays = (t.detach() for t in (g["q"], g["k"], g["v"], *g["arrays"]))
    return q, k, v, arrays, g["state"], arrived, "output", g["spec"].asking(output=True)


def _shift(g: dict[str, Any]) -> list[Tensor]:
    lead = g["q"].shape[:-1]
    return [torch.randn(lead).double(), torch.empty(0).double(), torch.randn(lead).double()]


OPERATORS: dict[str, tuple[Any, Callable[[dict[str, Any]], Arguments]]] = {
    "rows": (ops.rows, _rows),
    "rows and columns": (ops.rows, _rows_and_columns),
    "rows under a given lse": (ops.rows, _given_rows),
    "rows with dropout": (ops.rows, _dropped_rows),
    "columns": (ops.columns, _columns),
    "cells": (ops.cells, _cells),
    "attach": (ops.attach, _attach),
    "refuse": (ops.refuse, _refuse),
    "gradient": (ops.gradient, _gradient),
}


def test_every_operator_is_checked_here():
    operators = {name for name, one in vars(ops).items() if isinstance(one, CustomOpDef)}
    assert {name.split()[0] for name in OPERATORS} == operators


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("layout", _layouts())
def test_operators_keep_torchs_contract(name, layout):
    """Schema, autograd registration, fake tensors; and the same under AOT dispatch, which takes
    longer, for every operator once and for the forward in every layout."""
    operator, arguments = OPERATORS[name]
    quick = ("test_schema", "test_autograd_registration", "test_faketensor")
    every = layout == "contiguous" or name == "rows"
    checks = (*quick, "test_aot_dispatch_dynamic") if every else quick
    library.opcheck(operator, arguments(_problem(layout, 4, 2)), test_utils=checks)


def test_operators_keep_torchs_contract_without_groups():
    for name in ("rows", "columns", "cells", "gradient"):
        operator, arguments = OPERATORS[name]
        library.opcheck(operator, arguments(_problem("contiguous", 4, 4, learn=False)))


@pytest.mark.parametrize("layout", _layouts())
def test_the_library_operator_keeps_torchs_contract(layout):
    torch.manual_seed(0)
    make = _layouts()[layout]
    q, k, v = (make(heads, 5).requires_grad_() for heads in (4, 2, 2))
    spec = Spec.of(regard.Causal(), ScoreRule(0.5)).asking(output=True)
    library.opcheck(fused.flash, (q, k, v, True, spec))


# ── autocast, checkpointing, graphs ──────────────────────────────────────────────────────────


def test_autocast_computes_in_its_dtype_and_gives_gradients_back_in_ours():
    q, k, v = tensors(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = regard.attend(q, k, v, mask=regard.Causal())
        loss = a.output.float().square().sum() + a.entropy().sum()
    assert a.output.dtype == torch.bfloat16
    assert a.lse.dtype == a.entropy().dtype == torch.float32
    halved = [t.detach().bfloat16() for t in (q, k, v)]
    plain = regard.attend(*halved, mask=regard.Causal())
    assert torch.equal(a.output, plain.output)
    assert torch.equal(a[...], plain[...]), "later questions use the cast q and k"
    found = torch.autograd.grad(loss, [q, k, v])
    assert all(g.dtype == torch.float32 and g.isfinite().all() for g in found)
    again = [t.float().requires_grad_() for t in halved]
    b = regard.attend(*again, mask=regard.Causal())
    right = torch.autograd.grad(b.output.square().sum() + b.entropy().sum(), again)
    for mine, exact in zip(found, right, strict=True):
        assert (mine - exact).abs().max() < 0.05 * exact.abs().max()


def test_autocast_leaves_double_precision_alone():
    q, k, v = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert regard.attend(q, k, v).output.dtype == torch.float64


def test_torchs_layers_and_ours_work_together_under_autocast():
    layer = regard.nn.MultiHeadAttention(16, 4)
    x = torch.randn(2, 5, 16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x, mask=regard.Causal())
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gives_the_same_gradients(reentrant):
    leaves = tensors()

    def function(q, k, v):
        return sum(answer.sum() for answer in output_and_entropy(q, k, v))

    right = torch.autograd.grad(function(*leaves), leaves)
    checkpoint(function, *leaves, use_reentrant=reentrant).backward()
    for leaf, expected in zip(leaves, right, strict=True):
        near(leaf.grad, expected)


def test_checkpointing_drops_the_same_cells_again():
    """The seed of the dropout comes from torch's generator, whose state a checkpoint restores."""
    leaves = tensors()

    def function(q, k, v):
        return regard.attend(q, k, v, dropout=0.5).output.square().sum()

    torch.manual_seed(3)
    right = torch.autograd.grad(function(*leaves), leaves)
    torch.manual_seed(3)
    checkpoint(function, *leaves, use_reentrant=False).backward()
    for leaf, expected in zip(leaves, right, strict=True):
        near(leaf.grad, expected)


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_a_graph_may_be_walked_twice(implementation):
    leaves = tensors()
    a = regard.attend(*leaves, implementation=implementation)
    loss = a.output.square().sum() + a.entropy().sum() + a.received().square().sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, leaves)


QUESTIONS = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse,
    "entropy": lambda a: a.entropy(),
    "top": lambda a: a.top(2).weights,
    "received": lambda a: a.received(),
    "rows": lambda a: a.rows(0),
    "product": lambda a: a @ torch.ones(a.shape[-1], dtype=a.dtype),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("implementation", ["cpu", "tiled"])
def test_gradients_of_gradients_are_refused(question, implementation):
    q, k, v = tensors()
    found = QUESTIONS[question](regard.attend(q, k, v, implementation=implementation))
    first = torch.autograd.grad(found.square().sum(), q, create_graph=True)[0]
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.square().sum(), q)


def test_the_definition_has_gradients_of_gradients():
    q, k, v = tensors(3, 4)
    torch.autograd.gradgradcheck(
        lambda *leaves: regard.attend(*leaves, implementation="dense").output, (q, k, v)
    )


@pytest.mark.parametrize("implementation", ["cpu", "tiled", "dense"])
def test_vmap_works_on_the_definition_and_is_refused_by_the_others(implementation):
    q, k, v = (t.detach() for t in tensors())

    def one(q, k, v):
        return regard.attend(q, k, v, implementation=implementation).output

    right = one(q, k, v)
    if implementation == "dense":
        near(torch.vmap(one)(q, k, v), right)
    else:
        with pytest.raises(InputError, match=r"torch\.vmap over regard needs"):
            torch.vmap(one)(q, k, v)


_NUMBERS = {
    "a number": lambda: {"mask": regard.Prefix(10)},
    "numbers": lambda: {"mask": regard.Causal() | regard.Prefix([3, 9])},
    "lengths": lambda: {"mask": regard.Padding([3, 9], [4, 40])},
    "numpy's booleans": lambda: {"mask": np.tri(40, dtype=bool)},
    "numpy's ids": lambda: {"mask": regard.Documents(np.arange(40) // 7)},
    "packed": lambda: {"mask": regard.mask.Packed([0, 10, 40], None, regard.Causal())},
    "a rule": lambda: {"mask": regard.Rule(lambda i, j: (i + j) % 3 > 0)},
    "slopes": lambda: {"bias": regard.ALiBi([0.5, 0.25])},
    "numpy's bias": lambda: {"bias": np.eye(40, dtype=np.float32)},
}


@pytest.mark.parametrize("kind", _NUMBERS)
def test_rules_of_numbers_and_numpy_compile(kind):
    torch._dynamo.reset()
    options = _NUMBERS[kind]()
    q = torch.randn(2, 2, 40, 8)

    def run(q):
        a = regard.attend(q, q, q, **options)
        return a.output, a.entropy()

    compiled = torch.compile(run, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(q), run(q))


def test_a_bias_that_learns_has_its_gradient_in_compiled_code():
    torch._dynamo.reset()
    q, slopes = torch.randn(1, 2, 40, 8), torch.rand(2, requires_grad=True)

    def run(q, slopes):
        return regard.attend(q, q, q, bias=regard.ALiBi(slopes)).output.square().sum()

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    right = torch.autograd.grad(run(q, slopes), slopes)
    torch.testing.assert_close(torch.autograd.grad(compiled(q, slopes), slopes), right)
