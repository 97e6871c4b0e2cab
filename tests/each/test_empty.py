"""No queries, keys, heads, batch entries or numbers in a head: each answer has its shape and is
right, on every implementation."""

from __future__ import annotations

import pytest
import torch

from each.answers import (
    ANSWERS,
    QUESTIONS,
    expect_gradients,
    expect_right,
    expect_top,
    serves,
)
from each.conftest import DEVICE, call_of
from regard.mask import Causal, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi
from regard.testing import Inputs, Yardstick

# batch, heads, queries, keys, dim, value dim
SIZES = {
    "no queries": (2, 2, 0, 5, 16, 16), "no keys": (2, 2, 3, 0, 16, 16),
    "neither": (2, 2, 0, 0, 16, 16), "no heads": (2, 0, 3, 5, 16, 16),
    "no batch entries": (0, 2, 3, 5, 16, 16), "one of each": (1, 1, 1, 1, 1, 1),
    "no values": (1, 2, 3, 5, 16, 0), "many queries, no keys": (1, 1, 70, 0, 16, 16),
    "no queries, many keys": (1, 1, 0, 200, 16, 16),
}  # fmt: skip


def masks_of_every_form(batch: int, keys: int) -> list[Mask | None]:
    lengths = torch.arange(batch, device=DEVICE) % (keys + 1)
    return [
        None, Causal(), Padding(lengths), Window(1) | Prefix(lengths),
        Padding(torch.ones(batch, keys, dtype=torch.bool, device=DEVICE)),
        Rule(lambda i, j: (i + j) % 2 == 0),
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_where_nothing_is_there(size: str, implementation: str) -> None:
    batch, heads, queries, keys, dim, value_dim = SIZES[size]
    for n, mask in enumerate(masks_of_every_form(batch, keys)):
        dtype = torch.bfloat16 if n % 2 else torch.float32
        q, k, v = (
            torch.randn(batch, heads, n, d).to(DEVICE, dtype)
            for n, d in ((queries, dim), (keys, dim), (keys, value_dim))
        )
        slopes = torch.ones(heads, device=DEVICE)
        inputs = Inputs(q, k, v, {"bias": ALiBi(slopes)} if mask is None else {"mask": mask})
        if not serves(inputs, implementation):
            assert implementation in ("library", "hopper")
            continue
        right = Yardstick(call_of(inputs))
        empty = 0 in (batch, heads, queries, keys)
        expect_right(inputs, implementation, right, ANSWERS)
        expect_top(inputs, implementation, right, 3)
        for question in QUESTIONS if mask is None else ():
            if not (empty and question in ("rows", "top")):
                expect_gradients(inputs, implementation, right, question)
