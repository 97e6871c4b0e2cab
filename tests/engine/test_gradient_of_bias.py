"""Gradients of what is added to scores, of learned tables above all: closed forms against autograd
through the definition. Slopes, buckets and sinks alone are in tests/fuzz/packed.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from engine.conftest import draw, qkv

BATCH, HEADS, QUERIES, KEYS = 2, 4, 9, 13
FULL = (BATCH, HEADS, QUERIES, KEYS)
LONG = 140, 530  # more than one tile each way
CAUSAL = regard.Causal()

QUESTIONS: dict[str, Callable[[Any], Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse.masked_fill(a.lse == -torch.inf, 0.0),
    "entropy": lambda a: a.entropy(),
    "top": lambda a: a.top(3).weights,
    "rows": lambda a: a.rows([0, 5]),
    "rows named twice": lambda a: a[..., [3, 3, 1, 3], :],
    "cells named twice": lambda a: a[..., [0, 8, 8], :][..., [2, 2, 12]],
    "cell by cell": lambda a: a[1, [0, 3, 3], [2, 2, 8], [2, 2, 12]],
    "scores": lambda a: a.scores[..., [2, 2], :].masked_fill(a[..., [2, 2], :] == 0, 0.0),
    "received": lambda a: a.received(5, per="visible", groups="mean"),
    "product": lambda a: a @ torch.linspace(-1, 1, a.shape[-1], dtype=a.dtype),
    "transposed product": lambda a: a.T @ torch.linspace(-1, 1, a.shape[-2], dtype=a.dtype),
}
Options = Callable[[Tensor], dict[str, Any]]
RULES: dict[str, tuple[Tensor, Options]] = {
    "table": (draw(*FULL, seed=9), lambda x: {"bias": x}),
    "table, hidden in part": (
        draw(HEADS, QUERIES, KEYS, seed=9),
        lambda x: {"bias": x.masked_fill(x.detach() > 1, -torch.inf), "mask": CAUSAL},
    ),
    "table under a cap": (draw(QUERIES, KEYS), lambda x: {"bias": x, "softcap": 0.8}),
    "alibi from the start": (
        draw(HEADS).abs(),
        lambda x: {"bias": regard.ALiBi(x, align="start"), "mask": regard.Window(4)},
    ),
    "relative, one way": (
        draw(6, HEADS), lambda x: {"bias": regard.RelativeBias(x, False, 5), "mask": CAUSAL},
    ),
    "slopes that are the sink too": (
        draw(HEADS).abs(), lambda x: {"sink": x, "bias": regard.ALiBi(x), "softcap": 1.5},
    ),
}  # fmt: skip
# tables of every shape; without the sink, one number for a whole row would change nothing
SHAPES = [
    (1, HEADS, QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS), (HEADS, 1, 1), (QUERIES, KEYS),
    (1, KEYS), (QUERIES, 1), (KEYS,), (1, 1, 1, 1), (BATCH, 1, 1, KEYS), (1, HEADS, QUERIES, 1),
]  # fmt: skip
SPREAD = {
    f"table {shape}": (
        draw(*shape, seed=4),
        lambda x: {"bias": x, "mask": regard.Window(6), "sink": torch.zeros(HEADS)},
    )
    for shape in SHAPES
}


def gradients(
    name: str, leaf: Tensor, options: Options, questions: Any, size: tuple[int, int]
) -> dict[str, tuple[Tensor, ...]]:
    """Of each question: the gradients of the learned array and of q, k, v."""
    leaves = qkv(*size, batch=(BATCH,), dim=5, dtype=torch.float64, grad=True)
    learned = leaf.clone().requires_grad_()
    a = regard.attend(*leaves, implementation=name, **options(learned))
    grads = {}
    for question in questions:
        answer = QUESTIONS[question](a)
        on = torch.linspace(0.5, 1.5, answer.numel(), dtype=answer.dtype).reshape(answer.shape)
        grads[question] = torch.autograd.grad(
            (answer * on).sum(), [learned, *leaves], retain_graph=True, allow_unused=True,
            materialize_grads=True,
        )  # fmt: skip
    return grads


def compare(
    name: str, rule: tuple[Tensor, Options], questions: Any, size: tuple[int, int] = FULL[2:]
) -> None:
    mine, right = (gradients(by, *rule, questions, size) for by in (name, "dense"))
    for question in questions:
        assert_close(mine[question], right[question], rtol=1e-9, atol=1e-10, msg=question)
        assert right[question][0].abs().max() > 1e-6, "it does depend on what is learned"


@pytest.mark.parametrize("rule", RULES)
def test_every_question(rule: str) -> None:
    compare("tiled", RULES[rule], QUESTIONS)


@pytest.mark.parametrize("rule", SPREAD)
def test_a_table_that_is_spread(rule: str) -> None:
    compare("tiled", SPREAD[rule], ["output", "lse", "cells named twice", "top"])


@pytest.mark.parametrize("shape", [(HEADS, *LONG), (1, LONG[1]), (LONG[0], 1), None], ids=str)
def test_over_several_tiles(shape: tuple[int, ...] | None) -> None:
    def table(x: Tensor) -> dict[str, Any]:
        return {"bias": x, "mask": CAUSAL, "sink": torch.zeros(HEADS)}

    rules = [RULES["alibi from the start"], RULES["relative, one way"]]
    rules = rules if shape is None else [(draw(*shape), table)]
    for rule in rules:
        compare("tiled", rule, ["output", "top"], LONG)


@pytest.mark.parametrize(
    ("leaf", "bias"),
    [
        (draw(HEADS, QUERIES, KEYS), lambda x: x),
        (draw(HEADS).abs(), regard.ALiBi),
        (draw(8, HEADS), lambda x: regard.RelativeBias(x, max_distance=6)),
    ],
    ids=["table", "alibi", "relative"],
)
def test_parts_add_up_to_the_whole(leaf: Tensor, bias: Callable[[Tensor], Any]) -> None:
    q, k, v = qkv(QUERIES, KEYS, dtype=torch.float64)
    learned = leaf.requires_grad_()
    whole = regard.attend(q, k, v, bias=bias(learned), implementation="dense").output
    merged = [
        regard.merge(
            *(
                regard.attend_partial(
                    q[..., i, :], k[..., j, :], v[..., j, :], bias=bias(learned),
                    query_start=i.start, key_start=j.start, total_queries=QUERIES,
                    total_keys=KEYS, implementation="tiled",
                )
                for j in (slice(0, 4), slice(4, KEYS))
            )
        ).finish().output
        for i in (slice(0, 6), slice(6, QUERIES))
    ]  # fmt: skip
    losses = whole.square().sum(), sum(part.square().sum() for part in merged)
    assert_close(*(torch.autograd.grad(loss, learned) for loss in losses))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_the_gradient_has_the_dtype_of_what_was_given(dtype: torch.dtype) -> None:
    table, slopes = draw(6, 6, dtype=dtype), torch.ones(HEADS, dtype=dtype)
    for leaf, bias in ((table, lambda x: x), (slopes, regard.ALiBi)):
        leaf.requires_grad_()
        a = regard.attend(*qkv(dtype=dtype), bias=bias(leaf), implementation="tiled")
        (grad,) = torch.autograd.grad(a.output.sum(), leaf)
        assert grad.dtype == dtype and grad.any()


def test_a_bias_that_learns_is_never_given_a_silent_zero() -> None:
    bias = regard.ALiBi(torch.ones(HEADS, requires_grad=True))
    assert regard.attend(*qkv(), bias=bias).implementation != "cpu"
    with pytest.raises(regard.errors.UnavailableError, match="gives no gradient to a bias"):
        regard.attend(*qkv(), bias=bias, implementation="cpu")
    with torch.no_grad():
        assert regard.attend(*qkv(), bias=bias).implementation == "cpu"
