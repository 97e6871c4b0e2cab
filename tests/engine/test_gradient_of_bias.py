"""Gradients of what is added to scores: closed forms against autograd through the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard

BATCH, HEADS, QUERIES, KEYS = 2, 4, 9, 13
FULL = (BATCH, HEADS, QUERIES, KEYS)
LONG = 140, 530  # more than one tile each way

QUESTIONS: dict[str, Callable[[Any], Tensor]] = {
    "output": lambda a: a.output,
    "lse": lambda a: a.lse.masked_fill(a.lse == -torch.inf, 0.0),
    "entropy": lambda a: a.entropy(),
    "top": lambda a: a.top(3).weights,
    "rows": lambda a: a.rows([0, 5]),
    "rows named twice": lambda a: a[..., [3, 3, 1, 3], :],
    "cells named twice": lambda a: a[..., [0, 8, 8], :][..., [2, 2, 12]],
    "scores": lambda a: a.scores[..., [2, 2], :].masked_fill(a[..., [2, 2], :] == 0, 0.0),
    "received": lambda a: a.received(5, per="visible", groups="mean"),
    "product": lambda a: a @ torch.linspace(-1, 1, a.shape[-1], dtype=a.dtype),
    "transposed product": lambda a: a.T @ torch.linspace(-1, 1, a.shape[-2], dtype=a.dtype),
}


def random(*shape: int, seed: int = 0) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=dice, dtype=torch.float64)


def gradients(
    name: str,
    leaf: Tensor,
    options: Callable[[Tensor], dict[str, Any]],
    question: str = "output",
    size: tuple[int, int] = (QUERIES, KEYS),
) -> list[Tensor]:
    """Of the learned array and of q, k, v."""
    q, k, v = (
        random(BATCH, heads, tokens, 5, seed=heads * tokens).requires_grad_()
        for heads, tokens in ((HEADS, size[0]), (2, size[1]), (2, size[1]))
    )
    learned = leaf.clone().requires_grad_()
    a = regard.attend(q, k, v, implementation=name, **options(learned))
    found = QUESTIONS[question](a)
    weights = torch.linspace(0.5, 1.5, found.numel(), dtype=found.dtype).reshape(found.shape)
    return list(
        torch.autograd.grad(
            (found * weights).sum(), [learned, q, k, v], allow_unused=True, materialize_grads=True
        )
    )


def agree(found: list[Tensor], right: list[Tensor]) -> None:
    assert right[0].abs().max() > 1e-6  # the question does depend on it
    for mine, exact in zip(found, right, strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-9, atol=1e-10)


# ── every kind, every question ───────────────────────────────────────────────────────────────

RULES: dict[str, tuple[Tensor, Callable[[Tensor], dict[str, Any]]]] = {
    "table": (random(*FULL, seed=9), lambda x: {"bias": x}),
    "table, hidden in part": (
        random(HEADS, QUERIES, KEYS, seed=9),
        lambda x: {"bias": x.masked_fill(x.detach() > 1, -torch.inf), "mask": regard.Causal()},
    ),
    "table under a cap": (random(QUERIES, KEYS), lambda x: {"bias": x, "softcap": 0.8}),
    "alibi": (random(HEADS).abs(), lambda x: {"bias": regard.ALiBi(x)}),
    "alibi from the start": (
        random(HEADS).abs(),
        lambda x: {"bias": regard.ALiBi(x, align="start"), "mask": regard.Window(4)},
    ),
    "relative": (random(8, HEADS), lambda x: {"bias": regard.RelativeBias(x, max_distance=6)}),
    "relative, one way": (
        random(6, HEADS),
        lambda x: {"bias": regard.RelativeBias(x, False, 5), "mask": regard.Causal()},
    ),
    "sink": (random(HEADS), lambda x: {"sink": x, "mask": regard.Causal()}),
    "sink beside a bias": (
        random(HEADS),
        lambda x: {"sink": x, "bias": random(QUERIES, KEYS, seed=3), "softcap": 2.0},
    ),
    "slopes that are the sink too": (
        random(HEADS).abs(),
        lambda x: {"sink": x, "bias": regard.ALiBi(x), "softcap": 1.5},
    ),
}


def depends(rule: str, question: str) -> bool:
    """Scores do not know of the sink."""
    return not (rule.startswith("sink") and question == "scores")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("rule", RULES)
def test_every_question(rule: str, question: str) -> None:
    leaf, options = RULES[rule]
    found, right = (gradients(name, leaf, options, question) for name in ("tiled", "dense"))
    if depends(rule, question):
        agree(found, right)
    else:
        assert not found[0].any() and not right[0].any()


@pytest.mark.parametrize("rule", ["sink", "sink beside a bias"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_kernels_know_the_gradient_of_a_sink(rule: str, question: str) -> None:
    leaf, options = RULES[rule]
    found, right = (gradients(name, leaf, options, question) for name in ("cpu", "dense"))
    if depends(rule, question):
        agree(found, right)
    else:
        assert not found[0].any()


# ── tables of every shape ────────────────────────────────────────────────────────────────────

SHAPES = [
    FULL, (1, HEADS, QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS), (HEADS, 1, 1), (QUERIES, KEYS),
    (1, KEYS), (QUERIES, 1), (KEYS,), (1, 1, 1, 1), (BATCH, 1, 1, KEYS), (1, HEADS, QUERIES, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("question", ["output", "lse", "cells named twice", "top"])
def test_a_table_that_is_spread(shape: tuple[int, ...], question: str) -> None:
    def options(table: Tensor) -> dict[str, Any]:
        # without the sink, one number for a whole row would change nothing
        return {"bias": table, "mask": regard.Window(6), "sink": torch.zeros(HEADS)}

    leaf = random(*shape, seed=4)
    agree(*(gradients(name, leaf, options, question) for name in ("tiled", "dense")))


@pytest.mark.parametrize("shape", [(HEADS, *LONG), (1, LONG[1]), (LONG[0], 1)], ids=str)
@pytest.mark.parametrize("question", ["output", "top"])
def test_a_table_over_several_tiles(shape: tuple[int, ...], question: str) -> None:
    def options(table: Tensor) -> dict[str, Any]:
        return {"bias": table, "mask": regard.Causal(), "sink": torch.zeros(HEADS)}

    leaf = random(*shape, seed=4)
    agree(*(gradients(name, leaf, options, question, LONG) for name in ("tiled", "dense")))


@pytest.mark.parametrize("rule", ["alibi", "relative"])
def test_rules_over_several_tiles(rule: str) -> None:
    leaf, options = RULES[rule]
    agree(*(gradients(name, leaf, options, "output", LONG) for name in ("tiled", "dense")))


# ── parts, dtypes, choice ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("leaf", "bias"),
    [
        (random(HEADS, QUERIES, KEYS), lambda x: x),
        (random(HEADS).abs(), regard.ALiBi),
        (random(8, HEADS), lambda x: regard.RelativeBias(x, max_distance=6)),
    ],
    ids=["table", "alibi", "relative"],
)
def test_parts_add_up_to_the_whole(leaf: Tensor, bias: Callable[[Tensor], Any]) -> None:
    q, k = random(BATCH, HEADS, QUERIES, 5), random(BATCH, HEADS, KEYS, 5, seed=1)
    whole, parts = leaf.clone().requires_grad_(), leaf.clone().requires_grad_()
    regard.attend(
        q, k, k, bias=bias(whole), implementation="dense"
    ).output.square().sum().backward()
    merged = [
        regard.merge(
            *(
                regard.attend_partial(
                    q[..., i, :], k[..., j, :], k[..., j, :], bias=bias(parts),
                    query_start=i.start, key_start=j.start, total_queries=QUERIES,
                    total_keys=KEYS, implementation="tiled",
                )
                for j in (slice(0, 4), slice(4, KEYS))
            )
        )
        for i in (slice(0, 6), slice(6, QUERIES))
    ]  # fmt: skip
    sum(part.finish().output.square().sum() for part in merged).backward()
    assert whole.grad is not None and parts.grad is not None
    torch.testing.assert_close(parts.grad, whole.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_the_gradient_has_the_dtype_of_what_was_given(dtype: torch.dtype) -> None:
    q = random(1, HEADS, 6, 8).to(dtype)
    table = random(6, 6).to(dtype).requires_grad_()
    slopes = torch.ones(HEADS, dtype=dtype, requires_grad=True)
    for leaf, bias in ((table, table), (slopes, regard.ALiBi(slopes))):
        regard.attend(q, q, q, bias=bias, implementation="tiled").output.sum().backward()
        assert leaf.grad is not None and leaf.grad.dtype == dtype and leaf.grad.any()


def test_a_bias_that_learns_is_never_given_a_silent_zero() -> None:
    q = random(1, HEADS, 6, 8)
    slopes = torch.ones(HEADS, dtype=torch.float64, requires_grad=True)
    a = regard.attend(q, q, q, bias=regard.ALiBi(slopes))
    assert a.implementation != "cpu"
    with pytest.raises(regard.errors.UnavailableError, match="gives no gradient to a bias"):
        regard.attend(q, q, q, bias=regard.ALiBi(slopes), implementation="cpu")
    with torch.no_grad():
        assert regard.attend(q, q, q, bias=regard.ALiBi(slopes)).implementation == "cpu"
