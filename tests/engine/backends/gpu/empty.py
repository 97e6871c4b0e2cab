"""Every answer where there are no queries, keys, heads, batch entries or numbers in a head.

TRITON_INTERPRET=1 python empty.py        prints what is wrong
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch
from bounds import within_bounds
from hasten import hasten
from products import fix_products

from each.conftest import call_of
from engine.backends.gpu.answers import (
    ANSWERS,
    QUESTIONS,
    expect_gradients,
    expect_right,
    expect_top,
    serves,
)
from regard.mask import Causal, Mask, Padding, Prefix, Rule, Window
from regard.score import ALiBi
from regard.testing import Inputs, Yardstick

SIZES = {
    "no queries": (2, 2, 0, 5, 16, 16), "no keys": (2, 2, 3, 0, 16, 16),
    "neither": (2, 2, 0, 0, 16, 16), "no heads": (2, 0, 3, 5, 16, 16),
    "no batch entries": (0, 2, 3, 5, 16, 16), "one of each": (1, 1, 1, 1, 1, 1),
    "no values": (2, 2, 3, 5, 16, 0), "many queries, no keys": (1, 1, 70, 0, 16, 16),
    "no queries, many keys": (1, 1, 0, 200, 16, 16),
}  # fmt: skip
NO_PLACES = ("rows", "top")


def masks(batch: int, keys: int) -> list[Mask | None]:
    """Of every form that the kernels have."""
    lengths = torch.arange(batch) % (keys + 1)
    return [
        None, Causal(), Padding(lengths), Window(1) | Prefix(lengths),
        Padding(torch.ones(batch, keys, dtype=torch.bool)), Rule(lambda i, j: (i + j) % 2 == 0),
    ]  # fmt: skip


def wrong(name: str) -> list[str]:
    """Each line names a mask."""
    batch, heads, queries, keys, dim, value_dim = SIZES[name]
    found: list[str] = []
    for n, mask in enumerate(masks(batch, keys)):
        dtype = torch.bfloat16 if n % 2 else torch.float32
        q, k, v = (
            torch.randn(batch, heads, n, d).to(dtype)
            for n, d in ((queries, dim), (keys, dim), (keys, value_dim))
        )
        options = {"bias": ALiBi(torch.ones(heads))} if mask is None else {"mask": mask}
        inputs = Inputs(q, k, v, options)
        assert serves(inputs, "triton")
        right = Yardstick(call_of(inputs))
        empty = 0 in (batch, heads, queries, keys)
        try:
            with within_bounds():
                expect_right(inputs, "triton", right, ANSWERS)
                expect_top(inputs, "triton", right, 3)
                for question in QUESTIONS if dtype == torch.float32 else ():
                    if not (empty and question in NO_PLACES):
                        expect_gradients(inputs, "triton", right, question)
        except Exception as error:  # noqa: BLE001 - each is named
            found.append(f"{name}, {mask}, {dtype}: {error!r:.300}")
    return found


if __name__ == "__main__":
    hasten()
    fix_products()
    lines = [line for name in SIZES for line in wrong(name)]
    print("\n".join(lines))
    sys.exit(bool(lines))
