"""torch.compile and torch.export take whatever is asked of an attention, and say what plain code
says, with the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import setuptools  # noqa: F401 - inductor imports it late, when others may have touched distutils
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from engine.conftest import qkv
from installed import needs_one_graph
from regard.score import ALiBi

NEAR = {"rtol": 1e-12, "atol": 1e-12}
CAUSAL = regard.Causal()
grouped = partial(qkv, dtype=torch.float64, grad=True)
Function = Callable[..., list[Tensor]]


@pytest.fixture(autouse=True)
def forget_compiled_code() -> Iterator[None]:
    """Each test compiles for itself."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def rows(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=CAUSAL)
    numbers = [a.max_score(), a.max_logit(), a.distance(), a.concentration()]
    cells = [a[..., -1, :], a.rows([0, 2]), a[:, 1, ::3, 2], a.scores[..., -1, :3]]
    return [a.output, a.entropy(), *(number.detach() for number in numbers), *cells]


def padded(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=CAUSAL & regard.Padding(torch.tensor([3, 12])))
    return [a.output, a.lse.clamp(min=-100), a.entropy(normalized=True)]


def everything_at_once(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    sums = (regard.Entropy(), regard.Top(2), regard.Pooled(4), regard.Received())
    rule = {"bias": ALiBi(torch.ones(4).double()), "softcap": 5.0, "sink": torch.ones(4).double()}
    a = regard.attend(q, k, v, summaries=sums, **rule)
    answers = a.summarize(*sums)
    maps, top = answers[sums[2]].detach(), answers[sums[1]].weights
    return [a.output, answers[sums[0]], top, maps, answers[sums[3]]]


def columns(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    a = regard.attend(q, k, v, mask=regard.Window(4))
    by = torch.arange(q.shape[-2]) / 5 - 1
    most = a.received(how="max"), a.received(how="max", weighted_by=by)
    return [
        a.received(), a.received(3, per="visible", groups="mean"),
        a.received(how="mean", weighted_by=by), a.received(4, weighted_by=by),
        *(answer.detach() for answer in most),
    ]  # fmt: skip


def products(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """By the method's name: torch.compile sends `object @ tensor` to torch, which knows no a."""
    a = regard.attend(q, k, v)
    return [a.__matmul__(k[:, :1, :, :3]), a.T.__matmul__(q[..., :2])]


def others(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    visible = torch.arange(q.shape[-2])[:, None] >= torch.arange(k.shape[-2]) - 3
    a = regard.attend(q, k, v, mask=visible, in_backward=(regard.Received(),))
    again = regard.replay(q.detach(), k.detach(), a.lse.detach(), mask=visible)
    twin = regard.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return [a.output, a.received(), again.received(), twin]


def packed(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
    starts = torch.tensor([0, 3, 3, 10]), torch.tensor([0, 1, 5, 12])
    a = regard.attend(q, k, v, mask=CAUSAL, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1])
    return [a.output, a.entropy(), a.received()]


def compared(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    teacher = regard.replay(q.detach() * 2, k.detach(), mask=CAUSAL)
    return [regard.divergence(teacher, regard.replay(q, k, mask=CAUSAL), heads="sum")]


def gradients(answers: list[Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """Of a weighted sum of everything that has a gradient."""
    total = sum(
        (answer * torch.linspace(0.5, 1.5, answer.numel()).reshape(answer.shape)).sum()
        for answer in answers
        if answer.requires_grad
    )
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def expect_same(compiled: Function, plain: Function, leaves: list[Tensor]) -> None:
    mine, right = compiled(*leaves), plain(*leaves)
    assert_close(mine, right, **NEAR)
    assert_close(gradients(mine, leaves), gradients(right, leaves), **NEAR)


# what autograd makes of a whole graph is seen by AOT; that Dynamo gets through, without
AHEAD = (everything_at_once, columns)
PLAIN = (rows, padded, products, others, packed, compared)


@pytest.mark.parametrize(
    ("function", "backend"),
    [*((f, "aot_eager") for f in AHEAD), *((f, "eager") for f in PLAIN)],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_compiled_functions_say_what_plain_ones_say(function: Function, backend: str) -> None:
    needs_one_graph()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    expect_same(compiled, function, grouped(10, 12))


@pytest.mark.rest  # a C++ compiler runs; operators are opaque to it as to aot_eager
@pytest.mark.parametrize("function", [*AHEAD, *PLAIN])
def test_inductor_compiles_it_too(function: Function) -> None:
    needs_one_graph()
    expect_same(torch.compile(function, fullgraph=True), function, grouped(10, 12))


def test_lengths_may_vary_without_compiling_again() -> None:
    needs_one_graph()

    def some(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        a = regard.attend(q, k, v, mask=CAUSAL & regard.Padding(torch.tensor([3, 12])))
        cells = [a[..., -1, :], a[..., q.shape[-2] // 2, 1]]
        return [a.output, *cells, a.received(3, per="visible")]

    compiled = torch.compile(some, fullgraph=True, backend="aot_eager", dynamic=True)
    compiled(*grouped(10, 13))
    with torch.compiler.set_stance("fail_on_recompile"):
        for queries, keys in ((11, 12), (40, 70)):
            expect_same(compiled, some, grouped(queries, keys))


def test_a_mask_tensor_is_an_input_not_a_constant() -> None:
    """Other lengths give other answers without compiling again."""

    def function(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        return regard.attend(q, k, v, mask=regard.Padding(lengths)).output

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    given = grouped(10, 12)
    compiled(*given, torch.tensor([5, 12]))
    with torch.compiler.set_stance("fail_on_recompile"):
        for numbers in ([5, 12], [0, 1], [12, 3]):
            lengths = torch.tensor(numbers)
            assert_close(compiled(*given, lengths), function(*given, lengths), **NEAR)


NUMBERS: dict[str, Callable[[], dict[str, Any]]] = {
    "a number": lambda: {"mask": regard.Prefix(10)},
    "numbers": lambda: {"mask": CAUSAL | regard.Prefix([3, 9])},
    "lengths": lambda: {"mask": regard.Padding([3, 9], [4, 40])},
    "numpy's booleans": lambda: {"mask": np.tri(40, dtype=bool)},
    "numpy's ids": lambda: {"mask": regard.Documents(np.arange(40) // 7)},
    "packed": lambda: {"mask": regard.mask.Packed([0, 10, 40], None, CAUSAL)},
    "a rule": lambda: {"mask": regard.Rule(lambda i, j: (i + j) % 3 > 0)},
    "slopes": lambda: {"bias": regard.ALiBi([0.5, 0.25, 0.1, 0.1])},
    "numpy's bias": lambda: {"bias": np.eye(40, dtype=np.float32)},
    "kernels by name": lambda: {"implementation": "cpu", "mask": CAUSAL & regard.Window(4)},
    "tiles by name": lambda: {"implementation": "tiled", "mask": CAUSAL & regard.Window(4)},
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", NUMBERS)
def test_rules_of_numbers_and_numpy_compile(kind: str) -> None:
    if "name" in kind:
        needs_one_graph()
    options, (q, k, v) = NUMBERS[kind](), qkv(40)

    def run(q: Tensor) -> tuple[Tensor, ...]:
        a = regard.attend(q, k, v, **options)
        return a.output, a.entropy()

    assert_close(torch.compile(run, backend="eager", fullgraph=True)(q), run(q))


def test_a_bias_that_learns_has_its_gradient_in_compiled_code() -> None:
    q, slopes = qkv(40)[0], torch.rand(4, requires_grad=True)

    def run(q: Tensor, slopes: Tensor) -> Tensor:
        return regard.attend(q, q, q, bias=ALiBi(slopes)).output.square().sum()

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert_close(*(torch.autograd.grad(f(q, slopes), slopes) for f in (compiled, run)))


def test_infix_products_break_the_graph_and_are_not_swapped() -> None:
    """Dynamo has one call for a @ x and x @ a, and their shapes may agree."""

    def both(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        a = regard.attend(q, k, v)
        x = k[:, :1] @ k[:, :1].mT  # (B, 1, S, S)
        return [a @ x, x @ a, a.T @ q[..., :2]]

    expect_same(torch.compile(both, backend="eager"), both, grouped(12))


def test_what_cannot_be_is_refused_by_compiled_code_too(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_one_graph()
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    q, k, v = grouped()

    def by_triton(q: Tensor) -> Tensor:
        return regard.attend(q, k, v, implementation="triton").output

    compiled = torch.compile(by_triton, fullgraph=True, backend="eager")
    with pytest.raises(regard.errors.UnavailableError, match="'triton' cannot serve this call"):
        compiled(q)
    with pytest.raises(Exception, match="query dim 8 ≠ key dim 7"):
        torch.compile(rows, fullgraph=True, backend="eager")(q, k[..., :7].contiguous(), v)


class Layer(nn.Module):
    """A layer with a mask that comes in, and a statistic that goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.nn.MultiHeadAttention(16, 4, kv_heads=2)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        mask = CAUSAL & regard.Padding(lengths)
        entropy = self.attention.look(x, mask=mask).entropy()
        return self.attention(x, mask=mask), entropy


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_a_layer_exports_for_any_length(strict: bool) -> None:
    if strict:
        needs_one_graph()
    layer, tokens = Layer(), torch.export.Dim("tokens", min=2, max=500)
    program = torch.export.export(
        layer, (torch.randn(2, 9, 16), torch.tensor([4, 9])), strict=strict,
        dynamic_shapes={"x": {1: tokens}, "lengths": {}},
    )  # fmt: skip
    for count in (9, 3, 200):
        given = torch.randn(2, count, 16), torch.tensor([count // 2, count])
        assert_close(program.module()(*given), layer(*given))
